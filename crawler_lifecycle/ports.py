"""What does the inside need of the outside? Small protocols; `adapters/` fulfils them, `tests/contracts/` holds
every adapter to them.

Whatever fails raises TemporaryError (try again, nothing is known to have changed) or PermanentError. Every
method may be called twice. Every write to a run compares the epoch in its RunRef and raises Fenced when
another supervisor has taken over.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from crawler_lifecycle.contract.deployment import Crawler, Deployment, DeploymentRequest
from crawler_lifecycle.contract.notices import ExportEvent, Notice
from crawler_lifecycle.contract.records import (
    Changed,
    ExportRecord,
    RunDetails,
    RunOverview,
    RunRecord,
    RunSummary,
    TaskRecord,
)
from crawler_lifecycle.contract.requests import AcceptedRequest, RunRequest, StopRequest
from crawler_lifecycle.contract.states import ExportState, Intent, RunStatus, StopPhase, TaskStatus
from crawler_lifecycle.contract.steps import RunRef, TaskChange, TaskEvidence
from crawler_lifecycle.domain.looks import Look, TaskRow

# The database


@dataclass(frozen=True, slots=True)
class NewRun:
    """A request with the crawler's defaults filled in, and the workflow execution that asked."""

    request: AcceptedRequest
    entry: Crawler
    tasks: int
    workflow_id: str
    first_execution_run_id: str


class Histories(Protocol):
    """Runs, as their supervisor writes them."""

    def create(self, new: NewRun) -> RunRecord:
        """The run of this workflow execution, made unless it is there already (epoch 1, task rows QUEUED).

        BadInput if another run of this workflow id is not over: a workflow id stands for one run at a time."""

    def find(self, workflow_id: str, first_execution_run_id: str) -> RunRecord | None:
        """The run that this workflow execution has made already."""

    def current(self, run: RunRef) -> RunRecord:
        """The run, for its supervisor: Fenced if that is another by now, NotFound if there is no such run."""

    def set_property(self, run: RunRef, name: str, value: str) -> None: ...

    def note(self, run: RunRef, key: str, event: str, message: str) -> None:
        """A line in the run's timeline; one with the same key is logged once."""

    def mark_started(self, run: RunRef) -> RunRecord:
        """INITIALIZING to PROCESSING; any other status stays."""

    def mark_waiting(self, run: RunRef, cause: str | None, message: str | None) -> datetime | None:
        """Why the run waits (None: it does not); answers since when, which stays while the cause does."""

    def mark_look(
        self, run: RunRef, nudge: int, known: bool, problem: str | None, next_look_at: datetime | None
    ) -> None:
        """A look is over: acknowledge its nudge and, if the cluster was known, note the time."""

    def close(self, run: RunRef, status: RunStatus, reason: str) -> RunRecord:
        """The end. A run that is over keeps its first end. Refused while a task is alive."""


class Stops(Protocol):
    """What people want of a run that is under way, and how far that has come."""

    def ask(self, run_id: int, stop: StopRequest, asked_at: datetime) -> RunRecord:
        """From a door, in one transaction: intent STOP or FORCE (never back), status STOPPING, and who asked, when,
        why, by which door. The same stop (same `asked_at` and actor) is logged once. Over if the run is over,
        Conflict if it is another installation's."""

    def log(self, run: RunRef, stop: StopRequest, asked_at: datetime, ends_as: str | None = None) -> Intent:
        """The same from the supervisor; `ends_as` is kept as the run's reason. A run that is over stays as it is."""

    def note(self, run: RunRef, phase: StopPhase, message: str) -> None:
        """A phase of the stop is reached; noted once."""


@dataclass(frozen=True, slots=True)
class Execution:
    """One execution of a workflow; those of one workflow id follow each other."""

    workflow_id: str
    run_id: str
    began_at: datetime | None = None


class Supervision(Protocol):
    """Which workflow supervises a run.

    Conflict if the run belongs to another workflow id or installation; Fenced if a later execution of it has taken
    over already: what an execution still does after it was terminated must not put the next one out."""

    def get(self, run_id: int) -> RunRecord:
        """NotFound if there is none."""

    def take_over(self, run_id: int, execution: Execution) -> RunRecord:
        """The epoch goes up by one: what an earlier supervisor still writes is refused. A run that is over is left as
        it is."""

    def reopen(self, run_id: int, execution: Execution) -> RunRecord:
        """A FAILED run goes on: intent RUN, PROCESSING if its main job succeeded and else INITIALIZING, and every task
        that did not succeed is QUEUED with its next attempt. Twice by one execution is once. Conflict if the run is
        not FAILED."""


