"""The rows of this capability in SQLite, MySQL and MariaDB."""
