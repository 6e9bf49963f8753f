"""A run that was reopened after its main job had succeeded waited for its permit without a word: its row had no cause,
and `crawlctl show` named neither the scope nor the place in the line. A look at the run takes no cause away."""

from datetime import UTC, datetime, timedelta

import click
import pytest

from crawler_lifecycle.model.run_plan import RunPlan, RunRef
from crawler_lifecycle.model.states import RunStatus, TaskStatus
from crawler_lifecycle.model.task_changes import CloseLook, TaskChange
from crawler_lifecycle.runs.cli.details_lines import details_lines
from crawler_lifecycle.runs.ports import SupervisorExecution
from tests.kit.service.rig import Rig

pytestmark = pytest.mark.regression(
    "A reopened run waited for its permit without a cause, a scope or a place in the line"
)

MINUTE = timedelta(minutes=1)


def end(rig: Rig, plan: RunPlan, task: int, status: TaskStatus) -> None:
    (row,) = rig.tasks.rows(plan.run.run_id, [task])
    change = TaskChange(task=task, attempt=1, version=row.version, status=status, job_uid=row.job_uid)
    assert rig.tasks.sync(plan.run, [change]) == 1


def reopened(rig: Rig) -> RunRef:
    """Return a PROCESSING run whose child task waits."""
    plan = rig.started("sleepy", tasks=2)
    end(rig, plan, 0, TaskStatus.SUCCEEDED)
    end(rig, plan, 1, TaskStatus.FAILED)
    rig.store.runs.close(plan.run, RunStatus.FAILED, "a test")
    execution = SupervisorExecution(rig.details(plan).run.workflow_id, "next", datetime.now(UTC))
    record = rig.store.runs.reopen(plan.run.run_id, execution)
    assert (record.status, record.admitted_at) == (RunStatus.PROCESSING, None)
    return plan.run.model_copy(update={"epoch": record.epoch})


def shown(rig: Rig, run: RunRef) -> list[str]:
    lines = details_lines(rig.store.records.details(run.run_id), datetime.now(UTC))
    return [" ".join(click.unstyle(line).split()) for line in lines]


def test_a_reopened_run_says_what_holds_it_and_its_place(rig: Rig) -> None:
    rig.store.limits.change("installation", {"runs": 1}, None)
    first, second = (reopened(rig) for _ in range(2))
    rig.begin("sleepy")
    rig.store.limits.pause("installation", "an upgrade", None)
    assert rig.claims.claim_tasks("dispatcher", MINUTE, 4) == []
    paused = "queued the installation is paused: an upgrade, place 1 of 2, since "
    assert any(line.startswith(paused) for line in shown(rig, first))
    rig.store.limits.resume("installation", None)
    assert [claim.run_id for claim in rig.claims.claim_tasks("dispatcher", MINUTE, 4)] == [first.run_id]
    full = "queued the installation is at its limit of 1 run, place 1 of 1"
    assert any(line.startswith(full) for line in shown(rig, second))
    assert not any(line.startswith("queued") for line in shown(rig, first))


def test_a_look_leaves_the_cause_of_a_run_in_line(rig: Rig) -> None:
    run = reopened(rig)
    rig.store.limits.pause("installation", "an upgrade", None)
    rig.claims.claim_tasks("dispatcher", MINUTE, 4)
    rig.do(rig.reconciliation.count_alive_tasks, CloseLook(run=run))
    assert rig.store.records.overview(run.run_id).run.waiting_cause == "paused"
    rig.store.limits.resume("installation", None)
    rig.claims.claim_tasks("dispatcher", MINUTE, 4)
    rig.do(rig.reconciliation.count_alive_tasks, CloseLook(run=run, saturated="capacity"))
    assert rig.store.records.overview(run.run_id).run.waiting_cause == "capacity"
