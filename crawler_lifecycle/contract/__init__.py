"""Models of all data that cross Temporal and HTTP. The models are frozen, and validate data at every door.

`states` has the statuses, `requests` and `schedules` the commands of people and programs, `steps` the inputs and
results of activities, `lifecycle` and `audits` the inputs and results of workflows, `deployment` the words of the
scheduler service, `records` the rows that people read, `notices` the messages to front ends and pipelines.
"""
