"""A stop waited for locked rows before it told a job to end: a minute for the evidence, a minute for the outcome facts,
and a minute for the note about silent nodes. The activity was over by then."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import cast

import pytest

from crawler_lifecycle.clusters.ports import Cluster, KeepFacts, Uids
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.database.transactions import lock_run
from crawler_lifecycle.errors import Fenced, TemporaryError
from crawler_lifecycle.model.looks import JobKey, JobLook, JobPhase, Look, OutcomeFacts
from crawler_lifecycle.model.requests import StopRequest
from crawler_lifecycle.model.task_changes import TaskEvidence
from crawler_lifecycle.runs.activities.stopping import StoppingActivities
from crawler_lifecycle.runs.model import LogCancellation, StopTasks
from tests.kit.service.rig import Rig

pytestmark = pytest.mark.regression("A stop waited for locked rows, up to three minutes, before it told a job to end")

LOCK_SECONDS = 1
WRITES_BEFORE_A_DELETION = 3


class Informed:
    """A cluster with evidence, outcome facts and silent nodes for each job."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def evidence(self, _run_uid: str, jobs: Sequence[JobKey], **_: object) -> list[TaskEvidence]:
        return [TaskEvidence(task=task, attempt=attempt, node="node-3") for task, attempt in jobs]

    def unreached(self, _run_uid: str, jobs: Sequence[JobKey]) -> Mapping[JobKey, str]:
        return dict.fromkeys(jobs, "node-3")

    def stop(self, _run_uid: str, _jobs: Sequence[JobKey], *, uids: Uids, keep: KeepFacts, **_: object) -> None:
        keep({key: OutcomeFacts(job_uid=uid, succeeded=True, told_to_end=False) for key, uid in uids.items()})
        self.told.append("asked")

    def kill(self, _run_uid: str, _jobs: Sequence[JobKey], *, uids: Uids, keep: KeepFacts) -> None:
        self.stop(_run_uid, _jobs, uids=uids, keep=keep)


def informed(rig: Rig) -> tuple[StoppingActivities, Informed]:
    cluster = Informed()
    return replace(rig.stopping, cluster=cast(Cluster, cluster)), cluster


@pytest.mark.parametrize("forced", [False, True])
@pytest.mark.long
def test_locked_rows_delay_no_request_to_end(
    rig: Rig, database_url: str, monkeypatch: pytest.MonkeyPatch, *, forced: bool
) -> None:
    monkeypatch.setattr("crawler_lifecycle.database.database.HURRIED_LOCK_SECONDS", LOCK_SECONDS)
    plan = rig.started("sleepy")
    stopping, cluster = informed(rig)
    another = Database(database_url)
    with another.transaction() as holder:
        lock_run(holder, plan.run.run_id)
        began = time.monotonic()
        rig.do(stopping.k8_stop_pod if forced else stopping.k8_stop_task, StopTasks(run=plan.run))
        took = time.monotonic() - began
    another.close()
    assert cluster.told == ["asked"]
    assert took < WRITES_BEFORE_A_DELETION * (LOCK_SECONDS + 2)


def test_what_can_be_written_is_on_record_before_the_request(rig: Rig) -> None:
    plan = rig.started("sleepy")
    stopping, cluster = informed(rig)
    rig.do(stopping.k8_stop_pod, StopTasks(run=plan.run))
    [row] = rig.tasks.rows(plan.run.run_id, [0])
    assert row.facts is not None
    assert row.facts.ended_by_itself
    assert [line.message for line in rig.details(plan).log if "node-3" in (line.message or "")]
    assert cluster.told == ["asked"]


class Lingering(Informed):
    """A cluster where a job of another attempt lingers, and no job can be killed."""

    def __init__(self, refusal: Exception) -> None:
        super().__init__()
        self.refusal = refusal

    def look(self, *_: object, **__: object) -> Look:
        jobs = {
            (0, attempt): JobLook(0, attempt, f"uid-{attempt}", f"job-{attempt}", JobPhase.RUNNING)
            for attempt in (1, 2)
        }
        return Look(complete=True, jobs=jobs)

    def stop(self, _run_uid: str, _jobs: Sequence[JobKey], **_: object) -> None:
        self.told.append("asked")
        raise TemporaryError("a second problem")

    def kill(self, _run_uid: str, _jobs: Sequence[JobKey], **_: object) -> None:
        raise self.refusal


@pytest.mark.parametrize(
    ("refusal", "told"), [(TemporaryError("held by a policy"), ["asked"]), (Fenced("another supervisor"), [])]
)
def test_a_job_that_cannot_be_killed_keeps_only_a_later_supervisors_jobs_alive(
    rig: Rig, refusal: Exception, told: list[str]
) -> None:
    plan = rig.started("sleepy")
    stop = LogCancellation(run=plan.run, stop=StopRequest(), asked_at=rig.details(plan).run.created_at)
    rig.do(rig.stopping.add_cancellation_log_to_db, stop)
    cluster = Lingering(refusal)
    stopping = replace(rig.stopping, cluster=cast(Cluster, cluster))
    with pytest.raises(type(refusal), match=str(refusal)):
        rig.do(stopping.k8_stop_unwanted, StopTasks(run=plan.run, tasks="0"))
    assert cluster.told == told
