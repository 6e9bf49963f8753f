"""Models that cross Temporal and HTTP: frozen, and validated at every door.

`states` has the words of a run, `requests` starts and stops a run, `steps` has the inputs and results of activities,
`deployment` is for the scheduler service, `records` shows rows of the database to people, `notices` is for front ends
and pipelines.
"""
