"""Commands and questions about flows.

`reading` needs the database alone. `flow_commands` writes to the ledger and then nudges the flow's supervisor,
`following` waits for changes, `definitions` reads JSON, and `members` turns rows into records for people.
"""
