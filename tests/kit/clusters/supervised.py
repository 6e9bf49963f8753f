"""A run on the stand-in for a cluster, and the steps that are taken for it: the activities are ours, and so is what
they ask of Kubernetes; the workflow is a sequence of them, and the database a few rows that outlive every process.

Whoever dies is followed by another process, which takes the same step again.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar
from uuid import uuid4

from temporalio.testing import ActivityEnvironment

from crawler_lifecycle.clusters.kubernetes.naming import NOT_AFTER
from crawler_lifecycle.errors import Conflict, Refused, TemporaryError
from crawler_lifecycle.model.deployment import Crawler, Deployment, DeploymentRequest
from crawler_lifecycle.model.looks import JobKey, TaskRow
from crawler_lifecycle.model.reasons import JOB_LEAVING
from crawler_lifecycle.model.retries import Retries
from crawler_lifecycle.model.run_plan import RemoveJobs, RunInput, RunRef
from crawler_lifecycle.model.states import Intent, TaskStatus
from crawler_lifecycle.model.task_changes import EvidenceRequest, LookAt, StatusWrite, TaskChange, TaskEvidence
from crawler_lifecycle.runs.activities.reconciliation import ReconciliationActivities
from crawler_lifecycle.runs.activities.stopping import StoppingActivities
from crawler_lifecycle.runs.model import StopTasks
from crawler_lifecycle.runs.rules.retries import NO_RETRIES
from tests.kit.clusters.doomed import Died, Line, a_process
from tests.kit.clusters.small_cluster import SmallCluster
from tests.kit.data.rows import applied

CRAWLER = Crawler(name="bookshop", image="registry/bookshop:1", command=["crawl"])
CLAIM = timedelta(hours=1)
S = TypeVar("S")
R = TypeVar("R")
TRIES = 2  # that may fail: trouble comes once
Step = tuple[str, int, int]  # what is done, of which task, and with which exit code ends what may end


@dataclass
class Records:
    """What the ports Histories and Tasks show of the run."""

    run: RunRef
    tasks: dict[int, TaskRow]
    retries: Retries
    intent: Intent = Intent.RUN

    def state(self, run: RunRef) -> SimpleNamespace:
        return SimpleNamespace(
            run_id=run.run_id,
            run_uid=run.run_uid,
            intent=self.intent,
            cluster="default",
            admitted_at=datetime(2026, 1, 1, tzinfo=UTC),
            nudge_sent=0,
            retries=self.retries,
            flow=None,
        )

    def by_status(self, run_id: int) -> dict[TaskStatus, list[int]]:
        return {status: [row.task for row in self.tasks.values() if row.status is status] for status in TaskStatus}

    def rows(self, run_id: int, tasks: Sequence[int]) -> list[TaskRow]:
        return [self.tasks[task] for task in sorted(tasks)]

    def sync(self, run: RunRef, changes: Sequence[TaskChange], **_: object) -> int:
        self.tasks |= {change.task: applied(self.tasks[change.task], change, datetime.now(UTC)) for change in changes}
        return len(changes)

    def reconcile(self, run: RunRef, evidence: Sequence[TaskEvidence], **_: object) -> int:
        return len(evidence)

    def unexplained(self, run_id: int) -> list[JobKey]:
        """Count every task as explained: these sequences are about jobs, not about their evidence."""
        return []

    def write(self, task: int, **changes: Any) -> None:
        row = self.tasks[task]
        self.tasks[task] = replace(row, version=row.version + 1, **changes)

    def mark_look(self, *_: object, **__: object) -> None: ...

    def note(self, *_: object, **__: object) -> None: ...


class Supervised:
    """`meanwhile`: the cluster goes on before a step is taken again."""

    def __init__(
        self, line: Line, folder: Path, tasks: int, *, meanwhile: bool = False, retries: Retries = NO_RETRIES
    ) -> None:
        self.line, self._folder, self._meanwhile = line, folder, meanwhile
        self.installation = str(uuid4())
        self.run = RunRef(run_id=7, run_uid=str(uuid4()), epoch=1)
        queued = [TaskRow(task=task, status=TaskStatus.QUEUED, attempt=1, version=1) for task in range(tasks)]
        self.records = Records(self.run, {row.task: row for row in queued}, retries)
        self.nature = SmallCluster(line.server, self.installation)
        self._claimed_until = datetime.now(UTC) + CLAIM
        self._stopped_at: datetime | None = None
        self._next_move = (0, 0)  # of the cluster, if something is taken again
        self._environment = ActivityEnvironment()
        self._begin()

    def _begin(self) -> None:
        self.process = a_process(self.line, self._folder, self.installation)
        records: Any = self.records
        self._reconciliation = ReconciliationActivities(records, records, self.process)
        self._stopping = StoppingActivities(records, records, self.process)

    def take(self, step: Step) -> Any:
        what, task, code = step
        self._next_move = (task, code)
        return self._again(lambda: getattr(self, what)(task, code))

    def _do(self, activity: Callable[[], Callable[[S], R]], step: S) -> R:
        """Each activity by itself is tried again, as Temporal does: what was done before it is done."""
        return self._again(lambda: self._environment.run(activity(), step))

    def _again(self, act: Callable[[], R]) -> R:
        """As often as it takes."""
        for _ in range(TRIES):
            try:
                return act()
            except TemporaryError:
                pass
            except Died:
                self._begin()
            if self._meanwhile:
                self.nature.move(*self._next_move)
        return act()

    def deploy(self, task: int, _code: int = 0) -> None:
        if self._may_deploy(task) and (made := self._send(task)):
            self.records.write(task, status=TaskStatus.PENDING, job_uid=made.job_uid)

    def send(self, task: int, _code: int = 0) -> None:
        """By another deployer, a second time or with an answer that nobody reads."""
        if self._may_deploy(task) or self.records.tasks[task].claim_expires_at:
            self._send(task)

    def look(self, _task: int = 0, _code: int = 0) -> bool:
        """Whether nothing of the run runs any more."""
        active = self._do(lambda: self._reconciliation.get_active_running_tasks, RunInput(run=self.run))
        asked = LookAt(run=self.run, active=active, stopped_at=self._stopped_at)
        found = self._do(lambda: self._reconciliation.get_history_statuses_to_sync, asked)
        if found.evidence:
            wanted = EvidenceRequest(run=self.run, tasks=found.evidence)
            self._do(lambda: self._reconciliation.get_bulk_task_history_data, wanted)
        self._do(lambda: self._reconciliation.sync_statuses, StatusWrite(run=self.run, changes=found.changes))
        if not found.known:
            raise TemporaryError(found.problem or "not all was seen")
        if found.unwanted:
            unwanted = StopTasks(run=self.run, tasks=found.unwanted)
            self._do(lambda: self._stopping.k8_stop_unwanted, unwanted)
        return not found.unwanted and all(row.status.is_over for row in self.records.tasks.values())

    def stop(self, _task: int = 0, _code: int = 0) -> None:
        self._want(Intent.STOP)
        self._do(lambda: self._stopping.k8_stop_task, StopTasks(run=self.run))

    def force(self, _task: int = 0, _code: int = 0) -> None:
        self._want(Intent.FORCE)
        self._do(lambda: self._stopping.k8_stop_pod, StopTasks(run=self.run))

    def remove(self, _task: int = 0, _code: int = 0) -> int:
        return self._do(lambda: self._reconciliation.remove_jobs, RemoveJobs(run=self.run)).left

    def move(self, task: int, code: int) -> None:
        self.nature.move(task, code)

    def end(self, task: int, code: int) -> None:
        for _ in range(3):  # its pod is made, runs, and ends
            self.nature.move(task, code)

    def orphan(self, task: int, _code: int = 0) -> None:
        self.nature.orphan(task)

    def strip(self, task: int, _code: int = 0) -> None:
        self._edit(task, None)

    def edit(self, task: int, _code: int = 0) -> None:
        self._edit(task, "another")

    def _edit(self, task: int, value: str | None) -> None:
        """Edit labels of a Job whose uid is on record. Without the uid, nothing shows that the Job is ours."""
        if uid := self.records.tasks[task].job_uid:
            self.nature.edit_labels(uid, value)

    def inject(self, task: int, _code: int = 0) -> None:
        self.nature.inject_sidecar(task)

    def drain(self, task: int, code: int = 0) -> None:
        self.nature.drain(task, code)

    def reboot(self, task: int, _code: int = 0) -> None:
        self.nature.reboot(task)

    def reject(self, task: int, _code: int = 0) -> None:
        self.nature.reject(task)

    def lose_pod(self, task: int, _code: int = 0) -> None:
        self.nature.delete_pod(task)

    def claims_run_out(self) -> None:
        """And no request is on its way any more."""
        past = datetime.now(UTC) - CLAIM
        for task in self.records.tasks:
            self.records.write(task, claim_expires_at=past)
        for job in self.nature.jobs:
            job["metadata"]["annotations"][NOT_AFTER] = past.isoformat()

    def _want(self, intent: Intent) -> None:
        self._stopped_at = self._stopped_at or datetime.now(UTC)
        if self.records.intent is not Intent.FORCE:
            self.records.intent = intent
        for row in list(self.records.tasks.values()):
            if row.status is TaskStatus.QUEUED:
                self.records.write(row.task, status=TaskStatus.STOPPED, reason="stopped")

    def _may_deploy(self, task: int) -> bool:
        row = self.records.tasks[task]
        if self.records.intent is Intent.RUN and row.status is TaskStatus.QUEUED:
            self.records.write(task, status=TaskStatus.DEPLOYING, claim_expires_at=self._claimed_until)
            return True
        return self.records.intent is Intent.RUN and row.status is TaskStatus.DEPLOYING

    def _send(self, task: int) -> Deployment | None:
        request = DeploymentRequest(
            installation=self.installation,
            run_id=self.run.run_id,
            run_uid=self.run.run_uid,
            task=task,
            tasks=len(self.records.tasks),
            attempt=self.records.tasks[task].attempt,
            crawler=CRAWLER,
            not_after=self._claimed_until,
        )
        try:
            return self.process.deploy(request)
        except (Conflict, Refused):
            if self.records.tasks[task].status is TaskStatus.DEPLOYING:
                self.records.write(task, status=TaskStatus.FAILED, reason="deployment_refused")
            return None
        except TemporaryError as error:
            if error.cause == JOB_LEAVING:  # a later deployer asks again, when the name is free
                return None
            raise
