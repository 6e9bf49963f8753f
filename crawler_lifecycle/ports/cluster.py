"""Ports to clusters, to the recorded place of an installation's jobs, and to the scheduler service.

The place is a namespace with its uid. With the kubeconfig of another cluster the uid differs from the uid on record.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from crawler_lifecycle.contract.deployment import Crawler, Deployment, DeploymentRequest
from crawler_lifecycle.contract.outcome_facts import OutcomeFacts
from crawler_lifecycle.contract.steps.looks import TaskEvidence
from crawler_lifecycle.domain.audit.subjects import ListedJob
from crawler_lifecycle.domain.looks import JobKey, Look

Uids = Mapping[JobKey, str]  # the uids on record by job
NO_UIDS: Uids = {}
KeepFacts = Callable[[Mapping[JobKey, OutcomeFacts]], None]  # records outcome facts, by job


def keep_no_facts(facts: Mapping[JobKey, OutcomeFacts]) -> None:
    """Record no facts: the next look records them."""


@dataclass(frozen=True, slots=True)
class LogChunk:
    text: str
    offset: int  # byte in the log from which to go on reading
    ended: bool  # no further text will come
    read: int = 0  # bytes fetched from the cluster; a cluster may fetch far more than the text


class Cluster(Protocol):
    """Jobs. A cluster reads, adopts and ends only jobs with our installation's label, or with a uid on record.

    `uids` are the uids on record, which find a job even if its labels were edited.
    """

    def deploy(self, request: DeploymentRequest) -> Deployment:
        """Make at most one job per key, for ever. Conflict if the key was used for another request."""

    def look(
        self,
        run_uid: str,
        watched: Collection[JobKey] = (),
        tasks: Collection[int] | None = None,
        *,
        uids: Uids = NO_UIDS,
    ) -> Look:
        """Look at all jobs of the run. Invisible jobs make the look incomplete and raise no error.

        `watched`: jobs believed alive, whose details and absence matter. `tasks`: look at the jobs of these tasks only,
        in every attempt.
        """

    def inventory(self) -> Iterator[Sequence[ListedJob]]:
        """List all jobs of the installation, in pages. A job may be listed twice. TemporaryError if a page cannot be
        read, since the earlier pages are no full list.
        """

    def evidence(self, run_uid: str, jobs: Sequence[JobKey], *, hurried: bool = False) -> list[TaskEvidence]:
        """Return the evidence about the jobs; a job without evidence is left out. `hurried`: read only for seconds."""

    def stop(
        self,
        run_uid: str,
        jobs: Sequence[JobKey],
        *,
        uids: Uids = NO_UIDS,
        hurried: bool = False,
        keep: KeepFacts = keep_no_facts,
    ) -> None:
        """Ask the jobs to end. An absent job is success. `hurried`: the jobs are killed next.

        `keep` gets the outcome facts, which the cluster would forget with the jobs, before the first request to end.
        Only jobs with a uid on record have such facts; unreadable facts delay no request.
        """

    def kill(
        self, run_uid: str, jobs: Sequence[JobKey], *, uids: Uids = NO_UIDS, keep: KeepFacts = keep_no_facts
    ) -> None:
        """End the jobs without asking. An absent job is success. `keep`: as in a stop."""

    def unreached(self, run_uid: str, jobs: Sequence[JobKey]) -> Mapping[JobKey, str]:
        """Return the living jobs on unreachable nodes, with their nodes: ended by force, the jobs may run on."""

    def remove(self, run_uid: str, jobs: Sequence[JobKey], *, uids: Uids = NO_UIDS) -> int:
        """Remove the jobs and earlier attempts of their tasks; their logs go to the run's files first.

        Return how many jobs have to stay for now, since a late copy of their request could make them anew. Jobs that
        run on stay, too, and do not count.
        """

    def log(self, run_uid: str, task: int, attempt: int, offset: int) -> LogChunk:
        """Return the task's log from the byte `offset` on; a negative offset counts from the end."""

    def changes(self) -> Iterator[set[str]]:
        """Yield the run_uids whose jobs changed, for ever, and an empty set now and then. Changes may be missed.

        TemporaryError, again and again, while changes cannot be followed; afterwards the iterator goes on."""

    def check(self) -> str:
        """Return a line about the cluster, or raise an error with the remedy."""


class Deployer(Protocol):
    """The scheduler service, ours or the company's."""

    def crawler(self, name: str) -> Crawler:
        """Return the catalogue's entry; BadInput for `crawler` if there is no entry."""

    def crawler_names(self) -> list[str]:
        """Return the crawlers' names in the catalogue."""

    def only_installation(self) -> str | None:
        """Return the UUID of the installation that the service serves. None: any installation, or not known."""

    def deploy(self, request: DeploymentRequest) -> Deployment:
        """Deploy. Refused if the request can never succeed, TemporaryError if its outcome is unknown."""

    def check(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Place:
    """A cluster's namespace, and the uids that distinguish the namespace from a namesake."""

    namespace: str
    namespace_uid: str
    cluster_uid: str | None = None  # the uid of the namespace kube-system; None: reading is not permitted


class Places(Protocol):
    def known(self) -> Place | None:
        """Return the place on record; None: there was no look at a job yet."""

    def keep(self, place: Place, instead_of: Place | None) -> None:
        """Record the new place if the old place is still on record; otherwise change no row."""


class PlacesInMemory:
    """Places in a process without a database, as long as the process lives."""

    def __init__(self, place: Place | None = None) -> None:
        self._place = place

    def known(self) -> Place | None:
        return self._place

    def keep(self, place: Place, instead_of: Place | None) -> None:
        if self._place == instead_of:
            self._place = place


@runtime_checkable
class KnowsItsPlace(Protocol):
    """A cluster that may be confused with another cluster."""

    def confirm(self) -> Place | None:
        """Return the place on record. TemporaryError if the present place is another one."""

    def accept_place(self) -> tuple[Place | None, Place]:
        """Record the present place. Return the earlier and the present place."""
