"""Adapter for SQLite, MySQL and MariaDB.

`store` builds the ports from classes with one duty each, in modules with the names of the duties. `database` holds the
connections, `transactions` makes a method one transaction and locks a run's row, `schema` lists the tables, `migrate`
makes and checks the tables. `pages` passes a thousand rows to one statement, and `reading` turns rows into the
contract's models.
"""
