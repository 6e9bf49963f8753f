"""Steps for a crawl's tasks get the run in which their task succeeded."""

from typing import Any

from sqlalchemy import update

from crawler_lifecycle.database.database import Database
from crawler_lifecycle.database.schema import task_histories
from crawler_lifecycle.flows import Workflow, crawl, each_task
from crawler_lifecycle.flows.model.records import TaskReceipt
from crawler_lifecycle.flows.rules.messages import GrowGroup
from crawler_lifecycle.model.states import RunStatus, TaskStatus
from tests.kit.authors.work import item_and_context
from tests.kit.data.flows import Flow, pushed


def stream(database: Database) -> Flow:
    workflow = Workflow().add("shop", crawl("books", tasks=2), retries=1)
    return pushed(database, workflow.add_cascade("parse", each_task("shop", item_and_context)))


def end_task(database: Database, run_id: int, task: int, status: TaskStatus) -> None:
    of_task = (task_histories.c.history_id == run_id, task_histories.c.task == task)
    with database.transaction() as connection:
        connection.execute(update(task_histories).where(*of_task).values(status=status))


def run_of(flow: Flow) -> Any:
    flow.go_on()
    (start,) = flow.start_crawls(flow.last("shop")).crawls
    return flow.run(start, tasks=2)


def item_of(flow: Flow, path: str) -> dict[str, Any]:
    (step,) = flow.begin_steps(flow.last(path), token="host").mine
    assert isinstance(step.arguments, dict)
    return step.arguments


def test_a_step_for_a_task_gets_the_task_and_its_run(database: Database) -> None:
    flow = stream(database)
    run = run_of(flow)
    flow.store.flow_ledger.grow(GrowGroup(flow=flow.flow, group=1, expected=2))
    end_task(database, run.run_id, 1, TaskStatus.SUCCEEDED)
    flow.go_on()
    assert (flow.states["parse/0"], flow.states["parse/1"]) == ("suspended", "executing")
    item = item_of(flow, "parse/1")
    assert item == {"crawl": "shop", "task": 1, "run_id": run.run_id, "run_uid": run.run_uid, "files": None}
    assert TaskReceipt.model_validate(item).task == 1


def test_a_task_that_succeeded_before_a_retry_keeps_its_run(database: Database) -> None:
    flow = stream(database)
    first = run_of(flow)
    flow.store.flow_ledger.grow(GrowGroup(flow=flow.flow, group=1, expected=2))
    end_task(database, first.run_id, 1, TaskStatus.SUCCEEDED)
    end_task(database, first.run_id, 0, TaskStatus.FAILED)
    flow.close(first, RunStatus.FAILED, "main_job_failed")
    flow.go_on()
    flow.retry("shop")  # without the pause
    second = run_of(flow)
    end_task(database, second.run_id, 0, TaskStatus.SUCCEEDED)
    end_task(database, second.run_id, 1, TaskStatus.FAILED)
    flow.go_on()
    assert item_of(flow, "parse/1")["run_id"] == first.run_id
    assert item_of(flow, "parse/0")["run_id"] == second.run_id
