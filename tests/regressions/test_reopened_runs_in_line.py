"""A run that was reopened after its main job had succeeded waited for its permit without a word: its row had no cause,
and `crawlctl show` named neither the scope nor the place in the line. A look at the run takes no cause away."""

from datetime import UTC, datetime, timedelta

import click

from crawler_lifecycle.model.run_plan import RunPlan, RunRef
from crawler_lifecycle.model.states import RunStatus, TaskStatus
from crawler_lifecycle.model.task_changes import CloseLook, TaskChange
from crawler_lifecycle.runs.cli.details_lines import details_lines
from crawler_lifecycle.runs.ports import SupervisorExecution
from tests.house import House

MINUTE = timedelta(minutes=1)


def end(house: House, plan: RunPlan, task: int, status: TaskStatus) -> None:
    (row,) = house.tasks.rows(plan.run.run_id, [task])
    change = TaskChange(task=task, attempt=1, version=row.version, status=status, job_uid=row.job_uid)
    assert house.tasks.sync(plan.run, [change]) == 1


def reopened(house: House) -> RunRef:
    """Return a PROCESSING run whose child task waits."""
    plan = house.started("sleepy", tasks=2)
    end(house, plan, 0, TaskStatus.SUCCEEDED)
    end(house, plan, 1, TaskStatus.FAILED)
    house.store.runs.close(plan.run, RunStatus.FAILED, "a test")
    execution = SupervisorExecution(house.details(plan).run.workflow_id, "next", datetime.now(UTC))
    record = house.store.runs.reopen(plan.run.run_id, execution)
    assert (record.status, record.admitted_at) == (RunStatus.PROCESSING, None)
    return plan.run.model_copy(update={"epoch": record.epoch})


def shown(house: House, run: RunRef) -> list[str]:
    lines = details_lines(house.store.records.details(run.run_id), datetime.now(UTC))
    return [" ".join(click.unstyle(line).split()) for line in lines]


def test_a_reopened_run_says_what_holds_it_and_its_place(house: House) -> None:
    house.store.limits.change("installation", {"runs": 1}, None)
    first, second = (reopened(house) for _ in range(2))
    house.begin("sleepy")
    house.store.limits.pause("installation", "an upgrade", None)
    assert house.claims.claim_tasks("dispatcher", MINUTE, 4) == []
    paused = "queued the installation is paused: an upgrade, place 1 of 2, since "
    assert any(line.startswith(paused) for line in shown(house, first))
    house.store.limits.resume("installation", None)
    assert [claim.run_id for claim in house.claims.claim_tasks("dispatcher", MINUTE, 4)] == [first.run_id]
    full = "queued the installation is at its limit of 1 run, place 1 of 1"
    assert any(line.startswith(full) for line in shown(house, second))
    assert not any(line.startswith("queued") for line in shown(house, first))


def test_a_look_leaves_the_cause_of_a_run_in_line(house: House) -> None:
    run = reopened(house)
    house.store.limits.pause("installation", "an upgrade", None)
    house.claims.claim_tasks("dispatcher", MINUTE, 4)
    house.do(house.reconciliation.count_alive_tasks, CloseLook(run=run))
    assert house.store.records.overview(run.run_id).run.waiting_cause == "paused"
    house.store.limits.resume("installation", None)
    house.claims.claim_tasks("dispatcher", MINUTE, 4)
    house.do(house.reconciliation.count_alive_tasks, CloseLook(run=run, saturated="capacity"))
    assert house.store.records.overview(run.run_id).run.waiting_cause == "capacity"
