"""Port for claims: time-limited rights to deploy a task, and rights to nudge a supervisor."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from crawler_lifecycle.contract.deployment import Deployment, DeploymentRequest
from crawler_lifecycle.contract.states import Intent
from crawler_lifecycle.contract.steps.run import RunRef


@dataclass(frozen=True, slots=True)
class Claim:
    """Right to deploy a task, for the token's holder, until the claim expires."""

    run_id: int
    task: int
    token: str
    request: DeploymentRequest


@dataclass(frozen=True, slots=True)
class Backlog:
    """A run with tasks to deploy: QUEUED, or DEPLOYING by an expired claim or by the caller's own claim.

    `in_cluster` counts the remaining tasks that have, or may have, a job.
    """

    run_id: int
    waiting: int
    in_cluster: int
    max_parallel: int | None


@dataclass(frozen=True, slots=True)
class Nudge:
    """A signal for a run's supervisor: its jobs have changed. A run's nudges are numbered."""

    run_id: int
    run_uid: str
    workflow_id: str
    number: int


class Claims(Protocol):
    """Claims to tasks and nudges. A claim is a conditional UPDATE: of two callers at once a single caller succeeds."""

    def claim_main(self, run: RunRef, token: str, expires_in: timedelta) -> Claim | None:
        """Claim task 0 if the task is QUEUED, claimed by the same token, or claimed by an expired claim.

        Return None if the task has its job or is over, or if the run has to stop.
        """

    def backlogs(self, token: str) -> list[Backlog]:
        """Return the runs that are PROCESSING with intent RUN and have child tasks to deploy, oldest first."""

    def in_cluster(self, token: str) -> int:
        """Count the installation's tasks that have, or may have, a job; the caller's own claims do not count."""

    def claim_children(self, run_id: int, token: str, expires_in: timedelta, most: int) -> list[Claim]:
        """Turn up to `most` child tasks to DEPLOYING, only while the run is PROCESSING and its intent RUN.

        Take QUEUED tasks, and DEPLOYING tasks whose claim expired or belongs to the token: the caller has no request
        under way.
        """

    def deployed(self, claim: Claim, deployment: Deployment) -> Intent | None:
        """Turn DEPLOYING to PENDING with the job. Return the run's present intent.

        A lost claim changes no row. None: no look will ever see the job, since its task is over without the job or at
        another attempt; the caller has to end the job. In all further cases the task's next owner finds the job by its
        key.
        """

    def failed(self, claim: Claim, cause: str, message: str, *, refused: bool) -> None:
        """Write a failed deployment. If the service `refused` the deployment, no job exists for certain, and the task
        is FAILED with reason `cause`; in all further cases the claim expires.
        """

    def explain(self, run_id: int, cause: str) -> None:
        """Write why the run's QUEUED tasks are still queued. The time stays as long as the cause."""

    def claim_nudges(self, run_uids: Iterable[str]) -> list[Nudge]:
        """Return the next nudge for every given run that is not over and has acknowledged its last nudge.

        After an error on the way the result has only the nudges claimed so far; the rest can be claimed as before.
        """

    def unanswered_nudges(self) -> list[Nudge]:
        """Return the last nudge of our runs that are not over and have not acknowledged the nudge: a watcher may have
        died before sending.
        """

    def open_among(self, run_uids: Iterable[str]) -> set[str]:
        """Return the given runs that are not over."""
