"""Play a manager with a death at every point, and compare the plays with an undisturbed play."""

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, fields

from sqlalchemy import select

from crawler_lifecycle.database.manager_schema import manager_attempts
from crawler_lifecycle.managers.authors.workflow_manager import BaseLoopScript
from crawler_lifecycle.testing.manager_play import ManagerPlay

Script = Callable[[ManagerPlay], object]
METHODS = "methods"  # the author's own methods


@dataclass(frozen=True)
class Observed:
    """A play's effects: the same, whenever the process dies."""

    started: "Counter[tuple[object, ...]]"  # jobs with their arguments
    reactions: "Counter[tuple[object, ...]]"  # judgements about ends
    results: "Counter[tuple[object, ...]]"  # items' states
    sums: dict[str, float]
    close_reason: str | None


def to_the_end(play: ManagerPlay) -> None:
    """Let all jobs finish until the manager closes."""
    play.until_closed()


def assert_crash_safe(
    manager: Callable[[], BaseLoopScript],
    script: Script = to_the_end,
    *,
    arguments: Sequence[str] = (),
    every: int = 1,
    only: str | Collection[str] = (),
) -> int:
    """Play the script undisturbed, and then again and again with a death at another point. Return the number of deaths.

    The process may die at the beginning of an author's method, and before and after a write. After a death, another
    object continues within the same cycle. AssertionError names the first death with other jobs, reactions, results or
    sums than in the undisturbed play. `every`: with 3, the process dies at every third point. `only`: names of points,
    as for `ManagerPlay.crash`; or `methods` for the author's own methods.
    """
    undisturbed, points, methods = _played(manager, script, arguments)
    again, _, _ = _played(manager, script, arguments)
    if again != undisturbed:
        raise AssertionError(
            "the manager is not deterministic: two plays without a death differ, such as by the time, by random "
            f"numbers or by the order of a set:\n{_changes(undisturbed, again)}"
        )
    fatal = _chosen(points, methods if only == METHODS else only)[::every]
    for number in fatal:
        observed, _, _ = _played(manager, script, arguments, dies_at=number)
        if observed != undisturbed:
            place = f"{points[number]!r}, point {number} of {len(points)}"
            raise AssertionError(
                f"a death at {place} changes what the manager does:\n{_changes(undisturbed, observed)}"
            )
    return len(fatal)


def _chosen(points: Sequence[str], only: str | Collection[str]) -> Sequence[int]:
    """Return the numbers of the points with these names; without names, all numbers."""
    names = {only} if isinstance(only, str) else set(only)
    if absent := names.difference(points):
        raise AssertionError(f"the manager did not reach {sorted(absent)}, but {sorted(set(points))}")
    return [number for number, name in enumerate(points) if not names or name in names]


def _played(
    manager: Callable[[], BaseLoopScript], script: Script, arguments: Sequence[str], dies_at: int | None = None
) -> tuple[Observed, list[str], set[str]]:
    """Return the play's effects, its points, and the points with names of the author's own methods."""
    play = ManagerPlay(manager, *arguments)
    calls = play.stage.calls
    if dies_at is not None:
        play.stage.is_fatal = lambda _: len(calls) == dies_at + 1
    try:
        script(play)
        return _observed(play), list(calls), {name for name in calls if not play.manager.has_only_ours(name)}
    finally:
        play.close()


def _observed(play: ManagerPlay) -> Observed:
    uid = play.managed.uid
    return Observed(
        started=Counter(
            (
                *(job.number, job.attempt, job.spider, _sorted(job.arguments), _sorted(job.settings)),
                *(tuple(tag.replace(uid, "") for tag in job.tags), tuple(job.labels), job.priority, job.memory_factor),
            )
            for job in play.started
        ),
        reactions=_reactions(play),
        results=Counter((item.number, item.state.value, item.attempt, item.outcome) for item in play.items),
        sums=dict(play.stats),
        close_reason=play.close_reason,
    )


def _reactions(play: ManagerPlay) -> "Counter[tuple[object, ...]]":
    row = manager_attempts.c
    reactions = select(row.number, row.attempt, row.outcome, row.verdict).where(row.reacted_at.is_not(None))
    with play.managed.database.read() as connection:
        return Counter(tuple(values) for values in connection.execute(reactions))


def _sorted(values: object) -> tuple[object, ...]:
    return tuple(sorted(values.items())) if isinstance(values, dict) else ()


def _changes(undisturbed: Observed, observed: Observed) -> str:
    """Return the differences in lines."""
    lines: list[str] = []
    for field in fields(Observed):
        before, after = getattr(undisturbed, field.name), getattr(observed, field.name)
        if isinstance(before, Counter):
            lines += [f"{field.name}: missing {entry}" for entry in (before - after).elements()]
            lines += [f"{field.name}: too many {entry}" for entry in (after - before).elements()]
        elif before != after:
            lines.append(f"{field.name}: {after} instead of {before}")
    return "\n".join(lines)
