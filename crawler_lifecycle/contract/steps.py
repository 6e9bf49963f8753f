"""What does each activity take and give? One model in, one out; new fields get defaults."""

from datetime import datetime

from pydantic import Field

from crawler_lifecycle.contract.base import Message
from crawler_lifecycle.contract.clock import Clock
from crawler_lifecycle.contract.outcome_facts import OutcomeFacts
from crawler_lifecycle.contract.requests import AcceptedRequest, StopRequest
from crawler_lifecycle.contract.states import Intent, RunStatus, StopPhase, TaskStatus, Trigger


class RunRef(Message):
    """Which run, and as which supervisor: every write compares the epoch."""

    run_id: int
    run_uid: str
    epoch: int


class ToRun(Message):
    """The input of every activity that needs nothing but the run."""

    run: RunRef


class ToEnd(Message):
    """The input of the export: the run, and which of its ends, where it was reopened."""

    run: RunRef
    end: int = 1


class ExportsOwed(Message):
    """Of a run that is over, the ends whose event or whose archive is not there yet, the last one first."""

    events: list[int] = []
    archives: list[int] = []


class ExportAgain(ToEnd):
    """The end that is exported again whatever became of it, and what is still owed of others."""

    owed: ExportsOwed = ExportsOwed()


# Stage 1: initiation


class CreateHistory(Message):
    request: AcceptedRequest
    workflow_id: str
    first_execution_run_id: str = Field(description="the same for every execution of one request")


class TakeOver(Message):
    """Go on with a run that exists."""

    run_id: int
    crawler: str
    reopen: bool = False
    workflow_id: str
    temporal_run_id: str
    began_at: datetime | None = Field(default=None, description="when that execution began: a later one goes before it")


class RunPlan(Message):
    """The run as it was written down: its request with the crawler's defaults filled in."""

    run: RunRef
    crawler: str
    trigger: Trigger
    tasks: int
    end: int = Field(default=1, description="the number of the end that it is going to")
    begun_at: datetime
    start_limit_seconds: int | None = None
    max_duration_seconds: int | None = None
    grace_seconds: int = 30
    clock: Clock = Clock()
    search_attributes: bool = Field(default=False, description="whether the server knows ours; unknown ones are fatal")


class TakenOver(Message):
    """`plan` if this workflow supervises the run from now on; else why it does not."""

    plan: RunPlan | None = None
    status: RunStatus
    intent: Intent = Intent.RUN
    started_at: datetime | None = None
    exported: bool = False
    owed: ExportsOwed | None = Field(default=None, description="what is left to export of a run that is over")
    gave_up: str | None = Field(default=None, description="the reason of an end that is under way")
    stopped_at: datetime | None = Field(default=None, description="when the stop that is under way was first asked for")
    jobs_asked_at: datetime | None = Field(default=None, description="when that stop first asked the jobs to end")
    supervised_by: str | None = Field(default=None, description="the workflow that the run belongs to, where not ours")


class OwnExecution(Message):
    workflow_id: str
    temporal_run_id: str


class HoldLimits(Message):
    """The run's limits of time stand still from now on, or go on."""

    run: RunRef
    held: bool
    number: int = Field(description="of this change, from 1: the same one is noted once")


class RegisterWorkflow(Message):
    run: RunRef
    workflow_id: str


# Stage 2: deployment


class DeploymentOutcome(Message):
    """`job_id` when deployed; otherwise what is in the way, and whether it can ever get better."""

    job_id: str | None = None
    cause: str | None = None
    message: str | None = None
    refused: bool = False
    saturated: str | None = Field(default=None, description="the cause, if for a while there has been no room")
    intent: Intent = Intent.RUN


class MainJobStatus(Message):
    """`started`: the job runs or has run. Otherwise why it waits, and since when."""

    known: bool = True
    started: bool = False
    vanished: bool = False
    started_at: datetime | None = Field(default=None, description="when the job started, as far as the cluster tells")
    intent: Intent = Intent.RUN
    cause: str | None = None
    since: datetime | None = None
    message: str | None = None
    saturated: str | None = Field(default=None, description="the cause, if for a while there has been no room")
    seconds: float = Field(default=0, description="how long it took, from when a worker began with it")


class StartRun(Message):
    """The main job runs or has run."""

    run: RunRef
    started_at: datetime | None = Field(default=None, description="when the main job started; none: not known")


class RunMoment(Message):
    status: RunStatus
    at: datetime


# Stage 3: reconciliation


class ActiveTasks(Message):
    """The opening of a look: task numbers as ranges (`0-3,7`) by status, and the nudge it will answer."""

    by_status: dict[TaskStatus, str]
    nudge: int = 0
    intent: Intent = Intent.RUN


class LookAt(Message):
    run: RunRef
    active: ActiveTasks
    stopped_at: datetime | None = Field(default=None, description="since when the run is being stopped")


