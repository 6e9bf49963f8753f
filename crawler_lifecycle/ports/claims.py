"""Port for claims and nudges: a claim lets a single process deploy a task, a nudge makes a run's workflow look soon."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from crawler_lifecycle.contract.deployment import Deployment, DeploymentRequest
from crawler_lifecycle.contract.states import Intent
from crawler_lifecycle.contract.steps.run import RunRef
from crawler_lifecycle.domain.admission import Hold


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


@dataclass(frozen=True, slots=True)
class Nudge:
    """A signal for a run's workflow: the run's jobs have changed."""

    run_id: int
    run_uid: str
    workflow_id: str
    number: int  # counts the run's nudges, from 1


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
