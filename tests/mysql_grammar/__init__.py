"""Checks statements against the grammar of MySQL: MariaDB, on which the tests run, accepts some of its own."""
