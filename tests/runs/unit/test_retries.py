"""Another attempt comes after failures of the infrastructure, within the budget, and never beside the former job."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from crawler_lifecycle.model.looks import JobLook, JobPhase, Look, OutcomeFacts, Pods, TaskRow
from crawler_lifecycle.model.reasons import JOB_DISAPPEARED, POD_OVERDUE, SIDECAR_HANGING
from crawler_lifecycle.model.retries import FailureKind, Retries
from crawler_lifecycle.model.states import Intent, TaskStatus
from crawler_lifecycle.model.task_changes import TaskChange
from crawler_lifecycle.runs.rules.retries import ABSENT_FOR_SURE, LONGEST_PAUSE, SHORTEST_RECHECK, recheck_pause
from crawler_lifecycle.runs.rules.verdict import verdicts
from tests.kit.data.rows import NOW, applied, row

NOTHING_THERE = Look(complete=True)
BOTH = Retries(infrastructure=2, program=1)


def shown(phase: JobPhase, **details: Any) -> Look:
    details = {"pods": Pods.ENDED, **details}
    return Look(complete=True, jobs={(0, 1): JobLook(0, 1, "job-uid", "job", phase, **details)})


def drained() -> Look:
    return shown(JobPhase.FAILED, reason="drained")


def change_of(
    look: Look, old: TaskRow | None = None, retries: Retries = BOTH, intent: Intent = Intent.RUN
) -> TaskChange | None:
    changes, _ = verdicts([old or row()], look, intent, NOW, None, retries)
    return changes[0] if changes else None


def next_kind(change: TaskChange | None) -> FailureKind | None:
    assert change is not None
    return change.next_attempt.kind if change.next_attempt else None


@pytest.mark.parametrize(
    "reason",
    [
        "drained",
        "preempted",
        "evicted",
        "node_tainted",
        "node_deleted",
        "node_shutdown",
        "node_rejected",
        "node_lost",
        "disrupted",
        "deleted_externally",
    ],
)
def test_failures_of_the_infrastructure(reason: str) -> None:
    assert next_kind(change_of(shown(JobPhase.FAILED, reason=reason))) is FailureKind.INFRASTRUCTURE
    # many programs end with a code of their own when a node shuts down
    with_code = shown(JobPhase.FAILED, reason=reason, exit_code=143)
    assert next_kind(change_of(with_code)) is FailureKind.INFRASTRUCTURE


@pytest.mark.parametrize(("reason", "code"), [("exit_3", 3), ("oom_killed", 137), ("sigsegv", 139)])
def test_failures_of_the_program_are_retried_on_request_only(reason: str, code: int) -> None:
    failed = shown(JobPhase.FAILED, reason=reason, exit_code=code)
    assert next_kind(change_of(failed)) is FailureKind.PROGRAM
    assert next_kind(change_of(failed, retries=Retries())) is None


@pytest.mark.parametrize(
    "look",
    [
        shown(JobPhase.SUCCEEDED, exit_code=0),
        shown(JobPhase.FAILED, reason="deadline_exceeded", exit_code=143),
        shown(JobPhase.FAILED, reason="image_pull"),
        shown(JobPhase.FAILED, reason="job_failed_main_ok", exit_code=0),
        shown(JobPhase.FAILED, reason="pod_overdue"),
    ],
)
def test_ends_that_no_retry_mends(look: Look) -> None:
    assert next_kind(change_of(look)) is None


def test_the_budget_of_each_kind() -> None:
    used = replace(row(), infrastructure_failures=2)
    assert next_kind(change_of(drained(), used)) is None
    assert next_kind(change_of(shown(JobPhase.FAILED, reason="exit_3", exit_code=3), used)) is FailureKind.PROGRAM
    assert next_kind(change_of(drained(), replace(row(), program_failures=1))) is FailureKind.INFRASTRUCTURE


def test_the_pause_grows_to_a_limit() -> None:
    many = Retries(infrastructure=100, pause_seconds=10)
    pauses = []
    for failures in (0, 1, 2, 50):
        change = change_of(drained(), replace(row(), infrastructure_failures=failures), many)
        assert change is not None
        assert change.next_attempt is not None
        pauses.append(change.next_attempt.deploy_after - NOW)
    assert pauses == [timedelta(seconds=10), timedelta(seconds=20), timedelta(seconds=40), LONGEST_PAUSE]


@pytest.mark.parametrize("intent", [Intent.STOP, Intent.FORCE])
def test_a_stop_ends_retries(intent: Intent) -> None:
    change = change_of(drained(), intent=intent)
    assert change is not None
    assert change.next_attempt is None


def test_an_end_stays_open_while_its_job_may_run() -> None:
    facts = OutcomeFacts(job_uid="job-uid", exit_code=3)
    running = shown(JobPhase.FAILED, reason="drained", exit_code=3, pods=Pods.MAY_RUN, cause="failing", facts=facts)
    change = change_of(running)
    assert change is not None
    assert (change.status, change.cause, change.next_attempt) == (TaskStatus.RUNNING, "failing", None)
    assert change.facts == facts, "the facts are on record from the first look on"
    open_row = applied(row(), change)
    assert change_of(running, open_row) is None, "the next look writes nothing again"
    assert recheck_pause([open_row], [], running, NOW) == SHORTEST_RECHECK
    gone = shown(JobPhase.FAILED, reason="drained", exit_code=3, facts=facts)
    assert next_kind(change_of(gone, open_row)) is FailureKind.INFRASTRUCTURE
    without_budget = change_of(running, retries=Retries(infrastructure=0))
    assert without_budget is not None
    assert without_budget.status is TaskStatus.FAILED


def test_an_end_that_stays_open_brings_its_job_on_record() -> None:
    """The answer to the deployment was lost: the claim must not run out and deploy once more."""
    running = shown(JobPhase.FAILED, reason="drained", pods=Pods.MAY_RUN)
    change = change_of(running, row(TaskStatus.DEPLOYING, None))
    assert change is not None
    assert (change.status, change.job_uid, change.job_name) == (TaskStatus.RUNNING, "job-uid", "job")


def test_an_overdue_job_is_not_waited_for_and_gets_no_retry() -> None:
    """Its node is silent: the program could run on beside the next attempt."""
    overdue = shown(JobPhase.FAILED, reason="drained", pods=Pods.MAY_RUN, cause=POD_OVERDUE)
    killed = shown(JobPhase.FAILED, reason="node_tainted")
    for change in (change_of(overdue), change_of(killed, replace(row(), cause=POD_OVERDUE))):
        assert change is not None
        assert (change.status, change.next_attempt) == (TaskStatus.FAILED, None)


def test_a_task_that_is_given_up_behind_a_sidecar_is_over_at_once() -> None:
    """Waiting would be for ever: nobody ends the sidecar of an open task."""
    facts = OutcomeFacts(job_uid="job-uid", succeeded=False, told_to_end=False, reason="exit_3", exit_code=3)
    hangs = shown(
        JobPhase.RUNNING, cause=SIDECAR_HANGING, pods=Pods.MAY_RUN, facts=facts, give_up_after=timedelta(minutes=1)
    )
    waited = replace(row(), cause=SIDECAR_HANGING, cause_since=NOW - timedelta(minutes=2))
    change = change_of(hangs, waited)
    assert change is not None
    assert (change.status, change.reason, change.next_attempt) == (TaskStatus.FAILED, "exit_3", None)


def test_a_living_job_of_the_same_name_and_another_uid_is_not_waited_for() -> None:
    """A person has applied the Job again. Once the task is over, the copy is lingering."""
    job = JobLook(0, 1, "another-uid", "job", JobPhase.RUNNING)
    gone_for_long = replace(row(), absent_count=3, absent_since=NOW - ABSENT_FOR_SURE)
    change = change_of(Look(complete=True, jobs={(0, 1): job}), gone_for_long)
    assert change is not None
    assert (change.status, change.next_attempt) == (TaskStatus.LOST, None)


def test_an_absence_whose_end_is_known_is_not_waited_for() -> None:
    facts = OutcomeFacts(job_uid="job-uid", succeeded=True, told_to_end=False, exit_code=0)
    seen = replace(row(), facts=facts, absent_count=1, absent_since=NOW)
    change = change_of(NOTHING_THERE, seen)
    assert change is not None
    assert change.status is TaskStatus.SUCCEEDED


def test_a_look_that_shows_nothing_still_asks_for_the_next() -> None:
    absent = replace(row(), absent_count=1, absent_since=NOW - timedelta(minutes=1))
    unknown = Look(complete=False, problem="the cluster does not answer")
    assert recheck_pause([absent], [], unknown, NOW) == ABSENT_FOR_SURE - timedelta(minutes=1)


def test_an_absent_job_is_lost_only_when_its_absence_is_sure() -> None:
    missing = change_of(NOTHING_THERE)
    assert missing is not None
    assert (missing.status, missing.absent_count) == (TaskStatus.RUNNING, 1)
    assert recheck_pause([row()], [missing], NOTHING_THERE, NOW) == ABSENT_FOR_SURE
    soon = replace(row(), absent_count=7, absent_since=NOW - ABSENT_FOR_SURE + timedelta(seconds=1))
    still = change_of(NOTHING_THERE, soon)
    assert still is not None
    assert (still.status, still.absent_count) == (TaskStatus.RUNNING, 8)
    assert recheck_pause([soon], [still], NOTHING_THERE, NOW) == SHORTEST_RECHECK
    sure = replace(soon, absent_since=NOW - ABSENT_FOR_SURE)
    lost = change_of(NOTHING_THERE, sure)
    assert lost is not None
    assert (lost.status, lost.reason, next_kind(lost)) == (
        TaskStatus.LOST,
        JOB_DISAPPEARED,
        FailureKind.INFRASTRUCTURE,
    )
    assert recheck_pause([sure], [lost], NOTHING_THERE, NOW) is None


def test_an_absent_job_without_a_retry_left_is_lost_in_the_second_look() -> None:
    used = replace(row(), infrastructure_failures=2, absent_count=1, absent_since=NOW)
    lost = change_of(NOTHING_THERE, used)
    assert lost is not None
    assert (lost.status, lost.next_attempt) == (TaskStatus.LOST, None)


def test_an_absent_job_in_a_stop_is_stopped_at_once() -> None:
    stopped = change_of(NOTHING_THERE, intent=Intent.STOP)
    assert stopped is not None
    assert stopped.status is TaskStatus.STOPPED


def test_a_correction_of_a_lost_task_gets_no_retry() -> None:
    lost = replace(row(), status=TaskStatus.LOST)
    change = change_of(drained(), lost)
    assert change is not None
    assert (change.status, change.next_attempt) == (TaskStatus.FAILED, None)


def test_a_lost_runner_is_retried_at_once() -> None:
    assert next_kind(change_of(shown(JobPhase.VANISHED, reason="runner_lost"))) is FailureKind.INFRASTRUCTURE


def test_many_absences_at_once_are_not_believed_and_other_ends_get_their_retry() -> None:
    rows = [row(task=task) for task in range(20)]
    jobs = {(0, 1): drained().jobs[(0, 1)]}
    changes, problem = verdicts(rows, Look(complete=True, jobs=jobs), Intent.RUN, NOW, None, BOTH)
    assert problem
    assert [(change.task, next_kind(change)) for change in changes] == [(0, FailureKind.INFRASTRUCTURE)]
