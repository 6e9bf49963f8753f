"""What crosses Temporal and HTTP: frozen models that validate at every door.

One module a conversation: `states` (the words), `requests` (starting and stopping a run),
`steps` (what each activity takes and gives), `deployment` (the scheduler service), `records`
(what the database says of a run, as people see it), `notices` (what the outside is told).
"""
