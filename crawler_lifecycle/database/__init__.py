"""Connections, transactions and tables of SQLite, MySQL and MariaDB.

`database` holds the connections, `transactions` makes a method one transaction and locks a run's row, `pages` passes a
thousand rows to one statement, and `migrate` makes and checks the tables.
"""
