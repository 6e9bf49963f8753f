"""Ports to clusters, to the scheduler service, and to the recorded place for an installation's jobs.

The place is a namespace with its uid. The record reveals a wrong kubeconfig: the namespace of another cluster has
another uid.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from crawler_lifecycle.model.deployment import Crawler, Deployment, DeploymentRequest, ManagerEntry
from crawler_lifecycle.model.looks import JobKey, JobLook, Look, OutcomeFacts
from crawler_lifecycle.model.supervision import ListedJob
from crawler_lifecycle.model.task_changes import TaskEvidence

Uids = Mapping[JobKey, str]  # the jobs' uids in the database, by task and attempt
NO_UIDS: Uids = {}
KeepFacts = Callable[[Mapping[JobKey, OutcomeFacts]], None]  # records outcome facts, by job


def keep_no_facts(facts: Mapping[JobKey, OutcomeFacts]) -> None:
    """Drop the facts: the caller's next look records them."""


@dataclass(frozen=True, slots=True)
class LogChunk:
    """Part from a task's log."""

    text: str
    offset: int  # byte in the log from which to continue reading
    ended: bool  # whether no further text will come
    read: int = 0  # bytes fetched from the cluster; a cluster may fetch far more than the text


@dataclass(frozen=True, slots=True)
class PlacesTaken:
    """Places in use, for a cluster with a fixed number."""

    taken: int
    total: int
    waiting: int  # jobs without a place


@runtime_checkable
class HasPlaces(Protocol):
    """A cluster with a fixed number of places, such as the local cluster."""

    def places(self) -> PlacesTaken: ...


class Cluster(Protocol):
    """An installation's jobs in Kubernetes, or as process groups in the local cluster.

    A cluster reads and ends only jobs with the installation's label, and jobs with a uid in `uids`: a recorded uid
    finds a job even if its labels were edited.
    """

    records_stay: bool  # whether ended jobs stay as records that take no room: then `remove` has nothing to do

    def deploy(self, request: DeploymentRequest) -> Deployment:
        """Return the job for the request's key, and make the job at the first request with the key.

        A key never has more than a single job. Conflict if the key was used for another request.
        """

    def look(
        self,
        run_uid: str,
        watched: Collection[JobKey] = (),
        tasks: Collection[int] | None = None,
        *,
        uids: Uids = NO_UIDS,
    ) -> Look:
        """Look at all the run's jobs. If jobs cannot be observed, the look is incomplete, and no error is raised.

        `watched`: jobs recorded as alive; the look reads their details, and confirms their absence. `tasks`:
        look only at these tasks' jobs, in every attempt; None: look at all tasks' jobs.
        """

    def inventory(self) -> Iterator[Sequence[ListedJob]]:
        """Yield all the installation's jobs, in pages. A job may be listed twice.

        TemporaryError if a page cannot be read: the earlier pages are no full list.
        """

    def evidence(self, run_uid: str, jobs: Sequence[JobKey], *, hurried: bool = False) -> list[TaskEvidence]:
        """Return the evidence about the jobs; a job without evidence is left out.

        `hurried`: read for some seconds only, and leave out slower evidence.
        """

    def stop(
        self,
        run_uid: str,
        jobs: Sequence[JobKey],
        *,
        uids: Uids = NO_UIDS,
        hurried: bool = False,
        keep: KeepFacts = keep_no_facts,
    ) -> Mapping[JobKey, str]:
        """Ask the jobs to end. An absent job counts as asked. `hurried`: the caller kills the jobs next.

        Return the jobs that another controller than the cluster's own runs, with the controller's name: their programs
        may run in another cluster, and outlive the jobs here.

        Before the first request to end, `keep` gets the outcome facts about jobs with a uid in `uids`: the cluster
        forgets the facts with the jobs. Unreadable facts delay no request.
        """

    def give_up(self, run_uid: str, jobs: Sequence[JobLook]) -> set[JobKey]:
        """End the jobs, which wait in vain, unless they have changed since the look. Return the jobs that are given up.

        The cluster gives up no job in doubt, and raises no error for it: the next look judges the job again.
        """

    def kill(
        self, run_uid: str, jobs: Sequence[JobKey], *, uids: Uids = NO_UIDS, keep: KeepFacts = keep_no_facts
    ) -> None:
        """End the jobs by force. An absent job counts as killed. `keep`: as in `stop`."""

    def unreached(self, run_uid: str, jobs: Sequence[JobKey]) -> Mapping[JobKey, str]:
        """Return the living jobs on silent nodes, with the node's name. Such jobs may outlive a kill."""

    def remove(self, run_uid: str, jobs: Sequence[JobKey], *, uids: Uids = NO_UIDS) -> int:
        """Remove the ended jobs, and earlier attempts' ended jobs. First copy their logs to the run's files.

        Return how many ended jobs have to stay for now, since a repeated deployment request that is still under way
        could make the jobs anew. Living jobs stay, too, and do not count.
        """

    def log(self, run_uid: str, task: int, attempt: int, offset: int) -> LogChunk:
        """Return the task's log from the byte `offset` on; a negative offset counts from the end."""

    def changes(self) -> Iterator[set[str]]:
        """Yield the run_uids with changed jobs, indefinitely, and an empty set as a sign of life. Changes may be
        missed.

        While changes cannot be followed, the iterator's every step raises TemporaryError; later the iterator continues.
        """

    def check(self) -> str:
        """Return a line about the cluster for people, or raise an error with the remedy."""


