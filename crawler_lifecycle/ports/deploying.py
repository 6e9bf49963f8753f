"""Which tasks may be deployed, and by whom?"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from crawler_lifecycle.contract.deployment import Deployment, DeploymentRequest
from crawler_lifecycle.contract.states import Intent
from crawler_lifecycle.contract.steps import RunRef


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

    def deployed(self, claim: Claim, deployment: Deployment) -> Intent | None:
        """DEPLOYING to PENDING with the job; answers the run's intent as it is then.

        A claim that was lost changes nothing. None: nobody will ever look for this job, since its task is over without
        it or at another attempt; whoever made it has to end it. Else the task's next owner finds it by its key."""

    def failed(self, claim: Claim, cause: str, message: str, *, refused: bool) -> None:
        """Nothing was made for certain only if `refused` (then FAILED with reason `cause`); else the claim runs out."""

    def explain(self, run_id: int, cause: str) -> None:
        """Why the run's QUEUED tasks are still queued; since when stays while the cause does."""


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
