"""Crawl managers: real crawls in sequence, a million parameter sets with faked runs, and waiting managers.

Faked runs start at the port and end a moment later. Their figures are a manager's own: host, object and ledger.
"""

from collections.abc import Callable

from bench import managers_alone, managers_on_stack
from bench.manager_hosts import Row
from bench.managers_on_stack import Played, on_a_stack
from bench.table import Scale, Table
from tests.kit.data.databases import mariadb_is_installed

COLUMNS = (
    "what",
    "sets or jobs",
    "s",
    "jobs/s",
    "CPU ms a job",
    "statements a job",
    "host, MiB",
    "object, MiB",
    "result",
)
FAKED: dict[str, Callable[[Scale], Row]] = {
    "undisturbed": managers_alone.undisturbed,
    "sqlite": managers_alone.on_sqlite,
    **({"mariadb": managers_alone.on_mariadb} if mariadb_is_installed() else {}),
    "no cursor": managers_alone.without_cursor,
    "with cursor": managers_alone.with_cursor,
    "ends at once": managers_alone.ends_at_once,
    "many managers": managers_alone.many_managers,
}
ON_A_STACK: dict[str, Played] = {
    "one after the other": managers_on_stack.one_by_one,
    "waiting": managers_on_stack.idle,
}


def measure(scale: Scale) -> Table:
    """Measure all rows, or the rows with `scale.row` in their names."""
    rows = [play(scale) for name, play in FAKED.items() if scale.row in name]
    plays = [play for name, play in ON_A_STACK.items() if scale.row in name]
    return Table(COLUMNS, rows + (on_a_stack(scale, plays) if plays else []))
