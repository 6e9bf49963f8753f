"""Triggers: events of EventBridge start and stop work, by the rules of a mapping file.

`rules` decides what an event does, `mapping_file` reads the rules, and `commands` carries the decision out inside the
API (`http`, `POST /v1/events`). `bridge` takes events from an SQS queue (`queue`) to this endpoint, and needs neither
the mapping nor a database. `cli` checks a mapping file.
"""
