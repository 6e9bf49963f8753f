"""Commands and questions about flows, for every door.

`reading` needs the database alone. `commands` writes to the ledger, and then tells the flow's supervisor; `waiting` waits
for ends, and `members` turns rows into records for people.
"""
