"""Commands for schedules.

`schedule_commands` has all commands, `translation` turns our terms into Temporal's and back, `occurrences` and
`starts` find out what became of every due time, `pauses` records pauses in a schedule's note,
`replacement` changes the rules.
"""
