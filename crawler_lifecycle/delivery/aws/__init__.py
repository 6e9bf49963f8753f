"""Exports to AWS or to servers with the same protocols: events to EventBridge, archives to S3.

`client` creates the clients and translates their errors. `events` announces. `archives` uploads a run's files in parts.
"""
