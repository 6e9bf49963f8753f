"""Commands for schedules.

`schedule_commands` has all commands and changes the rules, `translation` turns our terms into Temporal's and back and
keeps pauses in a schedule's note, `occurrences` finds out what became of every due time, `late_starts` counts delays.
"""
