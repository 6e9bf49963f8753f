"""KubernetesCluster fulfils the port `Cluster`, and its part `KnowsItsPlace`, for a Kubernetes namespace.

Each method hands its work to a class of `act`, `observe` or `logs`. `clusters/ports.py` says what the methods promise.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from crawler_lifecycle.clusters.kubernetes.act.deploying import Deploying
from crawler_lifecycle.clusters.kubernetes.act.job_spec import PodSettings
from crawler_lifecycle.clusters.kubernetes.act.removal import Removing
from crawler_lifecycle.clusters.kubernetes.act.stopping import JobStopping, Reaching
from crawler_lifecycle.clusters.kubernetes.http.api import KubernetesApi
from crawler_lifecycle.clusters.kubernetes.http.connection import ApiAccess
from crawler_lifecycle.clusters.kubernetes.http.decoding import METADATA
from crawler_lifecycle.clusters.kubernetes.http.server_checks import AcceptedVersion, checked_version, missing_rights
from crawler_lifecycle.clusters.kubernetes.logs.evidence import Collecting
from crawler_lifecycle.clusters.kubernetes.logs.follower import Listening
from crawler_lifecycle.clusters.kubernetes.logs.store import Logs
from crawler_lifecycle.clusters.kubernetes.naming import METADATA_LIST, selector
from crawler_lifecycle.clusters.kubernetes.observe.changes import Changes
from crawler_lifecycle.clusters.kubernetes.observe.job_status import deciding_pod, end_of
from crawler_lifecycle.clusters.kubernetes.observe.jobs import Jobs, inventory
from crawler_lifecycle.clusters.kubernetes.observe.looking import PATIENT, JobPatience, Observer
from crawler_lifecycle.clusters.kubernetes.observe.namespace import ConfirmedPlaces, NamespaceCheck
from crawler_lifecycle.clusters.kubernetes.observe.pods import has_ended
from crawler_lifecycle.clusters.ports import (
    NO_UIDS,
    JobsPlace,
    KeepFacts,
    LogChunk,
    Places,
    PlacesInMemory,
    Uids,
    keep_no_facts,
)
from crawler_lifecycle.errors import NotFound, NotReady, Refused
from crawler_lifecycle.model.deployment import Deployment, DeploymentRequest, JobNamespace
from crawler_lifecycle.model.looks import JobKey, JobLook, Look
from crawler_lifecycle.model.supervision import ListedJob
from crawler_lifecycle.model.task_changes import TaskEvidence


@dataclass(frozen=True, slots=True)
class LogStorage:
    """Storage for the logs of jobs that leave the cluster."""

    files: Path  # the folder with a folder of files for each run
    most_bytes: int = 64 << 20  # per log; the rest of a longer log is not kept


class KubernetesCluster:
    """Jobs of an installation in a Kubernetes namespace; without `installation` the jobs of all installations.

    `places` records the installation's namespace. None: this process has no database, as the scheduler service.
    """

    records_stay = False

    def __init__(
        self,
        access: ApiAccess,
        installation: str | None,
        pods: PodSettings,
        log_storage: LogStorage,
        patience: JobPatience = PATIENT,
        places: Places | None = None,
    ) -> None:
        self._api = KubernetesApi(access)
        self._installation = installation
        # every part gets a `Jobs` with threads of its own: slow logs of nodes delay no stop, and a stop delays no kill
        new_jobs = partial(Jobs, self._api, installation)
        self._jobs = new_jobs()
        self._logs = Logs(self._api, log_storage.files.absolute(), log_storage.most_bytes)
        self._deploying = Deploying(self._api, pods)
        self._version = AcceptedVersion(self._api)
        self._places = places
        # without a database, looks are compared with the namespace that this process saw first
        places_for_looks = places or PlacesInMemory()
        self._namespace = NamespaceCheck(self._api, places_for_looks)
        self._confirmed = ConfirmedPlaces(self._api)
        self._observer = Observer(self._api, installation, patience, places_for_looks)
        listening = Listening(self._logs)
        self._stopping, self._killing = JobStopping(new_jobs(), listening), JobStopping(new_jobs(), listening)
        self._reaching = Reaching(new_jobs(), self._logs)
        self._removing = Removing(new_jobs(), self._logs, listening)
        self._collecting = Collecting(new_jobs(), self._logs, listening)
        self._collecting_hurried = Collecting(new_jobs(), self._logs, listening)

    def deploy(self, request: DeploymentRequest) -> Deployment:
        if self._installation not in (None, request.installation):
            raise Refused(f"installation: this cluster runs jobs of {self._installation}, not {request.installation}")
        # the scheduler service compares with the request's namespace, all other processes with the recorded namespace
        expected = _place_of(request.namespace) if request.namespace else self.confirm()
        if expected is not None:
            self._confirmed.must_be_present(expected)
        self._version.must_be_accepted()
        return self._deploying.deploy(request)

    def confirm(self) -> JobsPlace | None:
        """Return the recorded place; None without a database.

        Raise TemporaryError if the present namespace differs from the recorded place. If the namespace cannot be read,
        return the place unconfirmed: `deploy` compares again. The first namespace read becomes the recorded place.
        """
        if self._places is None:
            return None
        place = self._places.known()
        if place is not None and place in self._confirmed:
            return place
        is_confirmed = self._namespace.is_confirmed()
        place = self._places.known()  # again: the comparison may have recorded the first place
        if is_confirmed and place is not None:
            self._confirmed.add(place)
        return place

    def accept_place(self) -> tuple[JobsPlace | None, JobsPlace]:
        """Record the present namespace for this installation. Return the previous and the present namespace."""
        return self._namespace.accept()

    def look(
        self,
        run_uid: str,
        watched: Collection[JobKey] = (),
        tasks: Collection[int] | None = None,
        *,
        uids: Uids = NO_UIDS,
    ) -> Look:
        return self._observer.look(run_uid, watched, tasks, uids)

    def inventory(self) -> Iterator[Sequence[ListedJob]]:
        return inventory(self._api, self._installation)

    def evidence(self, run_uid: str, jobs: Sequence[JobKey], *, hurried: bool = False) -> list[TaskEvidence]:
        collecting = self._collecting_hurried if hurried else self._collecting
        return collecting.evidence(run_uid, jobs, hurried=hurried)

    def stop(
        self,
        run_uid: str,
        jobs: Sequence[JobKey],
        *,
        uids: Uids = NO_UIDS,
        hurried: bool = False,
        keep: KeepFacts = keep_no_facts,
    ) -> dict[JobKey, str]:
        return self._stopping.ask(run_uid, jobs, uids, hurried=hurried, keep=keep)

    def give_up(self, run_uid: str, jobs: Sequence[JobLook]) -> set[JobKey]:
        return self._stopping.give_up(run_uid, jobs)

    def kill(
        self, run_uid: str, jobs: Sequence[JobKey], *, uids: Uids = NO_UIDS, keep: KeepFacts = keep_no_facts
    ) -> None:
        self._killing.kill(run_uid, jobs, uids, keep)

    def unreached(self, run_uid: str, jobs: Sequence[JobKey]) -> dict[JobKey, str]:
        return self._reaching.unreached(run_uid, jobs)

    def remove(self, run_uid: str, jobs: Sequence[JobKey], *, uids: Uids = NO_UIDS) -> int:
        return self._removing.remove(run_uid, jobs, uids)

    def log(self, run_uid: str, task: int, attempt: int, offset: int) -> LogChunk:
        key = (task, attempt)
        if kept := self._logs.read_kept(run_uid, task, attempt, offset):
            return kept
        # The Job is read before the log. If the job ends in between, the chunk does not count as the log's end, and the
        # reader calls once more; in the other order the reader would miss the last lines.
        job = self._jobs.read_job(run_uid, key)
        pods = self._jobs.pods(run_uid, [key]).get(key, [])
        if job is None and not pods:
            raise NotFound(f"run {run_uid} has no job of task {task}, attempt {attempt}, in this cluster")
        job_has_ended = job is not None and end_of(job.status) is not None
        pod = deciding_pod(job, pods)
        if pod is None:
            return LogChunk("", max(offset, 0), job_has_ended)
        return self._logs.chunk(pod, offset, ended=job_has_ended or has_ended(pod))

    def changes(self) -> Iterator[set[str]]:
        return Changes(self._api, self._installation)

    def check(self) -> str:
        """Return a line about the cluster after reading a small list: the API server answers, and lets us list jobs.

        With a database, raise TemporaryError if the namespace differs from the recorded place. Without a database,
        `deploy` compares each request alone: a single wrong request must not take the service from all callers.
        """
        if self._places is not None:
            self._namespace.is_confirmed(record=False)  # for its error about a foreign namespace
        query: dict[str, str | int] = {"limit": 1, "labelSelector": selector(self._installation)}
        page = METADATA.page(next(self._api.pages(self._api.jobs_path(), query, accept=METADATA_LIST)))
        jobs = "jobs of ours in it" if page.whole or page.broken else "no jobs of ours in it"
        clocks, version = self._api.clock.words(), checked_version(self._api)
        return f"Kubernetes at {self._api.host}, {version}, namespace {self._api.namespace}, {jobs}, {clocks}"

    def check_rights(self) -> str:
        """Return a line if no right is missing. Otherwise raise NotReady with the missing rights and the remedy."""
        missing = missing_rights(self._api, self._jobs.pool)
        if not missing:
            return f"all that is needed in namespace {self._api.namespace}"
        rights = ", ".join(f"{right} ({right.purpose})" for right in missing)
        remedy = "apply your overlay of deploy/kubernetes again: `kubectl apply --server-side -k ...`"
        raise NotReady(f"missing in namespace {self._api.namespace}: {rights}; {remedy}")


def _place_of(namespace: JobNamespace) -> JobsPlace:
    return JobsPlace(namespace.name, namespace.uid, namespace.cluster_uid)
