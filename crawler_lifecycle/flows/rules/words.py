"""Members' causes and reasons. A cause says why a member waits now; a reason says why a member ended."""

from datetime import timedelta

# causes: why a member waits
DEPENDENCIES = "dependencies"  # a dependency is not satisfied yet
TIME = "time"  # the member's start time lies ahead
RETRY_PAUSE = "retry_pause"  # the last attempt failed, and the pause before the next attempt is not over
SNOOZED = "snoozed"  # the step's function chose a pause before its next attempt; `snoozed:SECONDS` as a reason
PARALLEL_LIMIT = "parallel_limit"  # the flow or a group has as many executing members as it may have
NO_SUPERVISOR = "no_supervisor"  # no worker has taken the flow up, or its latest ends
PAUSED = "paused"  # a person paused the flow
DRAINING = "draining"  # a person drains the flow
APPROVAL = "approval"  # a person has to decide
SETTLING = "settling"  # the member's earlier attempt still runs
START = "start"  # the graph allows the start, and no worker has taken the crawl yet
HOST = "host"  # the graph allows the start, and no host has taken the step yet; `host:MODULE` names the step's module
ARCHIVE = "archive"  # the run has ended, and its archive is not ready yet
UNKNOWN_STEP = "unknown_step"  # the host's module has no function with the step's name
BROKEN_MODULE = "broken_module"  # the host cannot import the step's module; `broken_module:PROBLEM`
NO_HOST = "no_host"  # no host has room for the crawl manager
EXECUTING = "executing"  # an attempt is under way
SILENT_HOST = "silent_host"  # the step's host is silent, and no host has taken the step over; `silent_host:MODULE`

HOST_PATIENCE = timedelta(seconds=5)  # in which a healthy host takes a step; also in the page's `flow.js`

# reasons: why a member ended
DEPENDENCY = "dependency"  # a dependency failed; `dependency:NAME` names it
BY_REQUEST = "cancel_requested"  # a person cancelled the member
BY_ITSELF = "cancelled_by_itself"  # the member's own code cancelled it
DRAINED = "drained"  # the flow was drained before the member could start
STOPPED = "stopped"  # a person stopped the crawl's run
REJECTED = "rejected"  # a person rejected the approval
APPROVAL_TIMEOUT = "approval_timeout"  # no person decided in time
PROCESS_DIED = "process_died"  # the process with the step died too often
START_REFUSED = "start_refused"  # the crawl can never start, such as one with an unknown crawler
OUTCOME = "outcome"  # the crawl's run is completed with a word that a retry rule names; `outcome:WORD` names it
RESULT_TOO_LARGE = "result_too_large"
RESULT_UNUSABLE = "result_unusable"  # the result has no form in JSON
RESULT_MISMATCH = "result_mismatch"  # the result does not fit the function's annotation
FINAL_FAILURES = frozenset(  # no retry helps
    {PROCESS_DIED, START_REFUSED, RESULT_TOO_LARGE, RESULT_UNUSABLE, RESULT_MISMATCH}
)


def by_dependency(path: str) -> str:
    return f"{DEPENDENCY}:{path}"


def snoozed(seconds: float) -> str:
    return f"{SNOOZED}:{seconds}"


def snoozed_seconds(reason: str | None) -> float:
    """Return the seconds in the reason for a snooze."""
    return float((reason or "").partition(":")[2] or 0)


def by_outcome(word: str) -> str:
    return f"{OUTCOME}:{word}"


def is_by_dependency(reason: str | None) -> bool:
    return reason is not None and reason.startswith(f"{DEPENDENCY}:")


# outcomes: words for the ends of steps, for retry rules; an exception's outcome is the name of its class
TIMEOUT = "timeout"  # the function did not end within its time limit

MOST_DEATHS = 3  # processes that may die with an attempt

# the page's sentence for a cause or reason; the command line shows it for troubles
SENTENCES = {
    DEPENDENCIES: "waits for other jobs",
    TIME: "waits for its start time",
    RETRY_PAUSE: "waits for its next attempt",
    SNOOZED: "waits for the time that its function chose",
    PARALLEL_LIMIT: "waits for its turn (limit of parallel jobs)",
    NO_SUPERVISOR: "no worker continues the flow (crawlctl doctor shows the workers)",
    PAUSED: "the flow is paused",
    DRAINING: "the flow is being drained",
    APPROVAL: "waits for a decision",
    SETTLING: "waits until its earlier attempt has ended",
    START: "no worker has taken the crawl yet",
    ARCHIVE: "waits for the archive of its run",
    UNKNOWN_STEP: "no host's module has the function; start the host again with the present code",
    NO_HOST: "no running host has loaded the manager: start one with crawlctl host",
    EXECUTING: "is running",
    BY_REQUEST: "was cancelled on request",
    APPROVAL_TIMEOUT: "nobody decided in time",
    PROCESS_DIED: "its process died too often",
    START_REFUSED: "could not be started",
    RESULT_TOO_LARGE: "its result is too large",
    RESULT_UNUSABLE: "its result is not usable",
    RESULT_MISMATCH: "its result does not fit",
}
# the same for a word with a name, such as `host:MODULE`
SENTENCES_WITH_NAME = {
    HOST: "no host has taken the step yet (crawlctl host {name})",
    SILENT_HOST: "its host is silent, and no other host of {name} has taken over (crawlctl host {name})",
    BROKEN_MODULE: "{name}; the step starts once the module is repaired",
    PARALLEL_LIMIT: "waits for its turn (limit of {name})",
    DEPENDENCY: "{name} did not complete",
    OUTCOME: "ended with the outcome {name}",
}