class TaskChange(Message):
    """One row that no longer tells the truth: what was read, and what it has to become."""

    task: int
    attempt: int
    version: int
    status: TaskStatus
    job_uid: str | None = None
    job_name: str | None = None
    cause: str | None = None
    reason: str | None = None
    exit_code: int | None = None
    message: str | None = Field(
        default=None, description="what the cluster says of the cause, or why the task ended so"
    )
    absent_count: int = 0
    started_at: datetime | None = None
    ended_at: datetime | None = None
    facts: OutcomeFacts | None = None


class Differences(Message):
    """`known` is false when the cluster could not be asked: then nothing is different."""

    known: bool
    changes: list[TaskChange] = []
    evidence: str = Field(default="", description="tasks whose debugging information changed, as ranges")
    more: bool = Field(default=False, description="there are further differences for another look")
    unwanted: str = Field(
        default="", description="tasks with jobs, of whichever attempt, that are not wanted any more or never end"
    )
    removable: str = Field(default="", description="tasks that are over on record and whose jobs can leave the cluster")
    leaving: int = Field(default=0, description="jobs that have ended and were deleted, and are still listed")
    saturated: str | None = Field(default=None, description="why tasks wait, if for a while there has been no room")
    seconds: float = Field(default=0, description="how long it took, from when a worker began with it")
    suspended: bool | None = Field(
        default=None, description="all that is left in the cluster is suspended; none: it cannot be told"
    )
    problem: str | None = None


class EvidenceRequest(Message):
    run: RunRef
    tasks: str


LOG_NOT_READ = "log not read"  # an event's beginning: why there are no last lines


class TaskEvidence(Message):
    """What one needs to see why a task ended as it did, bounded in size."""

    task: int
    attempt: int
    job_uid: str | None = Field(default=None, description="whose it is; none: the cluster keeps it by task and attempt")
    message: str | None = None
    node: str | None = None
    restarts: int = 0
    log_tail: str = ""
    events: list[str] = []


class EvidencePage(Message):
    items: list[TaskEvidence]
    rest: str = Field(default="", description="tasks left for further pages, as ranges")


class EvidenceWrite(Message):
    run: RunRef
    items: list[TaskEvidence]


class StatusWrite(Message):
    run: RunRef
    changes: list[TaskChange]


class Written(Message):
    """`stale` rows had changed since they were read; the next look sees them anew."""

    written: int
    stale: int = 0


class CloseLook(Message):
    """The end of a look: what is acknowledged, and when the next one is due."""

    run: RunRef
    nudge: int = 0
    known: bool = True
    problem: str | None = None
    saturated: str | None = None
    next_look_at: datetime | None = None


class AliveTasks(Message):
    queued: int
    pending: int
    active: int
    stopped: int = Field(default=0, description="how many a stop has ended")

    @property
    def total(self) -> int:
        return self.queued + self.pending + self.active


# Stage 4: completion


class EndRun(Message):
    run: RunRef
    reason: str | None = Field(default=None, description="set where the run itself, not its tasks, gives the reason")


class RunOutcome(Message):
    """How the run ended: the result of the workflow."""

    run_id: int
    run_uid: str
    status: RunStatus
    reason: str
    tasks: dict[TaskStatus, int]


class ExportSignal(Message):
    event_id: str
    supporting_files: str = Field(description="where the zip will be")


class ExportedFiles(Message):
    event_id: str
    location: str | None = Field(default=None, description="none if the run left no files")
    files: int = 0
    bytes: int = 0


# Stopping


class LogCancellation(Message):
    run: RunRef
    stop: StopRequest
    asked_at: datetime
    ends_as: str | None = Field(default=None, description="the reason of the end, where the run itself gives up")


class NotePhase(Message):
    """A phase of a stop, for the run's timeline; the same phase is noted once."""

    run: RunRef
    phase: StopPhase
    message: str


class StopAnswer(Message):
    """What a stop that waits for an answer is told: it is accepted, not yet proved."""

    run_id: int | None = Field(default=None, description="none: the run has no history yet, and never gets a job")
    forced: bool
    again: bool = Field(description="the run was being stopped already")


class StopTasks(Message):
    run: RunRef
    tasks: str = Field(default="", description="as ranges; none: all that are in the cluster")


class StopReport(Message):
    """`asked`: jobs told to end in this page; `rest`: task numbers left for further pages."""

    asked: int
    rest: str = ""


class RemoveJobs(Message):
    run: RunRef
    tasks: str = Field(default="", description="as ranges; none: all that are over")


class Removal(Message):
    """`left`: jobs that have to stay for now; `rest`: task numbers left for further pages."""

    left: int = 0
    rest: str = ""


class Counted(Message):
    count: int


# Notices


class Notify(Message):
    run: RunRef
    end: int = Field(default=1, description="which end of the run is meant: one that was reopened has several")
    number: int = Field(default=1, description="tells repeated notices of one kind apart")
