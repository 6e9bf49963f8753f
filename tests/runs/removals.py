"""A cluster that notes which jobs it is to remove, and a run whose jobs are over."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any

from crawler_lifecycle.clusters.ports import NO_UIDS, Uids
from crawler_lifecycle.errors import TemporaryError
from crawler_lifecycle.model.looks import JobKey, Look
from crawler_lifecycle.model.run_plan import RunInput, RunPlan
from crawler_lifecycle.model.supervision import ListedJob
from crawler_lifecycle.model.task_changes import ActiveTasks, Differences, LookAt, TaskEvidence
from tests.kit.service.rig import Rig
from tests.kit.waiting import until


def opened(rig: Rig, plan: RunPlan) -> ActiveTasks:
    return rig.do(rig.reconciliation.get_active_running_tasks, RunInput(run=plan.run))


def differences(rig: Rig, plan: RunPlan) -> Differences:
    step = LookAt(run=plan.run, active=opened(rig, plan))
    return rig.do(rig.reconciliation.get_history_statuses_to_sync, step)


def all_over(rig: Rig, plan: RunPlan) -> Differences:
    def over() -> Differences | None:
        found = differences(rig, plan)
        ended = sum(change.status.is_over for change in found.changes)
        return found if ended == plan.tasks else None

    return until(over, "all jobs to end")


def both_over(rig: Rig, **request: Any) -> tuple[RunPlan, Differences]:
    plan = rig.started(**request)
    rig.deploy_children(plan)
    return plan, all_over(rig, plan)


class Removing:
    """The rig's cluster, with notes of what it was told to remove, and jobs that could be."""

    def __init__(self, rig: Rig, stay: int = 0) -> None:
        self.inner, self.stay = rig.bench.cluster, stay
        self.removed: list[JobKey] = []
        self.listed: list[ListedJob] = []
        self.explained: list[JobKey] = []
        self.busy: TemporaryError | None = None  # of each question what became of jobs
        self.trouble: TemporaryError | None = None  # of each removal
        self.outage: TemporaryError | None = None

    def look(
        self,
        run_uid: str,
        watched: Collection[JobKey] = (),
        tasks: Collection[int] | None = None,
        *,
        uids: Uids = NO_UIDS,
    ) -> Look:
        look = self.inner.look(run_uid, watched, tasks, uids=uids)
        return replace(look, keeps_ended_jobs=True)

    def inventory(self) -> Iterator[Sequence[ListedJob]]:
        yield self.listed

    def evidence(self, run_uid: str, jobs: Sequence[JobKey]) -> list[TaskEvidence]:
        if self.busy:
            raise self.busy
        self.explained += jobs
        return self.inner.evidence(run_uid, jobs)

    def remove(self, run_uid: str, jobs: Sequence[JobKey], *, uids: Uids = NO_UIDS) -> int:
        if trouble := self.outage or self.trouble:
            raise trouble
        self.removed += jobs
        return self.stay

    def check(self) -> str:
        if self.outage:
            raise self.outage
        return "there"
