"""Stop a run without its workflow: the activities of one round."""

from datetime import UTC, datetime

from crawler_lifecycle.model.requests import StopRequest
from crawler_lifecycle.model.run_plan import CloseRun, RunInput, RunPlan, RunRef
from crawler_lifecycle.model.task_changes import CloseLook, LookAt, StatusWrite
from crawler_lifecycle.runs.activities.reconciliation import ReconciliationActivities
from crawler_lifecycle.runs.activities.stopping import StoppingActivities
from crawler_lifecycle.runs.model import LogCancellation, StopTasks
from tests.kit.service.rig import Rig


def stop_round(stopping: StoppingActivities, reconciliation: ReconciliationActivities, run: RunRef) -> bool:
    """What the workflow does in a round of a stop; whether it is proved."""
    stopping.k8_stop_task(StopTasks(run=run))
    active = reconciliation.get_active_running_tasks(RunInput(run=run))
    differences = reconciliation.get_history_statuses_to_sync(LookAt(run=run, active=active))
    if differences.changes:
        reconciliation.sync_statuses(StatusWrite(run=run, changes=differences.changes))
    alive = reconciliation.count_alive_tasks(CloseLook(run=run, nudge=active.nudge, known=differences.known))
    if differences.unwanted:
        stopping.k8_stop_unwanted(StopTasks(run=run, tasks=differences.unwanted))
    return differences.known and not alive.total and not differences.unwanted


def stop(rig: Rig, plan: RunPlan, *, force: bool = False) -> None:
    step = LogCancellation(run=plan.run, stop=StopRequest(actor="ann", force=force), asked_at=datetime.now(UTC))
    rig.stopping.add_cancellation_log_to_db(step)
    rig.stopping.cancel_queued_tasks(CloseRun(run=plan.run, reason="stopped"))
