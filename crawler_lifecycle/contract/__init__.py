"""Models that cross Temporal and HTTP: frozen, and validated at every door.

`states` has the words of a run, `requests` starts and stops a run, `steps` has the inputs and results of activities,
`deployment` speaks to the scheduler service, `records` shows people the rows of a run, `notices` is for the outside.
"""
