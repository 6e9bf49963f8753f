"""The ports to a run's rows, for writers and readers.

A failure raises TemporaryError (try again; no change is known) or PermanentError. Every method may be called twice. A
write to a run compares the epoch in its RunRef and raises Fenced when another supervisor has taken over. A claim lets a
single process deploy a task, and a nudge makes a run's workflow look soon.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from crawler_lifecycle.base.requesters import Requester
from crawler_lifecycle.delivery.ports import Deliveries
from crawler_lifecycle.limits.ports import LimitStore
from crawler_lifecycle.limits.rules import Hold
from crawler_lifecycle.model.deployment import Crawler, Deployment, DeploymentRequest
from crawler_lifecycle.model.looks import JobKey, TaskRow
from crawler_lifecycle.model.notices import Notice
from crawler_lifecycle.model.records import (
    ALL_RUNS,
    Changed,
    CrawlerRuns,
    RunCounts,
    RunDetails,
    RunFilter,
    RunOverview,
    RunRecord,
    RunSummary,
    TaskOrder,
    TaskRecord,
)
from crawler_lifecycle.model.requests import AcceptedRequest, FlowLink, StopRequest
from crawler_lifecycle.model.retries import Retries
from crawler_lifecycle.model.run_plan import Clock, ExportsOwed, RunRef
from crawler_lifecycle.model.states import Intent, RunStatus, StopPhase, TaskStatus
from crawler_lifecycle.model.supervision import AuditedRun, Nudge
from crawler_lifecycle.model.task_changes import TaskChange, TaskEvidence
from crawler_lifecycle.model.usage import Usage, UsageBy


@dataclass(frozen=True, slots=True)
class OccurrenceRun:
    """A run with its workflow: a schedule's occurrence finds its run by the workflow."""

    workflow_id: str
    first_execution: str  # Temporal's id for the workflow's first execution
    created_at: datetime
    finished_at: datetime | None


@dataclass(frozen=True, slots=True)
class ExpiredClaims:
    """A run's tasks with status DEPLOYING and expired claims."""

    tasks: Sequence[int]
    since: datetime  # when the first claim expired


@dataclass(frozen=True, slots=True)
class EndDeliveries:
    """Facts about the deliveries after a run's last end, from which the audit concludes the pending deliveries."""

    run: AuditedRun
    export_failed_at: datetime | None = None  # None: no export failed
    notice_keys: frozenset[str] = frozenset()  # keys for the timeline's lines about undelivered and later sent notices
    is_untried: bool = False  # whether no worker has tried to send the closing notice


@dataclass(frozen=True, slots=True)
class FoundRuns:
    """A page of runs, newest first."""

    runs: list[RunSummary]
    rest: int | None  # further runs may have lower RunIDs; None: there are none


@dataclass(frozen=True, slots=True)
class WaitingRuns:
    """Open runs that have waited for long."""

    by_cause: Mapping[str, int]
    longest: list[RunSummary]  # the longest wait first; a limited number
    has_more: bool  # whether more may have waited for long: 500 are counted for a cause

    @property
    def total(self) -> int:
        return sum(self.by_cause.values())


@dataclass(frozen=True, slots=True)
class RunFigures:
    """Numbers about open runs and exports, for metrics. A time is None without such a run."""

    open: Mapping[RunStatus, int]
    queued_since: datetime | None  # since the first unpaused run without a permit
    looked_at: datetime | None  # the oldest last look at an open run
    look_due_at: datetime | None  # the earliest due time
    pending_exports: int  # runs with an unannounced or unarchived end
    export_pending_since: datetime | None
    failed_exports: int  # runs with a failed export; the audit repeats failed exports
    obstructed: Mapping[str, int]  # runs with a job that is kept from its start, by cause
    failing_crawlers: int


