"""Dependencies as authors write them: names of jobs, quorums, and single tasks of crawls."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from crawler_lifecycle.errors import BadInput
from crawler_lifecycle.flows.model.definition import Need


@dataclass(frozen=True)
class Quorum:
    """A need that is satisfied when enough jobs are completed."""

    on: tuple[str, ...]
    share: float | None
    count: int | None
    wait: bool


@dataclass(frozen=True)
class OneTask:
    """A need for the success of a crawl's single task."""

    crawl: str
    task: int

    @property
    def on(self) -> tuple[str, ...]:
        return (self.crawl,)


@dataclass(frozen=True)
class EachTask:
    """A step for every task in a crawl, with a start as soon as the task has succeeded."""

    crawl: str
    function: Any


Dependency = str | Quorum | OneTask
Dependencies = Dependency | Iterable[Dependency] | None


def any_of(deps: str | Iterable[str], *, at_least: float | int = 1, wait: bool = False) -> Quorum:
    """Return a need for some jobs: a share of them (0.9), or a number (3). A sub-workflow counts with all its jobs.

    The dependent starts as soon as enough are completed; with `wait`, when all have ended and enough are completed.
    """
    on = (deps,) if isinstance(deps, str) else tuple(deps)
    if not on:
        raise BadInput("any_of", "needs at least one name")
    if isinstance(at_least, bool) or not isinstance(at_least, int | float):
        raise BadInput("at_least", f"expected a share such as 0.9 or a whole number, not {at_least!r}")
    if isinstance(at_least, float):
        if not 0 < at_least <= 1:
            raise BadInput("at_least", f"expected a share above 0 and up to 1.0, not {at_least}")
        return Quorum(on, at_least, None, wait)
    if at_least < 1:
        raise BadInput("at_least", f"expected a number from 1 on, not {at_least}")
    return Quorum(on, None, at_least, wait)


def each_task(crawl: str, function: Any) -> EachTask:
    """Return a fan-out over a crawl's tasks, for `add_cascade`. The function gets the task and the context."""
    return EachTask(crawl, function)


def as_dependencies(name: str, deps: Dependencies) -> tuple[Dependency, ...]:
    """Return the dependencies as a tuple without repetitions, in their order."""
    if deps is None:
        return ()
    listed = (deps,) if isinstance(deps, str | Quorum | OneTask) else tuple(deps)
    for dep in listed:
        if not isinstance(dep, str | Quorum | OneTask):
            raise BadInput(f"deps of {name!r}", f"expected names of jobs, not {dep!r}")
    return tuple(dict.fromkeys(listed))


def names_of(deps: Iterable[Dependency]) -> list[str]:
    """Return all names in the dependencies."""
    return [name for dep in deps for name in ((dep,) if isinstance(dep, str) else dep.on)]


def as_need(dep: Dependency) -> Need:
    """Return the need as a flow's definition has it, with the names as paths."""
    if isinstance(dep, str):
        return Need(on=(dep,))
    if isinstance(dep, OneTask):
        return Need(on=dep.on, task=dep.task)
    return Need(on=dep.on, share=dep.share, count=dep.count, wait=dep.wait)


def as_dependency(need: Need) -> Dependency:
    """Return the author's dependency for a need in a flow's definition."""
    if need.task is not None:
        return OneTask(need.on[0], need.task)
    if need.is_quorum:
        return Quorum(need.on, need.share, need.count, need.wait)
    if unknown := need.model_dump(exclude_defaults=True).keys() - {"on", "wait"}:
        raise ValueError(f"no dependency of an author has {', '.join(unknown)}")
    return need.on[0]
