"""Ending jobs: add_cancellation_log_to_db, cancel_queued_tasks, k8_stop_task, k8_stop_pod."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import cast

import pytest

from crawler_lifecycle.clusters.ports import Cluster
from crawler_lifecycle.errors import LifecycleError, Refused, TemporaryError
from crawler_lifecycle.model.looks import JobKey, JobPhase
from crawler_lifecycle.model.requests import StopRequest
from crawler_lifecycle.model.run_plan import CloseRun
from crawler_lifecycle.model.states import Intent, RunStatus, StopPhase, TaskStatus
from crawler_lifecycle.model.task_changes import CloseLook, TaskChange, TaskEvidence
from crawler_lifecycle.runs.model import LogCancellation, StopReport, StopTasks
from tests.kit.service.rig import Rig
from tests.kit.waiting import until

ASKED = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def test_who_stopped_is_logged_once_and_force_escalates(rig: Rig) -> None:
    plan = rig.started("sleepy")
    stop = StopRequest(actor="ann", reason="too slow", door="crawlctl")
    for _ in range(2):
        step = LogCancellation(run=plan.run, stop=stop, asked_at=ASKED)
        rig.do(rig.stopping.add_cancellation_log_to_db, step)
    details = rig.details(plan)
    assert (details.run.intent, details.run.status) == (Intent.STOP, RunStatus.STOPPING)
    stops = [line for line in details.log if line.event == "stop"]
    assert [(line.actor, line.message, line.door, line.at) for line in stops] == [
        ("ann", "too slow", "crawlctl", ASKED)
    ]
    force = LogCancellation(run=plan.run, stop=StopRequest(force=True, actor="bob"), asked_at=ASKED)
    rig.do(rig.stopping.add_cancellation_log_to_db, force)
    rig.do(rig.stopping.add_cancellation_log_to_db, LogCancellation(run=plan.run, stop=stop, asked_at=ASKED))
    assert rig.details(plan).run.intent is Intent.FORCE


def test_a_stop_that_came_too_late_is_told_and_changes_nothing(rig: Rig) -> None:
    plan = rig.begin()
    rig.do(rig.stopping.cancel_queued_tasks, CloseRun(run=plan.run, reason="stopped"))
    rig.do(rig.histories.update_run_status, CloseRun(run=plan.run, reason="stopped"))
    before = rig.details(plan).run
    stop = StopRequest(actor="ann", force=True, door="signal")
    for _ in range(2):
        late = LogCancellation(run=plan.run, stop=stop, asked_at=ASKED)
        rig.do(rig.stopping.add_cancellation_log_to_db, late)
    details = rig.details(plan)
    assert (details.run.status, details.run.intent, details.run.reason) == (before.status, Intent.RUN, before.reason)
    assert [(line.actor, line.door) for line in details.log if line.event == "force stop"] == [("ann", "signal")]


def test_what_is_queued_never_runs(rig: Rig) -> None:
    plan = rig.started("sleepy", tasks=4)
    counts = [
        rig.do(rig.stopping.cancel_queued_tasks, CloseRun(run=plan.run, reason="stopped")).count for _ in range(2)
    ]
    assert counts == [3, 0]
    tasks = rig.details(plan).tasks
    assert [task.status for task in tasks[1:]] == [TaskStatus.STOPPED] * 3
    assert {task.reason for task in tasks[1:]} == {"stopped"}


def test_jobs_are_asked_to_end_and_then_made_to(rig: Rig) -> None:
    rig.deployer.scripts["stubborn"] = 'trap "" TERM; echo ready > ready-$CRAWL_TASK; while :; do sleep 0.1; done'
    plan = rig.started("stubborn", tasks=2)
    rig.deploy_children(plan)
    folder = rig.folder / "files" / plan.run.run_uid
    until(lambda: (folder / "ready-0").exists() and (folder / "ready-1").exists(), "both to ignore SIGTERM")
    for _ in range(2):
        assert rig.do(rig.stopping.k8_stop_task, StopTasks(run=plan.run)).asked == 2
    assert {job.phase for job in rig.bench.cluster.look(plan.run.run_uid).jobs.values()} == {JobPhase.ENDING}
    for _ in range(2):
        rig.do(rig.stopping.k8_stop_pod, StopTasks(run=plan.run))

    def gone() -> bool:
        return all(job.gone for job in rig.bench.cluster.look(plan.run.run_uid).jobs.values())

    until(gone, "both jobs to be gone")


def test_stopping_goes_in_pages(rig: Rig) -> None:
    plan = rig.started("sleepy", tasks=3)
    stop = LogCancellation(run=plan.run, stop=StopRequest(actor="ann"), asked_at=ASKED)
    rig.do(rig.stopping.add_cancellation_log_to_db, stop)
    report = rig.do(rig.stopping.k8_stop_task, StopTasks(run=plan.run, tasks="0-2"))
    assert (report.asked, report.rest) == (3, "")


class Knowing:
    """A cluster that tells of each job that it runs; or that it does not tell."""

    def __init__(self, problem: LifecycleError | None = None) -> None:
        self.problem = problem
        self.done: list[object] = []

    def evidence(self, run_uid: str, jobs: Sequence[JobKey], *, hurried: bool = False) -> list[TaskEvidence]:
        assert hurried, "a stop waits for it"
        self.done.append(list(jobs))
        if self.problem:
            raise self.problem
        return [TaskEvidence(task=task, attempt=attempt, node="node-3", restarts=2) for task, attempt in jobs]

    def unreached(self, run_uid: str, jobs: Sequence[JobKey]) -> dict[JobKey, str]:
        return {}

    def stop(self, run_uid: str, jobs: Sequence[JobKey], *, hurried: bool = False, **_: object) -> dict[JobKey, str]:
        self.done.append("ended in a hurry" if hurried else "ended")
        return {}

    kill = stop


@pytest.mark.parametrize("forced", [False, True])
def test_what_is_known_of_jobs_is_kept_before_they_are_ended(rig: Rig, *, forced: bool) -> None:
    """Once, before a look sees them ending: what they ran is gone with its objects."""
    plan, cluster = rig.started("sleepy", tasks=2), Knowing()
    rig.deploy_children(plan)
    stopping = replace(rig.stopping, cluster=cast(Cluster, cluster))
    end = stopping.k8_stop_pod if forced else stopping.k8_stop_task
    rig.do(end, StopTasks(run=plan.run))
    assert cluster.done == [[(0, 1), (1, 1)], "ended"]
    assert [(task.node, task.restarts) for task in rig.details(plan).tasks] == [("node-3", 2)] * 2
    rows = rig.tasks.rows(plan.run.run_id, [0, 1])
    change = partial(TaskChange, attempt=1, status=TaskStatus.STOPPING)
    rig.tasks.sync(plan.run, [change(task=row.task, version=row.version, job_uid=row.job_uid) for row in rows])
    rig.do(end, StopTasks(run=plan.run))
    assert cluster.done[2:] == ["ended"]


def test_what_is_not_known_keeps_no_job_alive(rig: Rig) -> None:
    plan, cluster = rig.started("sleepy"), Knowing(TemporaryError("no pods today"))
    rig.do(replace(rig.stopping, cluster=cast(Cluster, cluster)).k8_stop_task, StopTasks(run=plan.run))
    assert cluster.done == [[(0, 1)], "ended"]


def test_who_will_be_killed_next_is_asked_in_a_hurry(rig: Rig) -> None:
    plan, cluster = rig.started("sleepy"), Knowing()
    force = LogCancellation(run=plan.run, stop=StopRequest(actor="ann", force=True), asked_at=ASKED)
    rig.do(rig.stopping.add_cancellation_log_to_db, force)
    rig.do(replace(rig.stopping, cluster=cast(Cluster, cluster)).k8_stop_task, StopTasks(run=plan.run))
    assert cluster.done == [[(0, 1)], "ended in a hurry"]


class Elsewhere(Knowing):
    """A cluster whose jobs run in another cluster."""

    def stop(self, run_uid: str, jobs: Sequence[JobKey], **_: object) -> dict[JobKey, str]:
        return dict.fromkeys(jobs, "kueue.x-k8s.io/multikueue")


def test_a_stop_says_once_what_its_proof_does_not_cover(rig: Rig) -> None:
    plan = rig.started("sleepy", tasks=2)
    rig.deploy_children(plan)
    stopping = replace(rig.stopping, cluster=cast(Cluster, Elsewhere()))
    for _ in range(2):
        rig.do(stopping.k8_stop_task, StopTasks(run=plan.run))
    [line] = [line.message for line in rig.details(plan).log if line.event == StopPhase.UNCONFIRMED]
    assert "tasks 0-1 are run by kueue.x-k8s.io/multikueue, possibly in another cluster" in line


class Denying(Knowing):
    """A cluster in which one job cannot be deleted; or that does not answer at all."""

    outage: TemporaryError | None = None

    def stop(self, run_uid: str, jobs: Sequence[JobKey], **_: object) -> dict[JobKey, str]:
        raise TemporaryError("the job of task 0 is held by a policy")

    kill = stop

    def check(self) -> str:
        if self.outage:
            raise self.outage
        return "well"


@pytest.mark.parametrize("forced", [False, True])
def test_a_page_that_fails_again_and_again_keeps_no_other_alive(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, *, forced: bool
) -> None:
    """One job of it cannot be deleted. In an outage all pages wait."""
    monkeypatch.setattr("crawler_lifecycle.runs.activities.stopping.JOBS_IN_A_PAGE", 1)
    plan, cluster = rig.started("sleepy", tasks=2), Denying()
    stopping = replace(rig.stopping, cluster=cast(Cluster, cluster))
    end, step = stopping.k8_stop_pod if forced else stopping.k8_stop_task, StopTasks(run=plan.run, tasks="0-1")
    for attempt in (1, 2, 3):
        rig.environment.info = replace(rig.environment.info, attempt=attempt)
        with pytest.raises(TemporaryError, match="held by a policy"):
            rig.do(end, step)
    rig.environment.info = replace(rig.environment.info, attempt=4)
    cluster.outage = TemporaryError("no answer")
    with pytest.raises(TemporaryError, match="no answer"):
        rig.do(end, step)
    cluster.outage = None
    assert rig.do(end, step) == StopReport(asked=1, rest="1")
    assert rig.details(plan).run.look_problem == "the job of task 0 is held by a policy"


class Unreached:
    """A cluster of which some nodes do not answer."""

    def __init__(self, answer: dict[JobKey, str] | LifecycleError) -> None:
        self.answer = answer
        self.done: list[str] = []

    def evidence(self, run_uid: str, jobs: Sequence[JobKey], *, hurried: bool = False) -> list[TaskEvidence]:
        return []

    def unreached(self, run_uid: str, jobs: Sequence[JobKey]) -> dict[JobKey, str]:
        self.done.append("asked")
        if isinstance(self.answer, LifecycleError):
            raise self.answer
        return self.answer

    def kill(self, run_uid: str, jobs: Sequence[JobKey], **_: object) -> None:
        self.done.append("killed")


def test_an_end_by_force_that_nobody_confirms_says_so_once(rig: Rig) -> None:
    """A pod that is deleted by force is gone at once, also from a node that nobody reaches."""
    plan = rig.started("sleepy", tasks=3)
    cluster = Unreached({(2, 1): "node-3", (1, 1): "node-7"})
    stopping = replace(rig.stopping, cluster=cast(Cluster, cluster))
    for _ in range(2):
        assert rig.do(stopping.k8_stop_pod, StopTasks(run=plan.run, tasks="0-2")).asked == 3
    assert cluster.done == ["asked", "killed"] * 2, "afterwards nobody can tell"
    log = rig.details(plan).log
    [line] = [each.message for each in log if each.event == StopPhase.UNCONFIRMED]
    assert line == "tasks 1-2 are killed on nodes that do not answer (node-3, node-7): they may still run"


@pytest.mark.parametrize("answer", [{}, TemporaryError("no answer"), Refused("not for you")])
def test_what_cannot_be_told_of_nodes_keeps_nothing_alive(rig: Rig, answer: dict[JobKey, str] | LifecycleError) -> None:
    plan = rig.started("sleepy")
    cluster = Unreached(answer)
    stopping = replace(rig.stopping, cluster=cast(Cluster, cluster))
    rig.do(stopping.k8_stop_pod, StopTasks(run=plan.run, tasks="0"))
    assert cluster.done == ["asked", "killed"]
    assert not [each for each in rig.details(plan).log if each.event == StopPhase.UNCONFIRMED]


class Away:
    """A cluster that does not answer."""

    def stop(self, run_uid: str, jobs: Sequence[JobKey], **_: object) -> None:
        raise TemporaryError("the API server does not answer")

    unreached = kill = stop

    def evidence(self, run_uid: str, jobs: Sequence[JobKey], *, hurried: bool = False) -> list[TaskEvidence]:
        raise TemporaryError("the API server does not answer")


def test_a_cluster_that_does_not_take_a_stop_is_told_of_at_once_and_until_it_is_seen(rig: Rig) -> None:
    plan = rig.started("sleepy")
    stopping = replace(rig.stopping, cluster=cast(Cluster, Away()))
    for ask in (stopping.k8_stop_task, stopping.k8_stop_pod):
        with pytest.raises(TemporaryError):
            rig.do(ask, StopTasks(run=plan.run))
        assert rig.details(plan).run.look_problem == "the API server does not answer"
        seen = CloseLook(run=plan.run, nudge=0, known=True)
        rig.do(rig.reconciliation.count_alive_tasks, seen)
        assert rig.details(plan).run.look_problem is None