class Records(Protocol):
    """Read access to runs."""

    # for people and doors

    def installation(self) -> str:
        """Return the installation's UUID. NotReady if the schema is missing or has another version."""

    @property
    def uid(self) -> str:
        """The installation's UUID for the names of lists, read once: the schema is not checked again."""

    def check_write(self) -> None:
        """Raise TemporaryError unless a write succeeds within a few seconds. The write changes nothing."""

    def page(self, chosen: RunFilter = ALL_RUNS, *, limit: int, before: int | None = None) -> list[RunSummary]:
        """Return a page with the chosen runs, newest first. Runs of flows are left out unless the caller wants them.

        `before`: the last RunID on the previous page; None: return the first page.
        """

    def search(self, chosen: RunFilter, *, limit: int, before: int | None = None) -> FoundRuns:
        """Return a page like `page`, but read a limited number of runs: the page may be short, even empty."""

    def counts(self, chosen: RunFilter) -> RunCounts:
        """Count the chosen runs by their status in lists, the newest ones if there are many."""

    def by_crawler(self, crawlers: Sequence[str]) -> list[CrawlerRuns]:
        """Return latest run and latest ends for these crawlers, in the same order."""

    def usage(self, by: UsageBy, since: datetime, until: datetime) -> Usage:
        """Sum the use over the runs with an end in the period, by group, largest first."""

    def saturated(self, limit: int) -> WaitingRuns:
        """Return the installation's open runs that have waited for room in the cluster for long."""

    def obstructed(self, limit: int) -> WaitingRuns:
        """Return the installation's open runs with a job that an obstacle has kept from its start for long."""

    def failing_crawlers(self) -> list[CrawlerRuns]:
        """Return the crawlers whose last three ends failed, one of them in a run of the last day."""

    def count_open(self) -> int | None:
        """Count the installation's open runs. Return None if there are too many to count."""

    def details(self, run_id: int) -> RunDetails: ...

    def overview(self, run_id: int) -> RunOverview: ...

    def tasks(
        self,
        run_id: int,
        *,
        first: int,
        limit: int,
        status: TaskStatus | None = None,
        order: TaskOrder = TaskOrder.TASK,
    ) -> list[TaskRecord]:
        """Return up to `limit` tasks by number, from the number `first` on; in another order, from the place on."""

    def latest_of(self, workflow_id: str) -> RunRecord | None:
        """Return the last run made under the workflow id; None without such a run."""

    def run_id(self, run_uid: str) -> int:
        """Return the RunID. NotFound if there is no such run."""

    def scheduled_runs(self, first_workflow_id: str, last_workflow_id: str) -> list[OccurrenceRun]:
        """Return the runs whose workflow ids sort from the first to the last given id, oldest first."""

    # for live views

    def latest_change(self) -> datetime | None:
        """Return when a run changed last; None without runs."""

    def changed_since(
        self, moment: datetime | None, limit: int, only_run_id: int | None = None, *, flows: bool = True
    ) -> list[Changed]:
        """Return the runs changed since the time (None: since ever), the latest change first.

        With `only_run_id`, return only this run, if the run has changed. `flows`: also runs of flows.
        """

    def summaries(self, run_ids: Sequence[int]) -> list[RunSummary]: ...

    def figures(self) -> RunFigures: ...

    def notices_of(self, run_ids: Sequence[int]) -> list[Notice]:
        """Return these runs' stored notices, oldest first."""

    # For audits. Pages are sorted by RunID; `after` is the last RunID on the previous page. The second part in a result
    # is the last RunID on the page, or None for the last page.

    def open_runs(self, after: int, limit: int) -> tuple[list[AuditedRun], int | None]:
        """Return a page with open runs. A run closing during the call may be included."""

    def audited_by_id(self, run_ids: Collection[int]) -> dict[int, AuditedRun]: ...

    def audited_by_uid(self, run_uids: Collection[str]) -> dict[str, AuditedRun]: ...

    def attempts(self, run_id: int, tasks: Collection[int]) -> dict[int, int]:
        """Return the last attempt of every given task; an unknown task is left out."""

    def expired_claims(self, run_ids: Collection[int], before: datetime) -> dict[int, ExpiredClaims]:
        """Return, by RunID, the tasks with status DEPLOYING and a claim expired before the moment."""

    def owed_deliveries(
        self, after: int, limit: int, noticed_since: datetime
    ) -> tuple[list[EndDeliveries], int | None]:
        """Return a page with runs that are over and may have a pending delivery.

        An unfinished export counts however old the end is. A closing notice that failed or was never tried counts only
        if the failure or the end came after `noticed_since`.
        """

    def deliveries(self, run_id: int) -> EndDeliveries | None:
        """Return the deliveries of the run, however old its end is; None if the run is not over."""


@dataclass(frozen=True, slots=True)
class NewRun:
    """A request with the crawler's defaults filled in, and the workflow execution for the run."""

    request: AcceptedRequest
    entry: Crawler
    tasks: int
    workflow_id: str
    first_execution_run_id: str


@dataclass(frozen=True, slots=True)
class SupervisorExecution:
    """A workflow execution. Executions with the same workflow id follow one another."""

    workflow_id: str
    run_id: str  # Temporal's id for the execution, not a RunID
    began_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class RunState:
    """The part of a run's row that its supervisor reads again and again. To read all of the row costs far more."""

    run_id: int
    run_uid: str
    cluster: str
    intent: Intent
    nudge_sent: int
    waiting_cause: str | None
    waiting_since: datetime | None
    waiting_message: str | None
    admitted_at: datetime | None  # None while the run waits for its permit
    retries: Retries | None
    flow: FlowLink | None = None


@dataclass(frozen=True, slots=True)
class LookEnd:
    """A run after a look."""

    tasks: Mapping[TaskStatus, int]  # number of tasks by status
    waiting_cause: str | None
    admitted_at: datetime | None  # None: the run waits for its permit, and its row says why


