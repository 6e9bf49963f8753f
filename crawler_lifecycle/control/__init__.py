"""Verbs for runs, schedules and audits, with which every door is made. `control.Control` joins them.

Nothing is opened or connected before the first verb that needs it. A command that only reads takes a `RunReader`,
which loads no client of Temporal.
"""
