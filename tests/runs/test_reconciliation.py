"""A look, activity by activity, against real jobs."""

import time
from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import cast

import pytest

from crawler_lifecycle.clusters.ports import NO_UIDS, Cluster, Uids
from crawler_lifecycle.errors import TemporaryError
from crawler_lifecycle.model.looks import JobKey, JobLook, JobPhase, Look, Pods, Presence
from crawler_lifecycle.model.reasons import IMAGE_PULL, ORPHAN_PODS, POD_OVERDUE, SUSPENDED
from crawler_lifecycle.model.run_plan import Removal, RemoveJobs, RunPlan
from crawler_lifecycle.model.states import TaskStatus
from crawler_lifecycle.model.task_changes import (
    CloseLook,
    Differences,
    EvidencePage,
    EvidenceRequest,
    EvidenceWrite,
    LookAt,
    StatusWrite,
    TaskEvidence,
)
from crawler_lifecycle.runs.activities import reconciliation
from crawler_lifecycle.runs.activities.reconciliation import ReconciliationActivities
from crawler_lifecycle.runs.model import StopTasks
from tests.kit.service.rig import Rig
from tests.runs.removals import Removing, both_over, differences, opened


def test_what_the_database_believes_alive_is_listed_by_status(rig: Rig) -> None:
    plan = rig.started("sleepy", tasks=4)
    assert opened(rig, plan).by_status == {TaskStatus.QUEUED: "1-3", TaskStatus.PENDING: "0"}


def test_only_what_differs_comes_back_and_nothing_twice(rig: Rig) -> None:
    plan, found = both_over(rig)
    assert [(change.task, change.status, change.reason, change.exit_code) for change in found.changes] == [
        (0, TaskStatus.SUCCEEDED, None, 0),
        (1, TaskStatus.FAILED, "exit_3", 3),
    ]
    assert found.evidence == "0-1"
    written = rig.do(rig.reconciliation.sync_statuses, StatusWrite(run=plan.run, changes=found.changes))
    assert (written.written, written.stale) == (2, 0)
    assert differences(rig, plan).changes == []
    again = rig.do(rig.reconciliation.sync_statuses, StatusWrite(run=plan.run, changes=found.changes))
    assert (again.written, again.stale) == (0, 2)


def test_evidence_is_kept_with_its_task(rig: Rig) -> None:
    plan, found = both_over(rig)
    request = EvidenceRequest(run=plan.run, tasks=found.evidence)
    page: EvidencePage = rig.do(rig.reconciliation.get_bulk_task_history_data, request)
    assert page.rest == ""
    for _ in range(2):
        rig.do(rig.reconciliation.reconcile_tasks, EvidenceWrite(run=plan.run, items=page.items))
    failed = rig.details(plan).tasks[1]
    assert failed.log_tail is not None
    assert "task one fails" in failed.log_tail
    assert failed.node


class Explaining:
    """A cluster whose evidence about task 0 names these jobs' uids."""

    def __init__(self, *uids: str | None) -> None:
        self.uids = uids

    def evidence(self, run_uid: str, jobs: Sequence[JobKey], *, hurried: bool = False) -> list[TaskEvidence]:
        return [TaskEvidence(task=0, attempt=1, job_uid=uid, node=f"node of {uid}") for uid in self.uids]


def test_evidence_of_another_job_is_left_out(rig: Rig) -> None:
    plan = rig.started("sleepy", tasks=1)
    ours = rig.details(plan).tasks[0].job_uid
    explaining = replace(rig.reconciliation, cluster=cast(Cluster, Explaining("another", ours, None)))
    page = rig.do(explaining.get_bulk_task_history_data, EvidenceRequest(run=plan.run, tasks="0"))
    assert [item.job_uid for item in page.items] == [ours, None]


def test_a_cluster_that_cannot_be_seen_is_unknown(rig: Rig) -> None:
    plan, _ = both_over(rig)
    root = rig.bench.layout.root
    root.rename(root.with_name("elsewhere"))
    found = differences(rig, plan)
    root.with_name("elsewhere").rename(root)
    assert (found.known, found.changes) == (False, [])
    assert found.problem


