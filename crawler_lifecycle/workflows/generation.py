"""The generation of a workflow execution: the version of the flow that the execution follows to its end.

A worker replays the history of every open execution, so code that adds, drops or moves a command must do so only in
executions that began with the new code. Such a change raises `GENERATION`; the code for the earlier generation stays
behind `if watch.generation < N:` while an execution with that generation is open.

An execution determines its generation in its first lines: Temporal remembers the first answer for the whole execution,
so an answer in the middle, by a worker with the earlier version, would stand for the rest. Generation 1 writes no
marker. docs/howto/extend.md describes how to add a generation.
"""

from temporalio import workflow

GENERATION = 1


def generation() -> int:
    """Return the generation at the execution's beginning: the latest generation if the execution begins now."""
    for number in range(GENERATION, 1, -1):
        if workflow.patched(f"generation-{number}"):
            return number
    return 1
