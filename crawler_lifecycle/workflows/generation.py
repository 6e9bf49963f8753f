"""The generation of a workflow execution: which way of doing things it follows from its start to its end.

A worker replays the history of every execution that it goes on with, so code that adds, drops or moves a command must
do so only in executions that began with it. Such a change raises `GENERATION`; the code of the earlier generation
stays behind `if watch.generation < N:` until no execution of that generation is open.

The number is asked for once, in the first lines of an execution: Temporal remembers the first answer for the whole
execution, so an answer that was given in its middle by a worker of the version before would stand for the rest.
Generation 1 writes no marker. docs/howto/extend.md describes how a generation is added.
"""

from temporalio import workflow

GENERATION = 1


def generation() -> int:
    """Return the generation that this execution began with: the latest one if it begins now."""
    newer = range(GENERATION, 1, -1)
    return next((number for number in newer if workflow.patched(f"generation-{number}")), 1)
