from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import cast

import pytest

from crawler_lifecycle.clusters.ports import NO_UIDS, Cluster, Uids
from crawler_lifecycle.model.looks import JobKey, JobLook, JobPhase, Look
from crawler_lifecycle.model.requests import StopRequest
from crawler_lifecycle.model.run_plan import CloseRun, RunInput, RunPlan
from crawler_lifecycle.model.states import RunStatus, TaskStatus
from crawler_lifecycle.runs.model import MainJobStatus
from tests.kit.service.rig import Rig

pytestmark = pytest.mark.regression(
    "A main job whose image cannot be pulled waited for ever: only looks of the third stage gave jobs up"
)

HOUR = timedelta(hours=1)


@dataclass
class Stuck:
    """A cluster in which the main job waits for an image."""

    give_up_after: timedelta
    stopped: list[JobKey] = field(default_factory=list)
    has_changed: bool = False  # since the last look

    def give_up(self, run_uid: str, jobs: Sequence[JobLook]) -> set[JobKey]:
        return set() if self.has_changed else {(job.task, job.attempt) for job in jobs}

    def stop(self, run_uid: str, jobs: Sequence[JobKey], **_: object) -> None:
        self.stopped += jobs

    def look(
        self, run_uid: str, watched: Collection[JobKey] = (), tasks: object = None, *, uids: Uids = NO_UIDS
    ) -> Look:
        job = JobLook(0, 1, uids[0, 1], "job", JobPhase.WAITING, cause="image_pull", message="no such image")
        return Look(complete=True, jobs={(0, 1): replace(job, give_up_after=self.give_up_after)})


def looks(rig: Rig, plan: RunPlan, stuck: Stuck) -> list[MainJobStatus]:
    """Two in a row: the first one only notes since when the job waits."""
    deployment = replace(rig.deployment, cluster=cast("Cluster", stuck))
    return [rig.do(deployment.get_main_job_status, RunInput(run=plan.run)) for _ in range(2)]


@pytest.fixture
def plan(rig: Rig) -> RunPlan:
    plan = rig.begin("sleepy", tasks=1)
    rig.do(rig.deployment.run_onetime_crawler, RunInput(run=plan.run))
    return plan


def test_it_fails_with_its_cause_and_so_does_its_run(rig: Rig, plan: RunPlan, caplog: pytest.LogCaptureFixture) -> None:
    stuck = Stuck(timedelta())
    first, second = looks(rig, plan, stuck)
    assert (first.started, first.cause) == (False, "image_pull")
    assert second.started, "the next stage finds the end"
    (task,) = rig.details(plan).tasks
    assert (task.status, task.reason, task.message) == (TaskStatus.FAILED, "image_pull", "no such image")
    assert stuck.stopped == [(0, 1)], "its job is ended by the look that gives it up"
    outcome = rig.do(rig.histories.update_run_status, CloseRun(run=plan.run))
    assert (outcome.status, outcome.reason) == (RunStatus.FAILED, "main_job_failed")
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == [
        f"run {plan.run.run_id}: the main job cannot start: image_pull: no such image",
        f"run {plan.run.run_id} of crawler sleepy: FAILED: the main job failed",
    ]


def test_it_goes_on_if_it_started_behind_the_last_look(rig: Rig, plan: RunPlan) -> None:
    stuck = Stuck(timedelta(), has_changed=True)
    assert [status.started for status in looks(rig, plan, stuck)] == [False, False]
    assert (rig.details(plan).tasks[0].status, stuck.stopped) == (TaskStatus.PENDING, [])


def test_it_may_wait_for_as_long_as_the_limit_says(rig: Rig, plan: RunPlan) -> None:
    assert [status.started for status in looks(rig, plan, Stuck(HOUR))] == [False, False]
    assert rig.details(plan).tasks[0].status is TaskStatus.PENDING


def test_a_stop_decides_about_it(rig: Rig, plan: RunPlan) -> None:
    run = rig.details(plan).run
    rig.store.runs.request_stop(run.run_id, StopRequest(), run.created_at)
    stuck = Stuck(timedelta())
    assert not any(status.started for status in looks(rig, plan, stuck))
    assert not stuck.stopped
    assert rig.details(plan).tasks[0].status is TaskStatus.PENDING
