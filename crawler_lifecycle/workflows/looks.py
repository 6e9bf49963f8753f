"""A look: the database is made to agree with the cluster, once."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from temporalio import workflow

from crawler_lifecycle.activities.reconciliation import ReconciliationActivities
from crawler_lifecycle.contract.states import Intent
from crawler_lifecycle.contract.steps import (
    CloseLook,
    LookAt,
    RunRef,
    StatusWrite,
    ToRun,
)
from crawler_lifecycle.workflows.evidence import collect_evidence
from crawler_lifecycle.workflows.options import LOOK, READ, WRITE
from crawler_lifecycle.workflows.removal import remove_in_a_look


@dataclass(frozen=True)
class Looked:
    """What came of a look. `more`: there was more to change than one look can carry, or rows had changed meanwhile."""

    alive: int
    stopped: int
    changed: bool
    more: bool
    known: bool
    unwanted: str
    leaving: int
    saturated: str | None
    suspended: bool | None
    intent: Intent
    took: timedelta  # how long a worker observed and compared: neither its queue nor the writes slow down the next look

    @property
    def is_proof(self) -> bool:
        """That nothing of the run runs in the cluster any more."""
        return self.known and not self.alive and not self.unwanted


async def look(
    run: RunRef,
    next_look_at: datetime | None = None,
    stopped_at: datetime | None = None,
) -> Looked:
    active = await workflow.execute_activity_method(
        ReconciliationActivities.get_active_running_tasks, ToRun(run=run), **READ
    )
    differences = await workflow.execute_activity_method(
        ReconciliationActivities.get_history_statuses_to_sync,
        LookAt(run=run, active=active, stopped_at=stopped_at),
        **LOOK,
    )
    more = differences.more
    if differences.changes:
        await collect_evidence(run, differences.evidence)
        written = await workflow.execute_activity_method(
            ReconciliationActivities.sync_statuses, StatusWrite(run=run, changes=differences.changes), **WRITE
        )
        # this look acknowledges its nudge all the same: nothing but another look would write the stale rows soon
        more = more or written.stale > 0
    alive = await workflow.execute_activity_method(
        ReconciliationActivities.count_alive_tasks,
        CloseLook(
            run=run,
            nudge=active.nudge,
            known=differences.known,
            problem=differences.problem,
            saturated=differences.saturated,
            next_look_at=next_look_at,
        ),
        **WRITE,
    )
    await remove_in_a_look(run, differences.removable)
    return Looked(
        alive=alive.total,
        stopped=alive.stopped,
        changed=bool(differences.changes),
        more=more,
        known=differences.known,
        unwanted=differences.unwanted,
        leaving=differences.leaving,
        saturated=differences.saturated,
        suspended=differences.suspended,
        intent=active.intent,
        took=timedelta(seconds=differences.seconds),
    )
