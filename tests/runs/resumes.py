"""Runs that end, and that other executions take over."""

from typing import Any

from crawler_lifecycle.model.run_plan import CloseRun, ExportedEnd, RunInput, RunPlan
from crawler_lifecycle.model.task_changes import LookAt, StatusWrite
from crawler_lifecycle.runs.model import TakenOver, TakeOver
from tests.kit.service.rig import Rig
from tests.kit.waiting import until


def step(rig: Rig, plan: RunPlan, execution: str = "second", **changes: object) -> TakeOver:
    workflow_id = rig.details(plan).run.workflow_id
    given = {"run_id": plan.run.run_id, "crawler": plan.crawler, "workflow_id": workflow_id, **changes}
    return TakeOver.model_validate({**given, "temporal_run_id": execution})


def taken_over(rig: Rig, plan: RunPlan, execution: str = "second", **changes: object) -> TakenOver:
    return rig.do(rig.supervision.take_over_run, step(rig, plan, execution, **changes))


def look(rig: Rig, plan: RunPlan) -> str:
    """Once, and its changes written; what lingers."""
    active = rig.do(rig.reconciliation.get_active_running_tasks, RunInput(run=plan.run))
    found = rig.do(rig.reconciliation.get_history_statuses_to_sync, LookAt(run=plan.run, active=active))
    rig.do(rig.reconciliation.sync_statuses, StatusWrite(run=plan.run, changes=found.changes))
    return found.unwanted


def ended(rig: Rig, **request: Any) -> RunPlan:
    """A run of two tasks that is over and FAILED, as its second task did."""
    plan = rig.started(tasks=2, **request)
    rig.deploy_children(plan)

    def over() -> bool:
        look(rig, plan)
        return all(task.status.is_over for task in rig.details(plan).tasks)

    until(over, "both jobs to end")
    rig.do(rig.histories.update_run_status, CloseRun(run=plan.run))
    rig.do(rig.exports.initiate_export_signal, ExportedEnd(run=plan.run))
    rig.do(rig.exports.export_supporting_files, ExportedEnd(run=plan.run))
    return plan
