"""The runs' use: computed from a run's attempts at its end, and summed over a period's ended runs."""

from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Select, Table, bindparam, func, select

from crawler_lifecycle.database.flow_schema import flows
from crawler_lifecycle.database.schema import histories, history_labels, task_attempts, task_histories
from crawler_lifecycle.database.types import TimeBetween
from crawler_lifecycle.model.deployment import Crawler
from crawler_lifecycle.model.naming import TENANT
from crawler_lifecycle.model.usage import GroupUse, Usage, UsageBy
from crawler_lifecycle.runs.rules.plan import amount_of

GIB = 1024**3
MOST_GROUPS = 1000
runs, labels = histories.c, history_labels.c
OF_TENANT = (labels.history_id == runs.id, labels.label.startswith(TENANT))
FIRST_TENANT = select(func.min(labels.label)).where(*OF_TENANT).scalar_subquery()  # as in the Jobs' labels
NAMES: dict[UsageBy, ColumnElement[str | None]] = {
    UsageBy.CRAWLER: runs.crawler,
    UsageBy.TENANT: func.substr(FIRST_TENANT, len(TENANT) + 1),
    UsageBy.FLOW: runs.flow_uid,
    UsageBy.LABEL: labels.label,
}
USES = ("task_seconds", "cpu_seconds", "memory_gib_seconds", "archived_bytes")
SUMS = [func.count().label("runs"), *(func.coalesce(func.sum(runs[name]), 0).label(name) for name in USES)]
ENDED = (runs.finished_at >= bindparam("of_since"), runs.finished_at < bindparam("of_until"))


def _milliseconds(table: Table) -> Select[Any]:
    """Return the statement for the sum over a run's attempts in the table. An attempt without a start counts 0."""
    attempt = table.c
    duration = func.sum(TimeBetween(attempt.started_at, attempt.finished_at))
    return select(duration).where(attempt.history_id == bindparam("of_run"), attempt.finished_at > attempt.started_at)


DURATIONS = [_milliseconds(table) for table in (task_histories, task_attempts)]


def use_of(connection: Connection, run: Row[Any]) -> dict[str, float | None]:
    """Return the values for the use columns, after the run's tasks have ended."""
    seconds = sum(int(connection.scalar(duration, {"of_run": run.id}) or 0) for duration in DURATIONS) / 1000
    resources = Crawler.model_validate_json(run.entry).resources  # with the request's factor for the memory
    cpus, memory = (
        None if quantity is None else float(amount_of(quantity)) for quantity in (resources.cpu, resources.memory)
    )
    return {
        "task_seconds": seconds,
        "cpu_seconds": None if cpus is None else seconds * cpus,
        "memory_gib_seconds": None if memory is None else seconds * memory / GIB,
    }


def usage_of(connection: Connection, by: UsageBy, since: datetime, until: datetime) -> Usage:
    period = {"of_since": since, "of_until": until}
    groups = select(NAMES[by].label("name"), *SUMS).where(*ENDED).group_by("name")
    if by is UsageBy.LABEL:
        groups = groups.join_from(histories, history_labels, isouter=True)
    largest = groups.order_by(func.sum(runs.task_seconds).desc(), "name").limit(MOST_GROUPS)
    rows = connection.execute(largest, period).all()
    of_flows = select(flows.c.uid, flows.c.flow_id).where(flows.c.uid.in_([row.name for row in rows]))
    is_by_flow = by is UsageBy.FLOW  # retention may have removed the flow: then its uid is the name
    flow_ids = {row.uid: row.flow_id for row in connection.execute(of_flows)} if is_by_flow else {}
    return Usage(
        by=by,
        since=since,
        until=until,
        groups=[_group(flow_ids.get(row.name, row.name), row) for row in rows],
        total=_group(None, connection.execute(select(*SUMS).where(*ENDED), period).one()),
    )


def _group(name: str | None, row: Row[Any]) -> GroupUse:
    # in MySQL a sum over integers is a decimal, which the model converts
    return GroupUse(name=name, runs=row.runs, **{use: row._mapping[use] for use in USES})
