"""Triggers: EventBridge's events start and stop work, by the rules in a mapping file.

`rules` decides about an event, `mapping_file` reads the rules, and `commands` carries the decision out inside the
API (`http`, `POST /v1/events`). `bridge` takes events from an SQS queue (`queue`) to the endpoint, and needs neither
the mapping nor a database.
"""
