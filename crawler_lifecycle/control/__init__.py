"""Commands and questions about runs, schedules and audits, which every door uses. `control.Control` joins them.

A connection is opened by the first command that needs the connection. A command that only reads takes a `RunReader`,
which does not import Temporal's client.
"""
