"""Runs that end, and that other executions take over."""

from typing import Any

from crawler_lifecycle.model.run_plan import CloseRun, ExportedEnd, RunInput, RunPlan
from crawler_lifecycle.model.task_changes import LookAt, StatusWrite
from crawler_lifecycle.runs.model import TakenOver, TakeOver
from tests.house import House
from tests.waiting import until


def step(house: House, plan: RunPlan, execution: str = "second", **changes: object) -> TakeOver:
    workflow_id = house.details(plan).run.workflow_id
    given = {"run_id": plan.run.run_id, "crawler": plan.crawler, "workflow_id": workflow_id, **changes}
    return TakeOver.model_validate({**given, "temporal_run_id": execution})


def taken_over(house: House, plan: RunPlan, execution: str = "second", **changes: object) -> TakenOver:
    return house.do(house.supervision.take_over_run, step(house, plan, execution, **changes))


def look(house: House, plan: RunPlan) -> str:
    """Once, and its changes written; what lingers."""
    active = house.do(house.reconciliation.get_active_running_tasks, RunInput(run=plan.run))
    found = house.do(house.reconciliation.get_history_statuses_to_sync, LookAt(run=plan.run, active=active))
    house.do(house.reconciliation.sync_statuses, StatusWrite(run=plan.run, changes=found.changes))
    return found.unwanted


def ended(house: House, **request: Any) -> RunPlan:
    """A run of two tasks that is over and FAILED, as its second task did."""
    plan = house.started(tasks=2, **request)
    house.deploy_children(plan)

    def over() -> bool:
        look(house, plan)
        return all(task.status.is_over for task in house.details(plan).tasks)

    until(over, "both jobs to end")
    house.do(house.histories.update_run_status, CloseRun(run=plan.run))
    house.do(house.exports.initiate_export_signal, ExportedEnd(run=plan.run))
    house.do(house.exports.export_supporting_files, ExportedEnd(run=plan.run))
    return plan
