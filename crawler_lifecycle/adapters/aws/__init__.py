"""Exports to AWS or to servers that speak its protocols: events to EventBridge, archives to S3.

`client` makes the clients and translates their errors. `events` announces. `archives` puts a run's files into a bucket;
`upload` is one multipart upload, and `part_sizes` computes the size of its parts.
"""
