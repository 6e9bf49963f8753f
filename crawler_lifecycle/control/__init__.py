"""Commands and questions about runs, schedules, audits and limits, for every door. `control.Control` joins them.

A connection is opened by the first command in need. A command that only reads takes a `RunReader`, which does not
import Temporal's client.
"""
