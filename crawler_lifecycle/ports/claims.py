"""Port to claims: the right to deploy a task, and the right to nudge a supervisor."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from crawler_lifecycle.contract.deployment import Deployment, DeploymentRequest
from crawler_lifecycle.contract.states import Intent
from crawler_lifecycle.contract.steps.run import RunRef


@dataclass(frozen=True, slots=True)
class Claim:
    """The right of the holder of a token to deploy a task, until the claim expires."""

    run_id: int
    task: int
    token: str
    request: DeploymentRequest


@dataclass(frozen=True, slots=True)
class Backlog:
    """A run with tasks to deploy: QUEUED, or DEPLOYING by a claim that ran out or is the caller's own.

    `in_cluster` counts the other tasks that have, or may have, a job."""

    run_id: int
    waiting: int
    in_cluster: int
    max_parallel: int | None


@dataclass(frozen=True, slots=True)
class Nudge:
    """A signal for a run's supervisor: its jobs have changed. Nudges of a run are numbered."""

    run_id: int
    run_uid: str
    workflow_id: str
    number: int


class Claims(Protocol):
    """Claims of tasks and of nudges. A claim is a conditional UPDATE of a row."""

    def claim_main(self, run: RunRef, token: str, expires_in: timedelta) -> Claim | None:
        """Claim task 0 if it is QUEUED, claimed by this token, or its claim ran out.

        Return None if the task has its job or is over, or the run is to stop."""

    def backlogs(self, token: str) -> list[Backlog]:
        """Return the runs that are PROCESSING with intent RUN and have child tasks to deploy, oldest first."""

    def in_cluster(self, token: str) -> int:
        """Count the tasks of the whole installation that have, or may have, a job, but for the caller's own claims."""

    def claim_children(self, run_id: int, token: str, expires_in: timedelta, most: int) -> list[Claim]:
        """Turn up to `most` child tasks to DEPLOYING, only while the run is PROCESSING and its intent RUN.

        Takes QUEUED tasks, and tasks whose claim ran out or is this token's: the caller has no request under way."""

    def deployed(self, claim: Claim, deployment: Deployment) -> Intent | None:
        """Turn DEPLOYING to PENDING with the job. Return the run's intent as it is then.

        A claim that was lost changes nothing. None says that no look will ever see this job, since its task is over
        without the job or at another attempt; the caller has to end the job. Else the task's next owner finds the job
        by its key."""

    def failed(self, claim: Claim, cause: str, message: str, *, refused: bool) -> None:
        """Write that the deployment failed. Only if it was `refused`, no job was made for certain, and the task is
        FAILED with reason `cause`; else the claim runs out."""

    def explain(self, run_id: int, cause: str) -> None:
        """Write why the run's QUEUED tasks are still queued; the time stays while the cause does."""

    def claim_nudges(self, run_uids: Iterable[str]) -> list[Nudge]:
        """Return the next nudge of each of these runs that is not over and has acknowledged its last nudge.

        Only some of them are returned if an error came on the way: the others can be claimed as before."""

    def unanswered_nudges(self) -> list[Nudge]:
        """Return the last nudge of each run of ours that is not over and has not acknowledged it: a watcher that
        died may not have sent it."""

    def open_among(self, run_uids: Iterable[str]) -> set[str]:
        """Return which of these runs are not over."""
