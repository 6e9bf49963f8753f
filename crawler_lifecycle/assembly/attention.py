"""Reads what waits for a person: failures, runs without room, flows in need, findings, pauses and late audits."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from crawler_lifecycle.context import ControlContext
from crawler_lifecycle.errors import LifecycleError, NotReady
from crawler_lifecycle.flows.rules.words import FAILURES_SHOWN, HOST_PATIENCE
from crawler_lifecycle.model.run_filter import RunFilter
from crawler_lifecycle.model.states import ListedStatus
from crawler_lifecycle.runs.model.attention import Attention, FlowsInNeed, RequestsInNeed

if TYPE_CHECKING:
    from crawler_lifecycle.assembly.store import SqlStore
    from crawler_lifecycle.audits.commands.audits import AuditCommands  # slow to import: with Temporal's client
    from crawler_lifecycle.temporal.engine import Engine

MOST_FLOWS = 10  # named in an answer


async def attention(context: "ControlContext[SqlStore]", engine: "Engine", audits: "AuditCommands") -> Attention:
    now = datetime.now(UTC)
    audit_problem = await _audit_problem(context, audits)
    without_run = await _without_run(engine, now)
    return await context.database(lambda store: _counted(store, now, audit_problem, without_run))


def _counted(
    store: "SqlStore", now: datetime, audit_problem: str | None, without_run: RequestsInNeed | None
) -> Attention:
    failed = store.records.counts(RunFilter(listed=(ListedStatus.FAILED,), since=now - FAILURES_SHOWN, flows=True))
    approvals = store.flow_records.awaiting_approval(limit=MOST_FLOWS)
    hostless = store.flow_records.without_host(now - HOST_PATIENCE, limit=MOST_FLOWS)
    with_failures = store.flow_records.with_failed_items(now - FAILURES_SHOWN, limit=MOST_FLOWS)
    return Attention(
        failed_runs=sum(failed.values()),
        with_failed_items=FlowsInNeed(total=with_failures[0], flows=with_failures[1]),
        saturated_runs=store.records.saturated(0).total,
        awaiting_approval=FlowsInNeed(total=approvals[0], flows=approvals[1]),
        without_host=FlowsInNeed(total=hostless[0], flows=hostless[1]),
        open_findings=sum(store.findings.overview(audits=0, findings=0).open.values()),
        pauses=sum(record.paused_at is not None for record in store.limits.all()),
        without_run=without_run,
        audit_problem=audit_problem,
    )


async def _without_run(engine: "Engine", now: datetime) -> RequestsInNeed | None:
    from crawler_lifecycle.schedules.commands.late_starts import requests_without_run

    try:
        return await requests_without_run(engine, now)
    except LifecycleError:
        return None


async def _audit_problem(context: "ControlContext[SqlStore]", audits: "AuditCommands") -> str | None:
    """Return why no audit was complete lately; None if an audit was in time, and if Temporal does not know."""
    overview = await context.calls.run(lambda: audits.overview(audits=1, findings=0))
    try:
        await audits.check_punctuality(overview)
    except NotReady as error:
        return error.message
    except LifecycleError:  # no audit is recorded yet, and Temporal does not answer
        return None
    return None
