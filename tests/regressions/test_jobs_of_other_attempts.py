"""A database that was restored from a backup knew less than the cluster: a stop then named the task of a job that lived
on, asked the present attempt's job to end, which was over already, and was never proved."""

import pytest

from crawler_lifecycle.model.looks import JobKey, JobLook, JobPhase, Look, TaskRow
from crawler_lifecycle.model.run_plan import RunInput, RunPlan
from crawler_lifecycle.model.states import Intent, TaskStatus
from crawler_lifecycle.model.task_changes import LookAt
from crawler_lifecycle.runs.model import StopTasks
from crawler_lifecycle.runs.rules.verdict import lingering
from tests.house import House
from tests.services.stop_rounds import stop, stop_round
from tests.waiting import until

LISTENS = "trap 'exit 143' TERM; echo up > up-$CRAWL_TASK-$CRAWL_ATTEMPT; while :; do sleep 0.1; done"
IGNORES = "trap '' TERM; echo up > up-$CRAWL_TASK-$CRAWL_ATTEMPT; while :; do sleep 0.1; done"


@pytest.fixture
def listening(house: House) -> House:
    house.deployer.scripts["listens"] = LISTENS
    house.deployer.scripts["ignores"] = IGNORES
    return house


def deploy(house: House, plan: RunPlan, task: int, attempt: int) -> None:
    """What the database has forgotten."""
    claimed = house.bench.request(house.deployer.scripts[plan.crawler], run_uid=plan.run.run_uid)
    house.bench.cluster.deploy(claimed.model_copy(update={"task": task, "attempt": attempt}))


def until_up(house: House, plan: RunPlan, *jobs: JobKey) -> None:
    folder = house.folder / "files" / plan.run.run_uid
    for task, attempt in jobs:
        until((folder / f"up-{task}-{attempt}").exists, f"task {task}, attempt {attempt}, to be up")


def living(house: House, plan: RunPlan) -> set[JobKey]:
    return {key for key, job in house.bench.cluster.look(plan.run.run_uid).jobs.items() if not job.gone}


@pytest.mark.parametrize("crawler", ["listens", "ignores"])
def test_a_stop_ends_them_all(listening: House, crawler: str) -> None:
    house = listening
    plan, stranger = house.started(crawler, tasks=1), house.started(crawler, tasks=1)
    forgotten = [(0, 2), (5, 1)]
    for task, attempt in forgotten:
        deploy(house, plan, task, attempt)
    until_up(house, plan, (0, 1), *forgotten)
    stop(house, plan)
    if crawler == "ignores":  # nobody is ended without having been asked, but once the stop is forced
        until(lambda: asked(house, plan) >= set(forgotten), "the others to be asked")
        assert living(house, plan) >= set(forgotten)
        force(house, plan)
    until(lambda: stop_round(house.stopping, house.reconciliation, plan.run), "the proof")
    assert living(house, plan) == set()
    assert house.details(plan).tasks[0].status is TaskStatus.STOPPED
    assert living(house, stranger) == {(0, 1)}


def asked(house: House, plan: RunPlan) -> set[JobKey]:
    stop_round(house.stopping, house.reconciliation, plan.run)
    return {key for key, job in house.bench.cluster.look(plan.run.run_uid).jobs.items() if job.stop_asked}


def force(house: House, plan: RunPlan) -> None:
    stop(house, plan, force=True)
    house.stopping.k8_stop_pod(StopTasks(run=plan.run))


def test_a_run_that_goes_on_keeps_its_present_jobs_and_ends_the_others(listening: House) -> None:
    house = listening
    plan = house.started("listens", tasks=1)
    deploy(house, plan, 0, 2)
    until_up(house, plan, (0, 1), (0, 2))
    active = house.do(house.reconciliation.get_active_running_tasks, RunInput(run=plan.run))
    found = house.do(house.reconciliation.get_history_statuses_to_sync, LookAt(run=plan.run, active=active))
    assert found.unwanted == "0"
    house.do(house.stopping.k8_stop_unwanted, StopTasks(run=plan.run, tasks=found.unwanted))
    until(lambda: living(house, plan) == {(0, 1)}, "the other attempt to end")


def test_what_is_wanted_is_told_by_task_and_attempt() -> None:
    rows = [TaskRow(0, TaskStatus.RUNNING, 2, 1, "uid"), TaskRow(1, TaskStatus.SUCCEEDED, 1, 1, "uid")]
    keys = [(0, 1), (0, 2), (0, 3), (1, 1), (9, 1)]
    jobs = {key: JobLook(*key, uid="uid", name="job", phase=JobPhase.RUNNING) for key in keys}
    assert lingering(Look(complete=False, jobs=jobs), rows, Intent.STOP) == [(0, 1), (0, 3), (1, 1), (9, 1)]
