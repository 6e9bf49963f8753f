"""Managers with faked runs: a million parameter sets, kills, ends at once, and many managers on a host."""

import time
from collections.abc import Callable
from functools import partial

from sqlalchemy import func, select

from bench import manager_steps
from bench.databases import AS_INSTALLED
from bench.manager_crowds import closed, put_ends_on_record
from bench.manager_hosts import GATE, Hosted, Row, hosted
from bench.table import Scale
from crawler_lifecycle.database.manager_schema import manager_attempts, manager_items, managers
from crawler_lifecycle.model.manager_items import ItemState
from tests.kit.data.databases import create_database, running_mariadb

SETS_IN_A_CROWD = 40  # for every manager in a crowd
IsDue = Callable[[Hosted, float], bool]  # whether the host is to be killed, by the seconds so far


def undisturbed(scale: Scale) -> Row:
    return _played("undisturbed", manager_steps.Repeating, scale.manager_sets, scale.manager_seconds)


def on_sqlite(scale: Scale) -> Row:
    return _played("SQLite", manager_steps.Repeating, scale.manager_sets // 10, scale.manager_seconds)


def on_mariadb(scale: Scale) -> Row:
    with running_mariadb(*AS_INSTALLED) as port:
        url = create_database(port, "bench")
        return _played("MariaDB", manager_steps.Repeating, scale.manager_sets // 10, scale.manager_seconds, url=url)


def without_cursor(scale: Scale) -> Row:
    """Kill the host three times, after equal shares of the sets."""
    sets, kills = scale.manager_sets, 3

    def is_due(host: Hosted, _: float) -> bool:
        return host.kills < kills and _read_sets(host) >= sets * (host.kills + 1) / (kills + 1)

    return _played("no cursor", manager_steps.Repeating, sets, scale.manager_seconds, is_due)


def with_cursor(scale: Scale) -> Row:
    """Kill the host again and again, after a fixed time."""

    def is_due(host: Hosted, seconds: float) -> bool:
        return seconds >= scale.kill_seconds * (host.kills + 1)

    return _played("cursor", manager_steps.WithCursor, scale.manager_sets // 10, scale.manager_seconds, is_due)


def ends_at_once(scale: Scale) -> Row:
    """Measure the reactions to ends during an outage."""
    ends = scale.ends_at_once
    given = [("faked", manager_steps.Repeating, ends)]
    with hosted(given, partial(put_ends_on_record, ends=ends)) as host:
        took = host.watch(scale.manager_seconds)
        _, jobs = closed(host.database)
        result = "exact" if jobs == ends else f"time is over: {jobs:,} reactions"
        return ("ends at once after an outage", ends, *host.figures(took, jobs), result)


def many_managers(scale: Scale) -> Row:
    """Measure a host with many managers at work."""
    number, sets = scale.managers_at_once, SETS_IN_A_CROWD
    given = [(f"crowd-{at}", manager_steps.Gated, sets) for at in range(number)]
    with hosted(given) as host:
        begun = host.crowd.watch(lambda: host.crowd.objects >= number, scale.manager_seconds / 2)
        (host.folder / GATE).touch()
        took = host.watch(scale.manager_seconds / 2)
        ended, jobs = closed(host.database)
        is_exact = (ended, jobs) == (number, number * sets // 2)
        verdict = "exact" if is_exact else f"{ended} managers and {jobs:,} jobs have ended"
        what = f"{number} managers at work on a host"
        result = f"{verdict}; {host.crowd.memory}, and began in {begun:.0f} s"
        return (what, number * sets, *host.figures(took, jobs), result)


def _played(
    what: str, manager: type, sets: int, seconds: float, is_due: IsDue = lambda *_: False, url: str | None = None
) -> Row:
    """Play the manager to its end, or for so long, and kill its host whenever a kill is due."""
    with hosted([("faked", manager, sets)], url=url) as host:
        began, end = time.monotonic(), time.monotonic() + seconds
        while not host.has_ended and time.monotonic() < end:
            host.crowd.watch(lambda: host.has_ended or is_due(host, time.monotonic() - began), end - time.monotonic())
            if not host.has_ended and is_due(host, time.monotonic() - began):
                host.kill()
        took = time.monotonic() - began
        done, result = _verdict(host, sets)
        deaths = f", {host.kills} kills" if host.kills else ""
        return (f"{what}{deaths}", sets, *host.figures(took, done), result)


def _verdict(host: Hosted, sets: int) -> tuple[int, str]:
    """Return the number for ended jobs, and whether the ledger is exact."""
    with host.database.engine.connect() as connection:
        row = connection.execute(select(managers)).one()
        grouped = select(manager_items.c.state, func.count()).group_by(manager_items.c.state)
        states = {state: count for state, count in connection.execute(grouped)}  # noqa: C416 - rows are no pairs for mypy
        tried = connection.execute(select(func.count(), func.count(manager_attempts.c.reacted_at))).one()
    done = states.get(ItemState.COMPLETED, 0)
    expected = (sets // 2 + sets % 2, sets // 2)
    if row.closed_at is None:
        return done, f"time is over: {row.read_sets:,} sets were read, {done:,} jobs have ended"
    is_exact = (row.completed, row.repeated) == expected and tuple(tried) == (expected[0],) * 2 and done == expected[0]
    return done, "exact" if is_exact else f"NOT exact: {row.completed}, {row.repeated}, {states}, {tuple(tried)}"


def _read_sets(host: Hosted) -> int:
    with host.database.engine.connect() as connection:
        return connection.scalar(select(managers.c.read_sets)) or 0
