"""Exports to AWS, or to servers that speak its protocols: events to EventBridge, archives to S3.

`client` makes the clients and says what their errors mean. `events` announces. `archives` puts a run's files into a
bucket; `upload` is one multipart upload of it, `part_sizes` says how big its parts are.
"""
