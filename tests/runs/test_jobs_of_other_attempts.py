"""A database that was restored from a backup knew less than the cluster: a stop then named the task of a job that lived
on, asked the present attempt's job to end, which was over already, and was never proved."""

import pytest

from crawler_lifecycle.model.looks import JobKey, JobLook, JobPhase, Look, TaskRow
from crawler_lifecycle.model.run_plan import RunInput, RunPlan
from crawler_lifecycle.model.states import Intent, TaskStatus
from crawler_lifecycle.model.task_changes import LookAt
from crawler_lifecycle.runs.model import StopTasks
from crawler_lifecycle.runs.rules.verdict import lingering
from tests.kit.service.rig import Rig
from tests.kit.waiting import until
from tests.runs.stop_rounds import stop, stop_round

pytestmark = pytest.mark.regression(
    "After a restore from a backup, a stop missed living jobs of other attempts and was never proved"
)

LISTENS = "trap 'exit 143' TERM; echo up > up-$CRAWL_TASK-$CRAWL_ATTEMPT; while :; do sleep 0.1; done"
IGNORES = "trap '' TERM; echo up > up-$CRAWL_TASK-$CRAWL_ATTEMPT; while :; do sleep 0.1; done"


@pytest.fixture
def listening(rig: Rig) -> Rig:
    rig.deployer.scripts["listens"] = LISTENS
    rig.deployer.scripts["ignores"] = IGNORES
    return rig


def deploy(rig: Rig, plan: RunPlan, task: int, attempt: int) -> None:
    """What the database has forgotten."""
    claimed = rig.bench.request(rig.deployer.scripts[plan.crawler], run_uid=plan.run.run_uid)
    rig.bench.cluster.deploy(claimed.model_copy(update={"task": task, "attempt": attempt}))


def until_up(rig: Rig, plan: RunPlan, *jobs: JobKey) -> None:
    folder = rig.folder / "files" / plan.run.run_uid
    for task, attempt in jobs:
        until((folder / f"up-{task}-{attempt}").exists, f"task {task}, attempt {attempt}, to be up")


def living(rig: Rig, plan: RunPlan) -> set[JobKey]:
    return {key for key, job in rig.bench.cluster.look(plan.run.run_uid).jobs.items() if not job.gone}


@pytest.mark.parametrize("crawler", ["listens", "ignores"])
@pytest.mark.long
def test_a_stop_ends_them_all(listening: Rig, crawler: str) -> None:
    rig = listening
    plan, stranger = rig.started(crawler, tasks=1), rig.started(crawler, tasks=1)
    forgotten = [(0, 2), (5, 1)]
    for task, attempt in forgotten:
        deploy(rig, plan, task, attempt)
    until_up(rig, plan, (0, 1), *forgotten)
    stop(rig, plan)
    if crawler == "ignores":  # nobody is ended without having been asked, but once the stop is forced
        until(lambda: asked(rig, plan) >= set(forgotten), "the others to be asked")
        assert living(rig, plan) >= set(forgotten)
        force(rig, plan)
    until(lambda: stop_round(rig.stopping, rig.reconciliation, plan.run), "the proof")
    assert living(rig, plan) == set()
    assert rig.details(plan).tasks[0].status is TaskStatus.STOPPED
    assert living(rig, stranger) == {(0, 1)}


def asked(rig: Rig, plan: RunPlan) -> set[JobKey]:
    stop_round(rig.stopping, rig.reconciliation, plan.run)
    return {key for key, job in rig.bench.cluster.look(plan.run.run_uid).jobs.items() if job.stop_asked}


def force(rig: Rig, plan: RunPlan) -> None:
    stop(rig, plan, force=True)
    rig.stopping.k8_stop_pod(StopTasks(run=plan.run))


def test_a_run_that_goes_on_keeps_its_present_jobs_and_ends_the_others(listening: Rig) -> None:
    rig = listening
    plan = rig.started("listens", tasks=1)
    deploy(rig, plan, 0, 2)
    until_up(rig, plan, (0, 1), (0, 2))
    active = rig.do(rig.reconciliation.get_active_running_tasks, RunInput(run=plan.run))
    found = rig.do(rig.reconciliation.get_history_statuses_to_sync, LookAt(run=plan.run, active=active))
    assert found.unwanted == "0"
    rig.do(rig.stopping.k8_stop_unwanted, StopTasks(run=plan.run, tasks=found.unwanted))
    until(lambda: living(rig, plan) == {(0, 1)}, "the other attempt to end")


def test_what_is_wanted_is_told_by_task_and_attempt() -> None:
    rows = [TaskRow(0, TaskStatus.RUNNING, 2, 1, "uid"), TaskRow(1, TaskStatus.SUCCEEDED, 1, 1, "uid")]
    keys = [(0, 1), (0, 2), (0, 3), (1, 1), (9, 1)]
    jobs = {key: JobLook(*key, uid="uid", name="job", phase=JobPhase.RUNNING) for key in keys}
    assert lingering(Look(complete=False, jobs=jobs), rows, Intent.STOP) == [(0, 1), (0, 3), (1, 1), (9, 1)]
