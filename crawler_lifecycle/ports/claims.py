"""Port for claims and nudges: a claim lets a single process deploy a task, a nudge makes a run's workflow look soon."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from crawler_lifecycle.contract.deployment import Deployment, DeploymentRequest
from crawler_lifecycle.contract.states import Intent
from crawler_lifecycle.contract.steps.run import RunRef


@dataclass(frozen=True, slots=True)
class Claim:
    """Right to deploy a task, until the claim expires. `token` identifies the process with the claim."""

    run_id: int
    task: int
    token: str
    request: DeploymentRequest


@dataclass(frozen=True, slots=True)
class Backlog:
    """A run with tasks to deploy: child tasks, or its main task at a further attempt.

    A task is to be deployed if the task is QUEUED, or DEPLOYING by an expired claim or the caller's own claim. The
    caller's own claim remains only after a failed request: the caller reads backlogs while no request is under way.
    """

    run_id: int
    waiting: int  # how many tasks to deploy
    in_cluster: int  # how many further tasks have, or may have, a job
    max_parallel: int | None  # the run's own limit for tasks with a job; None: no limit


@dataclass(frozen=True, slots=True)
class Nudge:
    """A signal for a run's workflow: the run's jobs have changed."""

    run_id: int
    run_uid: str
    workflow_id: str
    number: int  # counts the run's nudges, from 1


class Claims(Protocol):
    """Claims for tasks and nudges. A claim is a conditional UPDATE: if two callers claim at once, one succeeds."""

    def claim_main(self, run: RunRef, token: str, expires_in: timedelta) -> Claim | None:
        """Claim task 0 if the task is QUEUED, or DEPLOYING by an expired claim or a claim with the same token.

        Return None if another claim is valid, if the task has its job or is over, or if the run has to stop.
        """

    def backlogs(self, token: str) -> list[Backlog]:
        """Return the PROCESSING runs with intent RUN and tasks to deploy, oldest first."""

    def in_cluster(self, token: str) -> int:
        """Return how many tasks in the installation have, or may have, a job, without the caller's claims."""

    def claim_tasks(self, run_id: int, token: str, expires_in: timedelta, most: int) -> list[Claim]:
        """Claim up to `most` tasks to deploy (see `Backlog`): the tasks are DEPLOYING from now on.

        Claim no task unless the run is PROCESSING and its intent is RUN.
        """

    def deployed(self, claim: Claim, deployment: Deployment) -> Intent | None:
        """Change the task from DEPLOYING to PENDING, and write its job. Return the run's present intent.

        If the claim was lost, no row changes, because the task's next claim finds the job by its key. Return None if
        the task is over or at another attempt: then no look ever sees the job, and the caller has to end the job.
        """

    def failed(self, claim: Claim, cause: str, message: str, *, refused: bool) -> None:
        """Write a failed deployment.

        `refused`: the service will never make the job, so the task is FAILED with the reason `cause`. Otherwise the job
        may exist, and the claim stays until its expiry.
        """

    def explain(self, run_id: int, cause: str) -> None:
        """Write the cause for the run's QUEUED tasks. While the cause stays the same, its time stays, too."""

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