def test_counting_closes_the_look(rig: Rig) -> None:
    plan = rig.started("sleepy", tasks=3)
    step = CloseLook(run=plan.run, nudge=4, known=True)
    alive = rig.do(rig.reconciliation.count_alive_tasks, step)
    assert (alive.queued, alive.pending, alive.active) == (2, 1, 0)
    run = rig.details(plan).run
    assert run.nudge_acknowledged == 4
    good = run.last_look_at
    assert good is not None
    unknown = CloseLook(run=plan.run, nudge=3, known=False, problem="no answer")
    rig.do(rig.reconciliation.count_alive_tasks, unknown)
    run = rig.details(plan).run
    assert (run.nudge_acknowledged, run.last_look_at, run.look_problem) == (4, good, "no answer")


def with_removing(rig: Rig, stay: int = 0) -> tuple[ReconciliationActivities, Removing]:
    cluster = Removing(rig, stay)
    return replace(rig.reconciliation, cluster=cast(Cluster, cluster)), cluster


def test_a_job_is_removable_once_its_end_is_on_record(rig: Rig) -> None:
    plan, found = both_over(rig)
    removing, _ = with_removing(rig)
    step = LookAt(run=plan.run, active=opened(rig, plan))
    assert rig.do(removing.get_history_statuses_to_sync, step).removable == ""
    rig.do(rig.reconciliation.sync_statuses, StatusWrite(run=plan.run, changes=found.changes))
    step = LookAt(run=plan.run, active=opened(rig, plan))
    assert rig.do(removing.get_history_statuses_to_sync, step).removable == "0-1"


def test_only_what_is_over_is_removed_twice_is_as_good_as_once(rig: Rig) -> None:
    plan, found = both_over(rig)
    removing, cluster = with_removing(rig, stay=1)
    only_first = [change for change in found.changes if change.task == 0]
    rig.do(rig.reconciliation.sync_statuses, StatusWrite(run=plan.run, changes=only_first))
    known = rig.do(rig.reconciliation.get_bulk_task_history_data, EvidenceRequest(run=plan.run, tasks="0"))
    rig.do(rig.reconciliation.reconcile_tasks, EvidenceWrite(run=plan.run, items=known.items))
    for _ in range(2):
        removal = rig.do(removing.remove_jobs, RemoveJobs(run=plan.run))
        assert (removal.left, removal.rest) == (1, "")
    assert cluster.removed == [(0, 1)] * 2
    rig.do(removing.remove_jobs, RemoveJobs(run=plan.run, tasks="0-1"))
    assert cluster.removed[2:] == [(0, 1), (1, 0)], "of a task that goes on, only earlier attempts"