class Runs(Deliveries, Protocol):
    """Write access to runs.

    A method with a `RunRef` raises Fenced if the run has another supervisor by now.
    """

    # the run's own states

    def create(self, new: NewRun) -> RunRecord:
        """Return the workflow execution's run; make the run (epoch 1, tasks QUEUED) at the first call.

        BadInput if another run with the workflow id is not over: a workflow id identifies a single run at a time.
        """

    def find(self, workflow_id: str, first_execution_run_id: str) -> RunRecord | None:
        """Return the run that the workflow execution has made; None without such a run."""

    def get(self, run_id: int) -> RunRecord:
        """Return the run. NotFound without such a run, Conflict if the run belongs to another installation."""

    def state(self, run: RunRef) -> RunState:
        """Return the run's state. Raise the errors of `current`."""

    def set_property(self, run: RunRef, name: str, value: str) -> None:
        """Write a value under a name to the run, and replace an earlier value."""

    def mark_started(self, run: RunRef, started_at: datetime | None = None) -> RunRecord:
        """Change the status INITIALIZING to PROCESSING; any other status stays.

        `started_at`: when the main job started. The present time replaces None and impossible times (before the run, or
        in the future).
        """

    def mark_waiting(self, run: RunRef, cause: str | None, message: str | None) -> datetime | None:
        """Write why the run waits (None: no wait). Return when the wait for the cause began; None without a wait."""

    def mark_look(
        self, run: RunRef, nudge: int, known: bool, problem: str | None, next_look_at: datetime | None
    ) -> LookEnd:
        """Write a look's end: the acknowledged nudge, the problem and the next look's time.

        `known`: the cluster was observed, so the present time becomes the last look's time.
        """

    def close(self, run: RunRef, status: RunStatus, reason: str) -> RunRecord:
        """Write the run's end. An ended run keeps its first end. Conflict while a task is alive."""

    # stops

    def request_stop(self, run_id: int, stop: StopRequest, asked_at: datetime) -> RunRecord:
        """Write a stop from a door: intent STOP or FORCE (never back), status STOPPING, and a timeline line.

        The line has the actor, time, reason and door, and an equal line is written once. Over if the run is over;
        Conflict if the run belongs to another installation.
        """

    def log_stop(self, run: RunRef, stop: StopRequest, asked_at: datetime, ends_as: str | None = None) -> Intent:
        """Write a stop from the workflow, as `request_stop` does. An ended run gets only the line.

        `ends_as`: the limit, if the workflow itself made the stop; the limit is kept as the run's reason. Return the
        run's present intent.
        """

    def note_stop_phase(self, run: RunRef, phase: StopPhase, message: str) -> None:
        """Write a timeline line for the stop's present phase. Every phase is written once per end."""

    def stop_asked_at(self, run_id: int) -> datetime | None:
        """Return when the present stop was first requested; None without a stop."""

    def jobs_asked_at(self, run_id: int) -> datetime | None:
        """Return when the present stop first asked jobs to end; None if no job was asked yet."""

    # Supervision. Conflict if the run belongs to another workflow id or installation. Fenced if a later execution has
    # taken over: an activity from a terminated execution must not replace the present supervisor.

    def limit_clock(self, run_id: int) -> Clock:
        """Return the run's limit clock, with all standstills since the run was created or reopened."""

    def hold_limits(self, run: RunRef, number: int, *, held: bool) -> Clock:
        """Stop the run's limit clock (`held`), or resume the clock.

        `number` identifies the change: a repeated call with the number changes nothing.
        """

    def take_over(self, run_id: int, execution: SupervisorExecution) -> RunRecord:
        """Make the execution the supervisor. An ended run does not change.

        The epoch goes up by 1, to refuse later writes by an earlier supervisor.
        """

    def reopen(self, run_id: int, execution: SupervisorExecution) -> RunRecord:
        """Let a FAILED run continue, with the execution as its supervisor. Conflict if the run is not FAILED.

        The intent is RUN again, and the status PROCESSING if the main job succeeded, INITIALIZING otherwise. Every task
        without success is QUEUED with its next attempt. A second call by the same execution changes no row.
        """

    def log_command(self, run_id: int, command: str, requester: Requester) -> None:
        """Write a command and its requester into the run's timeline."""

    def owed_exports(self, run_id: int) -> ExportsOwed:
        """Return the run's ends with an unfinished export."""


@dataclass(frozen=True, slots=True)
class Addition:
    """Tasks to add to an open run."""

    run_id: int
    count: int
    key: str  # identifies the request: a repeated request adds no further tasks
    most_tasks: int  # limit for the run's tasks, with the added tasks
    actor: str | None
    door: str


