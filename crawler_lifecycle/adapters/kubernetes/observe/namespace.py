"""The namespace of the jobs, compared with the namespace that the installation knows.

With the kubeconfig of another cluster, a namespace with the same name shows none of our Jobs: all Jobs would seem gone,
and a stop would be proved while all jobs run. The namespace's uid shows the difference. If the uid differs, the uid of
kube-system decides: in the same cluster the namespace was made anew, and its old Jobs are gone. In another cluster, or
if kube-system cannot be read, absence proves no end.

The scheduler service has no database, and serves several installations: each of its requests names the namespace that
the installation knows, and is compared alone.

`Absence` checks Jobs that a list does not show. A Job is absent only if the API server denies the Job by its name.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Lock

from crawler_lifecycle.adapters.kubernetes.http.answers import ApiFailed, Missing
from crawler_lifecycle.adapters.kubernetes.http.api import PAGE, Api
from crawler_lifecycle.adapters.kubernetes.http.decoding import JOBS, METADATA, NAMESPACES, Unreadable
from crawler_lifecycle.adapters.kubernetes.naming import METADATA_LIST
from crawler_lifecycle.adapters.kubernetes.objects import Job
from crawler_lifecycle.domain.reasons import CLUSTER_FORBIDS, CLUSTER_UNAVAILABLE, NAMESPACE_CHANGED
from crawler_lifecycle.errors import TemporaryError
from crawler_lifecycle.ports import Place, Places, PlacesInMemory

CONFIRMED_SECONDS = 10.0  # after a comparison, before the next
MOST_CONFIRMED = 16  # a wrong place in every request must not fill the memory
CLUSTER = "kube-system"  # every cluster has this namespace from its beginning to its end
# remedies in messages: for the scheduler service, and for all other parts
CORRECT_KUBECONFIG = "no job is created: give the scheduler service the kubeconfig and the namespace of the other parts"
ACCEPT_NAMESPACE = (
    "if this cluster is the right one, and jobs that it does not show are gone: `crawlctl accept-namespace`"
)


@dataclass(frozen=True, slots=True)
class NamespaceCheck:
    api: Api
    places: Places
    remedy: str = ACCEPT_NAMESPACE

    def check(self, *, keep: bool = True) -> bool:
        """Raise TemporaryError if absence proves no end: the namespace is gone, being deleted, or unknown.

        Return False if the namespace tells no uid to compare. `keep`: record a namespace that appears for the first
        time.
        """
        known, seen = self.places.known(), self._namespace()
        if seen is None:
            return False
        if known and (known.namespace, known.namespace_uid) == (seen.namespace, seen.namespace_uid):
            return True
        present = self._with_cluster(seen)
        if known is None or (known.namespace == seen.namespace and _is_the_same_cluster(known, present)):
            if keep:
                self.places.keep(present, known)
            return True
        message = f"{_words(present)} is not the {_words(known)} that this installation knows, {_why(known, present)}"
        raise TemporaryError(f"{message}: nothing in it counts as absent; {self.remedy}", cause=NAMESPACE_CHANGED)

    def is_confirmed(self, *, keep: bool = True) -> bool:
        """Run the same check, but raise only for another namespace than the namespace on record.

        False: the namespace cannot be read, and the next request reports the trouble.
        """
        try:
            return self.check(keep=keep)
        except TemporaryError as error:
            if error.cause == NAMESPACE_CHANGED:
                raise
            return False

    def accept(self) -> tuple[Place | None, Place]:
        """Record the present namespace. Return the namespace on record before, and the present namespace."""
        seen = self._namespace()
        if seen is None:
            raise TemporaryError(f"namespace {self.api.namespace} does not tell its uid")
        known, present = self.places.known(), self._with_cluster(seen)
        self.places.keep(present, known)
        return known, present

    def _namespace(self) -> Place | None:
        """Return the active namespace; None if its uid is missing."""
        name = self.api.namespace
        try:
            namespace = NAMESPACES.item(self.api.get(self.api.namespace_path()))
        except Missing as error:
            problem = f"there is no namespace {name}: is this the right cluster?"
            raise TemporaryError(problem, cause=CLUSTER_FORBIDS) from error
        phase = namespace.status.phase if namespace.status else None
        if namespace.metadata.deletion_timestamp or phase != "Active" or namespace.metadata.name != name:
            problem = f"namespace {name} is not active ({phase}): nothing in it counts as absent"
            raise TemporaryError(problem, cause=CLUSTER_FORBIDS)
        return Place(name, namespace.metadata.uid) if namespace.metadata.uid else None

    def _with_cluster(self, seen: Place) -> Place:
        try:
            uid = NAMESPACES.item(self.api.get(self.api.namespace_path(CLUSTER))).metadata.uid
        except (ApiFailed, Missing, Unreadable):
            return seen
        return Place(seen.namespace, seen.namespace_uid, uid or None)


class ConfirmedPlaces:
    """Places that the API server confirmed in the last seconds: thirty deployers at once need not compare namespaces
    thirty times a second.
    """

    def __init__(self, api: Api) -> None:
        self._api = api
        self._until: OrderedDict[Place, float] = OrderedDict()
        self._lock = Lock()

    def must_be_present(self, expected: Place) -> None:
        """Raise TemporaryError unless the API server shows this place now, or did a few seconds ago.

        Every place is compared alone: a request with a wrong place must not refute another request's place.
        """
        if expected in self:
            return
        try:
            tells_its_uid = NamespaceCheck(self._api, PlacesInMemory(expected), CORRECT_KUBECONFIG).check()
        except Unreadable as error:
            raise _unconfirmed(expected, error.message) from error
        except ApiFailed as error:
            cause = CLUSTER_FORBIDS if error.status in (401, 403) else CLUSTER_UNAVAILABLE
            raise _unconfirmed(expected, error.message, cause) from error
        if not tells_its_uid:
            raise _unconfirmed(expected, "the answer holds no uid")
        self.add(expected)

    def add(self, place: Place) -> None:
        with self._lock:
            self._until[place] = time.monotonic() + CONFIRMED_SECONDS
            self._until.move_to_end(place)
            if len(self._until) > MOST_CONFIRMED:
                self._until.popitem(last=False)

    def __contains__(self, place: Place) -> bool:
        with self._lock:
            return time.monotonic() < self._until.get(place, 0.0)


def _unconfirmed(expected: Place, problem: str, cause: str = CLUSTER_UNAVAILABLE) -> TemporaryError:
    return TemporaryError(f"no job is created while {_words(expected)} cannot be read: {problem}", cause=cause)


def _is_the_same_cluster(known: Place, present: Place) -> bool:
    return known.cluster_uid is not None and known.cluster_uid == present.cluster_uid


def _words(place: Place) -> str:
    return f"namespace {place.namespace} ({place.namespace_uid})"


def _why(known: Place, present: Place) -> str:
    if present.cluster_uid is None or known.cluster_uid is None:
        return f"and {CLUSTER} could not be read to tell whether it is in the same cluster"
    return "of the same cluster" if present.cluster_uid == known.cluster_uid else "and is of another cluster"


MOST_BY_NAME = 20  # for more missing Jobs, a list of all names takes fewer requests
THREADS = 4
NAMES_IN_A_PAGE = 10 * PAGE  # metadata is small: pages as short as for whole Jobs would double the number of lists

Pages = Callable[..., Iterator[bytes]]  # the signature of `Api.pages`
Uids = Mapping[str, str | None]  # uids on record by the Jobs' names


@dataclass(frozen=True, slots=True)
class Absence:
    """Check by name for Jobs missing in a list by labels."""

    api: Api
    namespace: NamespaceCheck
    pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(THREADS, thread_name_prefix="by-name"))

    def present(self, uids: Uids, pages: Pages) -> Iterator[tuple[str, Job | None]]:
        """Yield name and Job for every Job that exists after all. The Job is None if the Job cannot be read."""
        self.namespace.check()
        candidates = list(uids) if len(uids) <= MOST_BY_NAME else self._listed_names(uids, pages)
        reads = self.pool.map(self._read, candidates) if len(candidates) > 1 else map(self._read, candidates)
        for name, (exists, job) in zip(candidates, reads, strict=True):
            if exists:
                yield name, job

    def _read(self, name: str) -> tuple[bool, Job | None]:
        """Return whether the Job exists, and the Job unless it is unreadable."""
        try:
            return True, JOBS.item(self.api.get(self.api.jobs_path(name)))
        except Missing:
            return False, None
        except Unreadable:
            return True, None

    def _listed_names(self, uids: Uids, pages: Pages) -> list[str]:
        """Return the names that a list of all Jobs shows, with or without our labels: users may have edited labels.

        A Job with another uid than the uid on record only shares the name.
        """
        listed: dict[str, str] = {}
        for body in pages(self.api.jobs_path(), {"limit": NAMES_IN_A_PAGE}, accept=METADATA_LIST):
            page = METADATA.page(body)
            listed.update((item.metadata.name, item.metadata.uid) for item in page.whole)
            listed.update((item.name, item.uid) for item in page.broken)
        if "" in listed:
            raise Unreadable("the namespace has a Job without a name: what is absent cannot be told")
        return [name for name, uid in uids.items() if name in listed and not (uid and listed[name] not in ("", uid))]