class Deployer(Protocol):
    """A scheduler service with the catalogue. The service makes jobs: our reference service, or a company's own."""

    def crawler(self, name: str) -> Crawler:
        """Return the catalogue's entry; BadInput for `crawler` if there is no entry."""

    def manager(self, name: str) -> ManagerEntry:
        """Return the entry of a crawl manager. BadInput if the catalogue has no such manager."""

    def crawler_names(self) -> list[str]:
        """Return the crawlers' names in the catalogue."""

    def only_installation(self) -> str | None:
        """Return the UUID of the installation that the service serves. None: any installation, or not known."""

    def deploy(self, request: DeploymentRequest) -> Deployment:
        """Return the job for the request. Refused: no job can ever be made. TemporaryError: the outcome is unknown."""

    def check(self) -> str:
        """Return a line about the service for people, or raise an error with the remedy."""


@dataclass(frozen=True, slots=True)
class JobsPlace:
    """A cluster's namespace, and the uids that distinguish the namespace from a namesake."""

    namespace: str
    namespace_uid: str
    cluster_uid: str | None = None  # uid of the namespace kube-system; None: the service may not read kube-system


class Places(Protocol):
    """The recorded place for the installation's jobs: the first place in use."""

    def known(self) -> JobsPlace | None:
        """Return the recorded place; None if no place is recorded yet."""

    def keep(self, place: JobsPlace, instead_of: JobsPlace | None) -> None:
        """Record the place if `instead_of` is still recorded (None: no place is). Otherwise change no row."""


class PlacesInMemory:
    """Places for a process without a database. The record lasts as long as the process."""

    def __init__(self, place: JobsPlace | None = None) -> None:
        self._place = place

    def known(self) -> JobsPlace | None:
        return self._place

    def keep(self, place: JobsPlace, instead_of: JobsPlace | None) -> None:
        if self._place == instead_of:
            self._place = place


@runtime_checkable
class KnowsItsPlace(Protocol):
    """A cluster where a wrong kubeconfig may lead to another cluster. The local cluster has no kubeconfig."""

    def confirm(self) -> JobsPlace | None:
        """Return the recorded place. TemporaryError if the cluster's present place differs."""

    def accept_place(self) -> tuple[JobsPlace | None, JobsPlace]:
        """Record the present place. Return the earlier place (None: no place was recorded) and the present place."""