class Tasks(Protocol):
    """A run's task rows.

    `hurried`: the caller must not wait for the write. The write is tried a single time, and raises TemporaryError if
    further writers hold their locks for more than some seconds.
    """

    def by_status(self, run_id: int) -> dict[TaskStatus, list[int]]:
        """Return the task numbers by status, for all statuses that occur."""

    def rows(self, run_id: int, tasks: Sequence[int]) -> list[TaskRow]:
        """Return the rows that a verdict needs, in the order of the task numbers."""

    def sync(self, run: RunRef, changes: Sequence[TaskChange], *, hurried: bool = False) -> int:
        """Write every change if the row still has the change's attempt and version. Return how many rows were written.

        The present time replaces an end's missing time.
        """

    def reconcile(self, run: RunRef, evidence: Sequence[TaskEvidence], *, hurried: bool = False) -> int:
        """Write evidence to every task still at the evidence's attempt. Return how many rows were written."""

    def unexplained(self, run_id: int) -> list[JobKey]:
        """Return the jobs of tasks that ended on their own and have no stored evidence."""

    def cancel_queued(self, run: RunRef, reason: str) -> int:
        """Change QUEUED tasks to STOPPED, for the reason. Return how many tasks were changed."""

    def add(self, addition: Addition) -> range:
        """Add QUEUED tasks and return their numbers; after an earlier addition with the same key, return its tasks.

        The run cannot end during the call. Conflict if no task is alive any more, or if the run has to stop or is over.
        """


@dataclass(frozen=True, slots=True)
class Claim:
    """Right to deploy a task, until the claim expires. `token` identifies the process with the claim.

    With a `hold` the right is smaller: the task's scope is paused, and an earlier request may have made the job. Such a
    job is found and recorded, and no job is made.
    """

    run_id: int
    task: int
    token: str
    request: DeploymentRequest
    hold: Hold | None = None


class Claims(Protocol):
    """Claims for tasks and nudges. A claim is a conditional UPDATE: if two callers claim at once, one succeeds."""

    def claim_main(self, run: RunRef, token: str, expires_in: timedelta) -> Claim | Hold | None:
        """Claim task 0 if the task is QUEUED, or DEPLOYING by an expired claim or a claim with the same token.

        The run's first claim needs a permit: return a Hold if a limit or a pause is in the way. From then on the
        dispatcher deploys the main task, as soon as the limits allow it. A later claim in a pause has a hold, and is
        possible when no earlier request can be on its way any more; before that, return the Hold. Return None if
        another claim is valid, if the task has its job or is over, or if the run has to stop.
        """

    def claim_tasks(self, token: str, expires_in: timedelta, most: int) -> list[Claim]:
        """Claim up to `most` tasks for the dispatcher: the tasks are DEPLOYING from now on.

        These are QUEUED tasks of PROCESSING runs, and main tasks of runs that wait for their permit, as far as the
        limits allow; and DEPLOYING tasks by an expired claim or the caller's own claim, which have their places. The
        caller's own claim remains only after a failed request: the caller claims while no request is under way. In a
        pause, DEPLOYING tasks are claimed with a hold. Write what holds the other tasks.
        """

    def deployed(self, claim: Claim, deployment: Deployment) -> Intent | None:
        """Change the task from DEPLOYING to PENDING, and write its job. Return the run's present intent.

        If the claim was lost, no row changes, because the task's next claim finds the job by its key. Return None if
        the task is over or at another attempt: then no look ever sees the job, and the caller has to end the job. A
        main job that was found with a hold nudges the run's workflow, because the cluster reports no change.
        """

    def put_back(self, claim: Claim, hold: Hold) -> None:
        """Queue the task again, because no request has made its job and the hold allows no further request.

        A run that has not started gives its permit back and waits in the queue. A lost claim changes no row.
        """

    def failed(self, claim: Claim, cause: str, message: str, *, refused: bool) -> None:
        """Write a failed deployment.

        `refused`: the service will never make the job, so the task is FAILED with the reason `cause`. Otherwise the job
        may exist, and the claim stays until its expiry.
        """

    def claim_nudges(self, run_uids: Iterable[str]) -> list[Nudge]:
        """Claim the next nudge for every given open run, if the run has acknowledged its last nudge.

        After an error the result has the nudges claimed before the error; the rest stay unclaimed.
        """

    def unanswered_nudges(self) -> list[Nudge]:
        """Return the unacknowledged nudges for the installation's open runs.

        A watcher may have died after claiming and before sending such a nudge.
        """

    def open_among(self, run_uids: Iterable[str]) -> set[str]:
        """Return the open runs among the given runs."""


class RunStore(LimitStore, Protocol):
    @property
    def records(self) -> Records: ...

    @property
    def runs(self) -> Runs: ...

    @property
    def tasks(self) -> Tasks: ...
