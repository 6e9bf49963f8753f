"""A look: the database is made to agree with the cluster, once."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from temporalio import workflow

from crawler_lifecycle.activities.reconciliation import ReconciliationActivities
from crawler_lifecycle.contract.states import Intent
from crawler_lifecycle.contract.steps import (
    CloseLook,
    Differences,
    LookAt,
    RemoveJobs,
    RunRef,
    StatusWrite,
    ToRun,
)
from crawler_lifecycle.domain.ranges import without
from crawler_lifecycle.workflows.evidence import Evidence
from crawler_lifecycle.workflows.options import LOOK, READ, WRITE
from crawler_lifecycle.workflows.removal import remove

BY_ATTEMPT = "unwanted-jobs-by-attempt"
WORK_COUNTS = "a-look-takes-as-long-as-it-works"
LONG_WAIT = timedelta(seconds=2)
NOT_WRITTEN = "what-came-too-late-is-looked-at-again"


@dataclass(frozen=True)
class Looked:
    """What came of a look. `more`: there was more to change than one look can carry, or rows had changed meanwhile."""

    alive: int
    stopped: int
    changed: bool
    more: bool
    known: bool
    lingering: str
    leaving: int
    by_attempt: bool  # of the tasks that linger, not only the present attempts are meant
    saturated: str | None
    suspended: bool | None
    intent: Intent
    took: timedelta  # without what is done once for each task that ends: it says nothing of the next look

    @property
    def is_proof(self) -> bool:
        """That nothing of the run runs in the cluster any more."""
        return self.known and not self.alive and not self.lingering


async def look(
    run: RunRef,
    number: int,
    evidence: Evidence,
    next_look_at: datetime | None = None,
    stopped_at: datetime | None = None,
) -> Looked:
    began = workflow.now()
    active = await workflow.execute_activity_method(
        ReconciliationActivities.get_active_running_tasks, ToRun(run=run), **READ
    )
    differences = await workflow.execute_activity_method(
        ReconciliationActivities.get_history_statuses_to_sync,
        LookAt(run=run, active=active, stopped_at=stopped_at),
        **LOOK,
    )
    took = _took(differences, began)
    # each look asks for itself: a no is remembered, also where only a worker of an earlier version had one look
    by_attempt = bool(differences.unwanted) and workflow.patched(f"{BY_ATTEMPT}-{number}")
    more = differences.more
    if differences.changes:
        await evidence.keep(run, differences.evidence, number)
        written = await workflow.execute_activity_method(
            ReconciliationActivities.sync_statuses, StatusWrite(run=run, changes=differences.changes), **WRITE
        )
        # this look's nudge is answered all the same: nobody would ask for what it did not write
        more = more or (written.stale > 0 and workflow.patched(f"{NOT_WRITTEN}-{number}"))
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
    if removable := without(differences.removable, evidence.owed):
        await remove(RemoveJobs(run=run, tasks=removable), number)
    return Looked(
        alive=alive.total,
        stopped=alive.stopped,
        changed=bool(differences.changes),
        more=more,
        known=differences.known,
        lingering=differences.unwanted if by_attempt else differences.lingering,
        leaving=differences.leaving,
        by_attempt=by_attempt,
        saturated=differences.saturated,
        suspended=differences.suspended,
        intent=active.intent,
        took=took,
    )


def _took(differences: Differences, began: datetime) -> timedelta:
    """Not how long it waited for a worker: a machine with many runs would look at each of them ten times as rarely.

    As little as most wait makes no difference, and a version before goes on with such runs."""
    took = workflow.now() - began
    if differences.seconds is None or took < LONG_WAIT or not workflow.patched(WORK_COUNTS):
        return took
    return timedelta(seconds=differences.seconds)
