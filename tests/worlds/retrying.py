"""Retries in generated lives: the look that proves the end of a job queues the next attempt of its task."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random

from crawler_lifecycle.model.looks import Look, TaskRow
from crawler_lifecycle.model.reasons import OF_INFRASTRUCTURE
from crawler_lifecycle.model.retries import FailureKind, Retries
from crawler_lifecycle.model.states import Intent, TaskStatus
from crawler_lifecycle.model.task_changes import TaskChange
from crawler_lifecycle.runs.rules.retries import NO_RETRIES
from crawler_lifecycle.runs.rules.verdict import verdicts
from tests.kit.clusters.kube import UID, Json
from tests.kit.data.rows import NOW, applied
from tests.worlds.lives import OVER, Life, Moment
from tests.worlds.truth import check

# An absent job gets no retry for minutes. So the looks of a life with retries are minutes apart, as of a life without
# retries no look takes time.
BETWEEN_LOOKS = timedelta(minutes=3)
CHOICES = (NO_RETRIES, NO_RETRIES, Retries(infrastructure=1), Retries(infrastructure=2, program=1))
ENDS = (TaskStatus.FAILED, TaskStatus.LOST)


@dataclass
class Retrying:
    """The retries that the life's request allows, and the time of the last look."""

    retries: Retries
    now: datetime = NOW

    @classmethod
    def chosen(cls, random: Random) -> "Retrying":
        return cls(random.choice(CHOICES))

    def change(self, read: TaskRow, look: Look, intent: Intent) -> TaskChange | None:
        """Return how the look changes the row that was read."""
        if self.retries != NO_RETRIES:
            self.now += BETWEEN_LOOKS
        changes, _ = verdicts([read], look, intent, self.now, retries=self.retries)
        return changes[0] if changes else None

    def applied(self, row: TaskRow, change: TaskChange | None) -> TaskRow:
        return applied(row, change, self.now)

    def check(self, life: Life, now: int, look: Look, before: TaskRow, change: TaskChange, *, seen_told: bool) -> None:
        """Check the end of the former attempt as an end without a retry, and that the retry is due."""
        assert change.next_attempt
        ended = self.applied(before, change.model_copy(update={"next_attempt": None}))
        check(life, now, look, before, ended, seen_told=seen_told)
        assert ended.status in ENDS, "only a failure is retried"
        assert not before.status.is_over, "an end on record is retried by nobody but a person"
        assert life.intent(now) is Intent.RUN, "a stop ends the retries"
        is_of_infrastructure = ended.reason in OF_INFRASTRUCTURE
        assert (change.next_attempt.kind is FailureKind.INFRASTRUCTURE) == is_of_infrastructure
        assert self.retries.allowed_after(change.next_attempt.kind), "there are no further attempts"
        assert change.next_attempt.deploy_after > self.now
        assert not any(_lives(moment) for moment in life.moments[now:]), "two attempts live at once"

    def check_next_attempt(self, life: Life, now: int, look: Look, before: TaskRow, current: TaskRow) -> None:
        """The former attempt's objects change nothing about a task in its pause; a stop ends the task.

        An object of others that has the labels of the next attempt is taken for the job of the next attempt.
        """
        if (before.task, before.attempt) in look.jobs or before.job_uid:
            return
        is_stopped = life.intent(now) is not Intent.RUN
        assert current == before or (is_stopped and current.status is TaskStatus.STOPPED), (life, before, current)

    def check_end(self, before: TaskRow, current: TaskRow, intent: Intent) -> None:
        """A failure that may be retried is retried, or waits until no pod of the job can run any more."""
        if before.status.is_over or intent is not Intent.RUN or not current.status.is_over:
            return
        of_infrastructure = current.reason in OF_INFRASTRUCTURE and self.retries.infrastructure
        assert not (current.status in ENDS and of_infrastructure), (before, current)

    def is_awaited(self, life: Life, current: TaskRow) -> bool:
        """Whether the row may be open although its job has ended: a retry waits for the end of a pod."""
        is_open = current.status in (TaskStatus.RUNNING, TaskStatus.STOPPING)
        return self.retries != NO_RETRIES and is_open and _lives(life.moments[-1])


def _lives(moment: Moment) -> bool:
    """Whether a pod of the first attempt may run."""
    return any(pod["status"]["phase"] not in OVER for pod in moment.pods if _is_own(pod))


def _is_own(pod: Json) -> bool:
    return bool(pod["metadata"]["labels"]["batch.kubernetes.io/controller-uid"] == UID)
