"""Models for data on the way through Temporal and HTTP. The models are frozen, and validate data at every door.

`states` has the statuses, `requests` and `schedules` have commands by people and programs, `steps` has the activities'
inputs and results, `lifecycle` and `audits` have the workflows' inputs and results, `deployment` is for the scheduler
service, `records` has database rows for people, `notices` has messages to front ends and pipelines.
"""
