"""Exports to AWS or to servers with the same protocols: events to EventBridge, archives to S3.

`client` creates the clients and translates their errors. `events` announces. `archives` puts a run's files into a
bucket, and `upload` is a multipart upload.
"""
