"""Comparison of the present namespace with the recorded place, the namespace that the installation knows.

With the kubeconfig of another cluster, a namespace with the same name shows none of our Jobs: all Jobs would seem
absent, and a stop would be proved while all jobs run. The namespace's uid shows the difference. If the uid differs, the
uid of kube-system decides: in the same cluster the namespace was made anew, and its old Jobs are gone. In another
cluster, or if kube-system cannot be read, absence proves no end.

`NamespaceCheck` compares for looks, with the recorded place in the database. `ConfirmedPlaces` compares for
deployments: the scheduler service has no database and serves several installations, so each request names its place.
"""

import time
from collections import OrderedDict
from dataclasses import dataclass
from threading import Lock

from crawler_lifecycle.clusters.kubernetes.http.answers import ApiFailed, Missing
from crawler_lifecycle.clusters.kubernetes.http.api import KubernetesApi
from crawler_lifecycle.clusters.kubernetes.http.decoding import NAMESPACES, Unreadable
from crawler_lifecycle.clusters.ports import JobsPlace, Places, PlacesInMemory
from crawler_lifecycle.errors import TemporaryError
from crawler_lifecycle.model.reasons import CLUSTER_FORBIDS, CLUSTER_UNAVAILABLE, NAMESPACE_CHANGED

CONFIRMED_SECONDS = 10.0  # a confirmed place is not compared again for this long
MOST_CONFIRMED = 16  # places; the earliest is forgotten first, so that ever new places do not fill the memory
CLUSTER = "kube-system"  # every cluster has this namespace from its beginning to its end
# remedies in messages: for the scheduler service, and for all other parts
CORRECT_KUBECONFIG = "no job is created: give the scheduler service the kubeconfig and the namespace of the other parts"
ACCEPT_NAMESPACE = (
    "if this cluster is the right one, and jobs that it does not show are gone: `crawlctl accept-namespace`"
)


@dataclass(frozen=True, slots=True)
class NamespaceCheck:
    """Compares the present namespace with the recorded place in `places`; `remedy` ends the error's message."""

    api: KubernetesApi
    places: Places
    remedy: str = ACCEPT_NAMESPACE

    def check(self, *, record: bool = True) -> bool:
        """Raise TemporaryError if absence proves no end: the namespace does not exist, is being deleted, or is foreign.

        A namespace is foreign if its uid is not the recorded uid, unless the namespace was made anew in the recorded
        cluster. Return True if absence proves an end; False if the namespace shows no uid, so that nothing could be
        compared. `record`: the first namespace ever read, or a namespace made anew, becomes the recorded place.
        """
        on_record, present = self.places.known(), self._present_place()
        if present is None:
            return False
        if on_record and (on_record.namespace, on_record.namespace_uid) == (present.namespace, present.namespace_uid):
            return True
        present = self._with_cluster_uid(present)
        if on_record is None or _was_made_anew(on_record, present):
            if record:
                self.places.keep(present, on_record)
            return True
        difference = _difference(on_record, present)
        message = f"{_words(present)} is not the {_words(on_record)} that this installation knows, {difference}"
        raise TemporaryError(f"{message}: nothing in it counts as absent; {self.remedy}", cause=NAMESPACE_CHANGED)

    def is_confirmed(self, *, record: bool = True) -> bool:
        """Return what `check` returns, but raise an error only for a foreign namespace.

        False also if the namespace does not exist, is being deleted or cannot be read: the next request reports this.
        """
        try:
            return self.check(record=record)
        except TemporaryError as error:
            if error.cause == NAMESPACE_CHANGED:
                raise
            return False

    def accept(self) -> tuple[JobsPlace | None, JobsPlace]:
        """Record the present place. Return the previously recorded place, and the present place."""
        present = self._present_place()
        if present is None:
            raise TemporaryError(f"namespace {self.api.namespace} does not report its uid")
        on_record, present = self.places.known(), self._with_cluster_uid(present)
        self.places.keep(present, on_record)
        return on_record, present

    def _present_place(self) -> JobsPlace | None:
        """Return the present namespace, without its cluster's uid; None if the namespace shows no uid.

        Raise TemporaryError if the namespace does not exist, or is not active.
        """
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
        return JobsPlace(name, namespace.metadata.uid) if namespace.metadata.uid else None

    def _with_cluster_uid(self, place: JobsPlace) -> JobsPlace:
        """Return the place with the uid of kube-system, or unchanged if kube-system cannot be read."""
        try:
            uid = NAMESPACES.item(self.api.get(self.api.namespace_path(CLUSTER))).metadata.uid
        except (ApiFailed, Missing, Unreadable):
            return place
        return JobsPlace(place.namespace, place.namespace_uid, uid or None)


class ConfirmedPlaces:
    """Places that the API server confirmed in the last seconds: thirty deployers at once need not compare namespaces
    thirty times a second.
    """

    def __init__(self, api: KubernetesApi) -> None:
        self._api = api
        self._until: OrderedDict[JobsPlace, float] = OrderedDict()
        self._lock = Lock()

    def must_be_present(self, expected: JobsPlace) -> None:
        """Raise TemporaryError unless the API server shows this place now, or did less than CONFIRMED_SECONDS ago.

        A namespace made anew in the same cluster counts as the expected place, as in every `check`. Every place is
        compared alone, with a record of its own: a wrong place in one request must not refute other requests' places.
        """
        if expected in self:
            return
        try:
            shows_its_uid = NamespaceCheck(self._api, PlacesInMemory(expected), CORRECT_KUBECONFIG).check()
        except Unreadable as error:
            raise _unconfirmed(expected, error.message) from error
        except ApiFailed as error:
            cause = CLUSTER_FORBIDS if error.status in (401, 403) else CLUSTER_UNAVAILABLE
            raise _unconfirmed(expected, error.message, cause) from error
        if not shows_its_uid:
            raise _unconfirmed(expected, "the answer holds no uid")
        self.add(expected)

    def add(self, place: JobsPlace) -> None:
        with self._lock:
            self._until[place] = time.monotonic() + CONFIRMED_SECONDS
            self._until.move_to_end(place)
            if len(self._until) > MOST_CONFIRMED:
                self._until.popitem(last=False)

    def __contains__(self, place: JobsPlace) -> bool:
        with self._lock:
            return time.monotonic() < self._until.get(place, 0.0)


def _unconfirmed(expected: JobsPlace, problem: str, cause: str = CLUSTER_UNAVAILABLE) -> TemporaryError:
    return TemporaryError(f"no job is created while {_words(expected)} cannot be read: {problem}", cause=cause)


def _was_made_anew(on_record: JobsPlace, present: JobsPlace) -> bool:
    """Return whether the present namespace replaces its namesake in the same cluster; False if a cluster is unknown."""
    is_same_cluster = on_record.cluster_uid is not None and on_record.cluster_uid == present.cluster_uid
    return is_same_cluster and on_record.namespace == present.namespace


def _words(place: JobsPlace) -> str:
    return f"namespace {place.namespace} ({place.namespace_uid})"


def _difference(on_record: JobsPlace, present: JobsPlace) -> str:
    if present.cluster_uid is None or on_record.cluster_uid is None:
        return f"and {CLUSTER} could not be read to learn whether it is in the same cluster"
    return "of the same cluster" if present.cluster_uid == on_record.cluster_uid else "and is of another cluster"
