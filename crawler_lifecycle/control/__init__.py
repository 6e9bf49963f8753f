"""Commands and questions for runs, schedules and audits, shared by every door. `control.Control` joins them.

Connections are opened by the first command that needs them. A command that only reads takes a `RunReader`, which does
not import Temporal's client.
"""