class Tasks(Protocol):
    """Tasks, as looks read and write them. No number of statements grows with the tasks but by pages of 1,000."""

    def by_status(self, run_id: int) -> dict[TaskStatus, list[int]]:
        """Task numbers by status, all statuses that occur."""

    def rows(self, run_id: int, tasks: Sequence[int]) -> list[TaskRow]:
        """What a verdict needs to know, in the order of the task numbers."""

    def sync(self, run: RunRef, changes: Sequence[TaskChange]) -> int:
        """Write each change whose row is still (attempt and version) what was read; how many were.

        The time of an end is the cluster's if it tells one, else now."""

    def reconcile(self, run: RunRef, evidence: Sequence[TaskEvidence]) -> int:
        """Keep the evidence with its task, if that is still at that attempt; how many rows."""

    def cancel_queued(self, run: RunRef, reason: str) -> int:
        """QUEUED to STOPPED; how many."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A task that may be deployed by whoever holds its token, until it expires."""

    run_id: int
    task: int
    token: str
    request: DeploymentRequest


@dataclass(frozen=True, slots=True)
class Backlog:
    """A run with tasks to deploy: QUEUED, or DEPLOYING by a claim that ran out or is the asker's own.

    `in_cluster` counts the other tasks that have, or may have, a job."""

    run_id: int
    waiting: int
    in_cluster: int
    max_parallel: int | None


class Claims(Protocol):
    """Deployments: who may have which job made. A claim is a conditional UPDATE of a row."""

    def claim_main(self, run: RunRef, token: str, expires_in: timedelta) -> Claim | None:
        """Task 0, if it is QUEUED, claimed by this token, or its claim ran out.

        None: it has its job, or is over, or the run is to stop."""

    def backlogs(self, token: str) -> list[Backlog]:
        """Runs that are PROCESSING with intent RUN and have child tasks to deploy, oldest first."""

    def in_cluster(self, token: str) -> int:
        """Tasks of the whole installation that have, or may have, a job, but for the asker's own claims."""

    def claim_children(self, run_id: int, token: str, expires_in: timedelta, most: int) -> list[Claim]:
        """Up to `most` child tasks to DEPLOYING, only while the run is PROCESSING and its intent RUN.

        Takes QUEUED ones and claims that ran out or are this token's: whoever asks has no request under way."""

    def deployed(self, claim: Claim, deployment: Deployment) -> Intent:
        """DEPLOYING to PENDING with the job; answers the run's intent as it is then."""

    def failed(self, claim: Claim, cause: str, message: str, *, refused: bool) -> None:
        """Nothing was made for certain only if `refused` (then FAILED with reason `cause`); else the claim runs out."""

    def explain(self, run_id: int, cause: str) -> None:
        """Why the run's QUEUED tasks are still queued; since when stays while the cause does."""


@dataclass(frozen=True, slots=True)
class Nudge:
    run_id: int
    run_uid: str
    workflow_id: str
    number: int


class Nudges(Protocol):
    def claim(self, run_uids: Iterable[str]) -> list[Nudge]:
        """Of these runs, those that are not over and acknowledged their last nudge, each with its next number."""

    def open_among(self, run_uids: Iterable[str]) -> set[str]:
        """Which of these runs are not over."""


class Exports(Protocol):
    """The `exports` table, read also by pipelines."""

    def open(self, run: RunRef, event: ExportEvent) -> ExportRecord:
        """The row of this event id, made (pending) unless it is there already."""

    def settle(
        self, run: RunRef, event_id: str, state: ExportState, location: str | None, problem: str | None
    ) -> None: ...


class Records(Protocol):
    """Reading for people and doors."""

    def installation(self) -> str:
        """The installation's UUID; NotReady if the schema is missing or of another version."""

    def page(
        self, *, limit: int, before: int | None, status: RunStatus | None, crawler: str | None
    ) -> list[RunSummary]:
        """Newest first; `before` is the RunID a page ended with."""

    def details(self, run_id: int) -> RunDetails: ...

    def overview(self, run_id: int) -> RunOverview: ...

    def tasks(self, run_id: int, *, first: int, limit: int, status: TaskStatus | None = None) -> list[TaskRecord]:
        """By number, from `first` on."""

    def latest_of(self, workflow_id: str) -> RunRecord | None:
        """The last run that was made under this workflow id."""

    def run_id(self, run_uid: str) -> int:
        """NotFound if there is none."""

    def find(self, workflow_id: str, first_execution_run_id: str) -> RunRecord | None: ...


