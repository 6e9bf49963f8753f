"""Calls from a manager's link as messages between the object's process and its host."""

from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter

from crawler_lifecycle.flows.model.turns import (
    Begun,
    Counts,
    Effects,
    ManagerIntent,
    Offered,
    Page,
    Reaction,
    Start,
    Wake,
)
from crawler_lifecycle.model.manager_items import CodeProblem, Job, JobFilter, JobState, Waiting

NO_ARGUMENTS = tuple[()]
PROBLEM = TypeAdapter(CodeProblem)


@dataclass(frozen=True)
class Call:
    """The types for a call's arguments and its answer."""

    arguments: TypeAdapter[Any]
    answer: TypeAdapter[Any]


def _call(arguments: Any, answer: Any = None) -> Call:
    return Call(TypeAdapter(arguments), TypeAdapter(answer))


CALLS = {
    "begin": _call(NO_ARGUMENTS, Begun),
    "intent": _call(NO_ARGUMENTS, ManagerIntent),
    "enter": _call(tuple[str, str | None]),
    "ended": _call(tuple[int], list[Job]),
    "react": _call(tuple[list[Reaction]]),
    "running": _call(NO_ARGUMENTS, list[Job]),
    "jobs": _call(tuple[JobState, int, int, list[str], bool], list[Job]),
    "runs": _call(tuple[JobFilter], list[Job]),
    "offer": _call(tuple[Page], Offered),
    "waiting": _call(tuple[int, Waiting | None], list[Waiting]),
    "delay": _call(tuple[list[int]]),
    "start": _call(tuple[list[Start]], list[Job | str | None]),
    "refuse": _call(tuple[int, int, str]),
    "stop": _call(tuple[dict[str, str] | None]),
    "commit": _call(tuple[Effects], list[int]),
    "find": _call(tuple[list[str]], list[Job]),
    "counts": _call(NO_ARGUMENTS, Counts),
    "sleep": _call(tuple[float | None, bool], Wake),
    "wait_for": _call(tuple[list[str], float], list[str]),
    "close": _call(tuple[str, Effects], bool),
}
WITHOUT_ANSWER = frozenset({"enter"})