def test_a_page_that_fails_again_and_again_keeps_no_other_from_being_removed(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One job of it cannot be removed, or it takes longer than a try may. In an outage all pages wait."""
    monkeypatch.setattr(reconciliation, "JOBS_REMOVED_IN_A_PAGE", 10)
    plan = rig.started(tasks=15)
    removing, cluster = with_removing(rig)
    cluster.trouble = TemporaryError("its log cannot be kept")
    step = RemoveJobs(run=plan.run, tasks="0-14")
    for attempt in (1, 2, 3):
        assert not [line for line in rig.details(plan).log if line.event == "not_removed"], "it may pass"
        rig.environment.info = replace(rig.environment.info, attempt=attempt)
        with pytest.raises(TemporaryError, match="its log"):
            rig.do(removing.remove_jobs, step)
    rig.environment.info = replace(rig.environment.info, attempt=4)
    cluster.outage = TemporaryError("no answer")
    with pytest.raises(TemporaryError, match="no answer"):
        rig.do(removing.remove_jobs, step)
    cluster.outage = None
    assert rig.do(removing.remove_jobs, step) == Removal(left=10, rest="10-14")
    notes = [line.message for line in rig.details(plan).log if line.event == "not_removed"]
    assert notes == ["ended jobs stay in the cluster: its log cannot be kept"]


def test_many_jobs_are_removed_in_pages(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconciliation, "JOBS_REMOVED_IN_A_PAGE", 10)
    plan = rig.started(tasks=15)
    removing, cluster = with_removing(rig)
    removal = rig.do(removing.remove_jobs, RemoveJobs(run=plan.run, tasks="0-14"))
    assert (len(cluster.removed), removal.rest) == (10, "10-14")


class Showing:
    """A cluster that shows just these jobs, and notes which ones it was asked about."""

    def __init__(self, *jobs: JobLook) -> None:
        self.shown = Look(complete=True, jobs={(job.task, job.attempt): job for job in jobs})
        self.watched: Collection[JobKey] = ()
        self.killed: list[JobKey] = []
        self.asked: list[JobKey] = []
        self.changed: set[JobKey] = set()  # since the last look

    def give_up(self, run_uid: str, jobs: Sequence[JobLook]) -> set[JobKey]:
        return {(job.task, job.attempt) for job in jobs} - self.changed

    def stop(self, run_uid: str, jobs: Sequence[JobKey], *, uids: Uids = NO_UIDS, hurried: bool = False) -> None:
        self.asked += jobs

    def kill(self, run_uid: str, jobs: Sequence[JobKey], *, uids: Uids = NO_UIDS, keep: object = None) -> None:
        self.killed += jobs

    def unreached(self, run_uid: str, jobs: Sequence[JobKey]) -> dict[JobKey, str]:
        return {}

    def evidence(self, run_uid: str, jobs: Sequence[JobKey], *, hurried: bool = False) -> list[TaskEvidence]:
        return [TaskEvidence(task=task, attempt=attempt, events=["no such image"]) for task, attempt in jobs]

    def look(
        self,
        run_uid: str,
        watched: Collection[JobKey] = (),
        tasks: Collection[int] | None = None,
        *,
        uids: Uids = NO_UIDS,
    ) -> Look:
        self.watched = watched
        return self.shown


def shown(rig: Rig, plan: RunPlan, *jobs: JobLook) -> tuple[Differences, Showing]:
    cluster = Showing(*jobs)
    step = LookAt(run=plan.run, active=opened(rig, plan))
    looking = replace(rig.reconciliation, cluster=cast(Cluster, cluster))
    return rig.do(looking.get_history_statuses_to_sync, step), cluster


def test_a_task_that_was_never_deployed_is_not_asked_for(rig: Rig) -> None:
    plan = rig.started("sleepy", tasks=4)
    _, cluster = shown(rig, plan)
    assert list(cluster.watched) == [(0, 1)], "tasks 1 to 3 are queued: that they have no job is no news"


def test_pods_that_lost_their_job_are_asked_to_end(rig: Rig) -> None:
    plan = rig.started("sleepy", tasks=1)
    uid = rig.details(plan).tasks[0].job_uid or ""
    orphan = JobLook(0, 1, uid, "job", JobPhase.ENDING, ORPHAN_PODS)
    found, _ = shown(rig, plan, orphan)
    assert (found.unwanted, found.evidence) == ("0", "0")
    found, _ = shown(rig, plan, replace(orphan, cause=None))
    assert found.unwanted == ""


def test_an_image_that_is_missing_for_tasks_is_logged_once(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    plan = rig.started("sleepy", tasks=1)
    uid = rig.details(plan).tasks[0].job_uid or ""
    waits = JobLook(0, 1, uid, "job", JobPhase.WAITING, IMAGE_PULL, message="401", give_up_after=timedelta(hours=1))
    for message in ("401", "back-off"):
        differences, _ = shown(rig, plan, replace(waits, message=message))
        rig.do(rig.reconciliation.sync_statuses, StatusWrite(run=plan.run, changes=differences.changes))
    assert caplog.messages == [f"run {plan.run.run_id}: 1 task cannot start. Task 0: image_pull: 401"]


@pytest.mark.parametrize("started", [None, "before the last look", "behind the last look"])
def test_a_job_that_waits_in_vain_is_ended_only_if_it_still_waits(rig: Rig, started: str | None) -> None:
    """The webhook that had rejected its pods came back between the look and the end: a live crawl was deleted."""
    plan = rig.started("sleepy", tasks=1)
    uid = rig.details(plan).tasks[0].job_uid or ""
    waits = JobLook(0, 1, uid, "job", JobPhase.WAITING, IMAGE_PULL, message="401", give_up_after=timedelta())
    first, _ = shown(rig, plan, waits)
    rig.do(rig.reconciliation.sync_statuses, StatusWrite(run=plan.run, changes=first.changes))
    second, cluster = shown(rig, plan, waits)
    assert (second.changes, second.unwanted) == ([], "0"), "its task is not over before its job is ended"
    if started == "behind the last look":
        cluster.changed.add((0, 1))
    elif started:
        cluster.shown = Look(complete=True, jobs={(0, 1): replace(waits, phase=JobPhase.RUNNING, cause=None)})
    stopping = replace(rig.stopping, cluster=cast(Cluster, cluster))
    rig.do(stopping.k8_stop_unwanted, StopTasks(run=plan.run, tasks="0"))
    (task,) = rig.details(plan).tasks
    if started:
        assert (task.status, cluster.asked) == (TaskStatus.PENDING, [])
    else:
        assert (task.status, task.reason, task.message) == (TaskStatus.FAILED, "image_pull", "401")
        assert (cluster.asked, task.events) == ([(0, 1)], ["no such image"])


def test_what_has_ended_and_is_still_listed_is_counted_whether_its_end_is_on_record_or_not(rig: Rig) -> None:
    plan = rig.started("sleepy", tasks=1)
    uid = rig.details(plan).tasks[0].job_uid or ""
    leaves = JobLook(0, 1, uid, "job", JobPhase.FAILED, presence=Presence.BEING_DELETED, pods=Pods.ENDED)
    earlier = replace(leaves, task=1, uid="of-one-that-is-over")
    assert shown(rig, plan, leaves, earlier)[0].leaving == 2
    assert shown(rig, plan, replace(leaves, presence=Presence.PRESENT))[0].leaving == 0


def test_a_run_is_held_while_every_job_of_it_is_suspended(rig: Rig) -> None:
    plan = rig.started("sleepy", tasks=3, max_parallel=2)
    rig.deploy_children(plan)
    uids = [str(task.job_uid) for task in rig.details(plan).tasks]
    main, child = (JobLook(task, 1, uids[task], "job", JobPhase.WAITING, SUSPENDED) for task in (0, 1))
    assert shown(rig, plan, main, child)[0].suspended, "task 2 is queued: it has no job yet"
    assert not shown(rig, plan, main, replace(child, phase=JobPhase.RUNNING, cause=None))[0].suspended
    assert not shown(rig, plan, main, replace(child, phase=JobPhase.RUNNING))[0].suspended, "its pods still end"
    assert not shown(rig, plan, main, replace(child, cause="unschedulable"))[0].suspended
    assert shown(rig, plan, main)[0].suspended is None, "what is not seen may run"
    assert shown(rig, plan, main, replace(child, phase=JobPhase.UNCLEAR, cause=None))[0].suspended is None
    assert shown(rig, plan)[0].suspended is None


def test_a_look_tells_how_long_it_took(rig: Rig) -> None:
    plan = rig.started("sleepy", tasks=1)
    began = time.monotonic()
    found, _ = shown(rig, plan)
    assert 0 < found.seconds < time.monotonic() - began


def test_what_never_ends_is_named_and_forced_and_nothing_else(rig: Rig) -> None:
    plan = rig.started("sleepy", tasks=2)
    rig.deploy_children(plan)
    uids = [str(task.job_uid) for task in rig.details(plan).tasks]
    runs = JobLook(0, 1, uids[0], "job", JobPhase.RUNNING)
    never_ends = JobLook(1, 1, uids[1], "job", JobPhase.ENDING, POD_OVERDUE)
    first, _ = shown(rig, plan, runs, never_ends)
    assert (first.unwanted, first.evidence) == ("", "1"), "the first look only puts it on record"
    rig.do(rig.reconciliation.sync_statuses, StatusWrite(run=plan.run, changes=first.changes))
    second, cluster = shown(rig, plan, runs, never_ends)
    assert second.unwanted == "1"
    stopping = replace(rig.stopping, cluster=cast(Cluster, cluster))
    report = rig.do(stopping.k8_stop_unwanted, StopTasks(run=plan.run, tasks="0-1"))
    assert (report.asked, cluster.killed, cluster.asked) == (1, [(1, 1)], [])


def test_of_many_jobs_that_are_ending_only_some_are_asked_what_they_printed(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reconciliation, "STOPPING_WITH_EVIDENCE", 1)
    plan = rig.started("sleepy", tasks=2)
    rig.deploy_children(plan)
    uids = [str(task.job_uid) for task in rig.details(plan).tasks]
    ending = [JobLook(task, 1, uid, "job", JobPhase.ENDING) for task, uid in enumerate(uids)]
    found, _ = shown(rig, plan, *ending)
    assert (len(found.changes), found.evidence) == (2, "0")
