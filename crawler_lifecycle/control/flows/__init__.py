"""Commands and questions about flows, for every door.

`reading` needs the database alone. `commands` writes to the ledger and then nudges the flow's supervisor, `waiting` and
`following` wait for ends and changes, `members` and `whys` turn rows into records for people.
"""
