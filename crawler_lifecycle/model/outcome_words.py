"""One word for each run's end, for programs that react to ends.

The run's status and reason decide, then the main task's reason. The main task's own word counts in a completed run and
after the main job's own failure, unless the word already means another end.
"""

from crawler_lifecycle.model import reasons
from crawler_lifecycle.model.reasons import OF_INFRASTRUCTURE
from crawler_lifecycle.model.states import RunStatus

FINISHED = "finished"
FAILED = "failed"
LOST = "lost"
KILLED_BY_OOM = "killed by oom"

BY_REASON = {
    reasons.STOPPED: "cancelled",
    reasons.STOPPED_FORCED: "cancel_timeout",
    reasons.MAIN_JOB_LOST: LOST,
    reasons.TASKS_LOST: LOST,
    reasons.NEVER_STARTED: reasons.NEVER_STARTED,
    reasons.MAX_DURATION: reasons.MAX_DURATION,
    reasons.DEPLOYMENT_REFUSED: reasons.DEPLOYMENT_REFUSED,
}
# for runs whose main job failed
BY_REASON_OF_MAIN_TASK = {
    reasons.OOM_KILLED: KILLED_BY_OOM,
    reasons.DEADLINE_EXCEEDED: reasons.MAX_DURATION,
    reasons.NEVER_STARTED: reasons.NEVER_STARTED,
}
OF_FAILED_RUNS = {FAILED, *BY_REASON.values(), *BY_REASON_OF_MAIN_TASK.values()}
RESERVED = {FINISHED, *OF_FAILED_RUNS}  # no crawl can claim these words


def outcome_word(status: RunStatus, reason: str, reason_of_main_task: str | None, own_word: str | None) -> str:
    """Return the word for the end of a run. `own_word`: the outcome in the main task's crawl result."""
    own = None if own_word in RESERVED or reason_of_main_task in OF_INFRASTRUCTURE else own_word
    if status is RunStatus.COMPLETED:
        return own or FINISHED
    if reason == reasons.MAIN_JOB_FAILED:
        return BY_REASON_OF_MAIN_TASK.get(reason_of_main_task or "") or own or FAILED
    return BY_REASON.get(reason, FAILED)
