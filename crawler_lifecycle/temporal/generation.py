"""The generation of a workflow execution: the version of the flow that the execution follows to its end.

A worker replays the history of every open execution, so code that adds, drops or moves a command must do so only in
executions that began with the new code. Such a change raises `GENERATION`; the code for the earlier generation stays
in an `if watch.generation < N:` while an execution with that generation is open.

An execution determines its generation in its first lines, before any command, and keeps the generation (as
`Watch.generation`). If a later line asked `workflow.patched` for the first time, a worker with the earlier code might
already have done a part of the execution, and the generation would change in the middle. Generation 1 writes no marker
into the history.
docs/internals/extend.md describes how to add a generation.
"""

from temporalio import workflow

GENERATION = 1


def generation() -> int:
    """Return the execution's generation: for a new execution the latest, in a replay the generation in the history."""
    for number in range(GENERATION, 1, -1):
        if workflow.patched(f"generation-{number}"):  # true in a new execution, and in a replay with this marker
            return number
    return 1