@dataclass(frozen=True, slots=True)
class Addition:
    """Tasks for a run that is under way; `key` tells one wish from another."""

    run_id: int
    count: int
    key: str
    most_tasks: int
    actor: str | None
    door: str


class Additions(Protocol):
    def add(self, addition: Addition) -> range:
        """The numbers of the new tasks, QUEUED; those of an earlier addition with this key, if there is one.

        Excludes the end of the run: Conflict if none of its tasks is alive any more, or it is to stop, or over."""


class Changes(Protocol):
    """What was written of runs, for live views."""

    def latest(self) -> datetime | None: ...

    def since(self, moment: datetime | None, limit: int) -> list[Changed]:
        """The runs of which something was written then or later, the last ones first."""

    def summaries(self, run_ids: Sequence[int]) -> list[RunSummary]:
        """As they are now."""


# The cluster


@dataclass(frozen=True, slots=True)
class LogChunk:
    text: str
    offset: int
    ended: bool


class Cluster(Protocol):
    """Jobs. Only those with this installation's label are read, adopted or ended."""

    def deploy(self, request: DeploymentRequest) -> Deployment:
        """One job per key for ever; Conflict if the key was used for something else."""

    def look(self, run_uid: str, watched: Collection[tuple[int, int]] = ()) -> Look:
        """All jobs of the run at once. What could not be seen makes the look incomplete; it does not raise.

        `watched`: (task, attempt) of those that are believed alive, where details and absence matter."""

    def evidence(self, run_uid: str, jobs: Sequence[tuple[int, int]]) -> list[TaskEvidence]:
        """Of these (task, attempt); a job without evidence is left out."""

    def stop(self, run_uid: str, jobs: Sequence[tuple[int, int]]) -> None:
        """Ask these jobs to end. A job that is gone is success."""

    def kill(self, run_uid: str, jobs: Sequence[tuple[int, int]]) -> None:
        """End these jobs without asking. A job that is gone is success."""

    def remove(self, run_uid: str, jobs: Sequence[tuple[int, int]]) -> int:
        """These jobs, and earlier attempts of their tasks, leave the cluster; their logs go to the run's files first.

        Answers how many have to stay for now: a late copy of their request could make them anew. One that has not
        ended is left alone and does not count."""

    def log(self, run_uid: str, task: int, attempt: int, offset: int) -> LogChunk:
        """What the task printed from this byte on (negative: that many bytes from the end)."""

    def changes(self) -> Iterator[set[str]]:
        """The run_uids whose jobs changed, as it happens, for ever (an empty set now and then); may miss any."""

    def check(self) -> str:
        """One line about the cluster, or an error that says what to mend."""


class Deployer(Protocol):
    """The scheduler service, ours or the company's."""

    def crawler(self, name: str) -> Crawler:
        """The catalogue's entry; BadInput for `crawler` if there is none."""

    def crawler_names(self) -> list[str]:
        """The names of the catalogue."""

    def deploy(self, request: DeploymentRequest) -> Deployment:
        """Refused if it never will be, TemporaryError if it is not known whether it was."""

    def check(self) -> str: ...


# The outside


class Supervisors(Protocol):
    """The workflows of runs, as the engine has them."""

    async def go_on(self, workflow_id: str, request: RunRequest) -> None:
        """Have this workflow run with this request; if it is open already, leave it to it."""


class Pusher(Protocol):
    def send(self, notice: Notice) -> None:
        """TemporaryError: may be sent again, under its id; PermanentError: this one will never be taken."""

    def check(self) -> str:
        """One line about where notices go, or an error that says what to mend."""


@dataclass(frozen=True, slots=True)
class Archive:
    location: str | None
    files: int
    bytes: int


class Announcer(Protocol):
    def announce(self, event: ExportEvent) -> None: ...

    def check_events(self) -> str:
        """One line about where events go, or an error that says what to mend."""


class Archiver(Protocol):
    def destination(self, run_uid: str, end: int) -> str:
        """Where the archive of the run's end of this number (from 1) will be, before it is there."""

    def archive(self, run_uid: str, end: int, progress: "Progress") -> Archive | None:
        """Stream what the run left behind to its destination; None if it left nothing."""

    def check_archives(self) -> str:
        """One line about where archives go, or an error that says what to mend."""


class Exporter(Announcer, Archiver, Protocol):
    """Both."""


class Progress(Protocol):
    def __call__(self, files: int, bytes_done: int) -> None: ...
