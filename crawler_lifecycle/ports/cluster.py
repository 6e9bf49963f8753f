"""Ports to clusters and to the scheduler service."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from crawler_lifecycle.contract.deployment import Crawler, Deployment, DeploymentRequest
from crawler_lifecycle.contract.outcome_facts import OutcomeFacts
from crawler_lifecycle.contract.steps.evidence import TaskEvidence
from crawler_lifecycle.domain.audit.subjects import ListedJob
from crawler_lifecycle.domain.looks import JobKey, Look

Uids = Mapping[JobKey, str]  # the uid on record of the job of (task, attempt)
NO_UIDS: Uids = {}
KeepFacts = Callable[[Mapping[JobKey, OutcomeFacts]], None]  # by task and attempt


def keep_no_facts(facts: Mapping[JobKey, OutcomeFacts]) -> None:
    """Leave the outcome facts to the looks."""


@dataclass(frozen=True, slots=True)
class LogChunk:
    text: str
    offset: int
    ended: bool
    read: int = 0  # bytes that had to be fetched for it, where that is more than the text


class Cluster(Protocol):
    """Jobs. A cluster reads, adopts and ends only jobs with our installation's label, or with a uid on record.

    `uids` are the uids on record: a job is found by its uid even if its labels were edited."""

    def deploy(self, request: DeploymentRequest) -> Deployment:
        """Make one job per key, for ever. Conflict if the key was used for another request."""

    def look(
        self,
        run_uid: str,
        watched: Collection[JobKey] = (),
        tasks: Collection[int] | None = None,
        *,
        uids: Uids = NO_UIDS,
    ) -> Look:
        """Look at all jobs of the run. Jobs that cannot be seen make the look incomplete and raise no error.

        `watched`: (task, attempt) of jobs that are believed alive, where details and absence matter.
        `tasks`: look at their jobs only, in every attempt."""

    def inventory(self) -> Iterator[Sequence[ListedJob]]:
        """List all jobs of the installation that live or take room, in pages. A job may be listed twice. TemporaryError
        if a page cannot be read: the pages before are no full list."""

    def evidence(self, run_uid: str, jobs: Sequence[JobKey], *, hurried: bool = False) -> list[TaskEvidence]:
        """Return the evidence about these jobs; a job without evidence is left out. `hurried`: read only for
        seconds."""

    def stop(
        self,
        run_uid: str,
        jobs: Sequence[JobKey],
        *,
        uids: Uids = NO_UIDS,
        hurried: bool = False,
        keep: KeepFacts = keep_no_facts,
    ) -> None:
        """Ask these jobs to end. An absent job is success. `hurried`: the jobs are killed next.

        `keep` is called before the first request to end, with the outcome facts that the cluster would forget with the
        jobs. Only jobs with a uid on record have such facts; facts that cannot be read delay no request."""

    def kill(
        self,
        run_uid: str,
        jobs: Sequence[JobKey],
        *,
        uids: Uids = NO_UIDS,
        keep: KeepFacts = keep_no_facts,
    ) -> None:
        """End these jobs without asking. An absent job is success. `keep`: as in a stop."""

    def unreached(self, run_uid: str, jobs: Sequence[JobKey]) -> Mapping[JobKey, str]:
        """Return the living jobs on unreachable nodes, with their nodes: ended by force, the jobs may run on."""

    def remove(self, run_uid: str, jobs: Sequence[JobKey], *, uids: Uids = NO_UIDS) -> int:
        """Remove these jobs and earlier attempts of their tasks; their logs go to the run's files first.

        Return how many jobs have to stay for now, since a late copy of their request could make them anew. A job that
        has not ended stays, too, and does not count."""

    def log(self, run_uid: str, task: int, attempt: int, offset: int) -> LogChunk:
        """Return the task's log from this byte on (negative: from that many bytes before the end)."""

    def changes(self) -> Iterator[set[str]]:
        """Yield the run_uids whose jobs changed, for ever, and an empty set now and then. Changes may be missed.

        TemporaryError, again and again, while changes cannot be followed; afterwards the iterator goes on."""

    def check(self) -> str:
        """Return one line about the cluster, or raise an error with the remedy."""


class Deployer(Protocol):
    """The scheduler service, ours or the company's."""

    def crawler(self, name: str) -> Crawler:
        """Return the catalogue's entry; BadInput for `crawler` if the catalogue has none."""

    def crawler_names(self) -> list[str]:
        """Return the crawlers' names in the catalogue."""

    def only_installation(self) -> str | None:
        """Return the UUID of the one installation that the service serves. None: any, or not known."""

    def deploy(self, request: DeploymentRequest) -> Deployment:
        """Deploy. Refused if the request can never succeed, TemporaryError if its outcome is unknown."""

    def check(self) -> str: ...
