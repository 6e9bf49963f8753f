"""Adapter for SQLite, MySQL and MariaDB.

`store` builds the five ports, a class for each duty: a class's module has its name. `database` holds the connections,
`transactions` makes a method one transaction, `schema` lists the tables, `migrate` makes and checks them. The duties
share `fence` (it locks a run's row and compares the epoch), `pages` (a thousand rows in one statement) and `reading`
(from rows to the contract's models).
"""
