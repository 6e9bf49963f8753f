"""The database: one implementation of the ports for SQLite, MySQL and MariaDB.

`database` holds the connections, `schema` the tables, `migrate` makes and checks them. One module a port:
`histories`, `tasks`, `claims`, `nudges`, `exports`, `records`. They share `fence` (may this supervisor write?),
`pages` (a thousand rows in one statement) and `reading` (from rows to the contract's models).
"""
