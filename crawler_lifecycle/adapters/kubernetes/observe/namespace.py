"""The namespace of the jobs, compared with the namespace that the installation knows.

With the kubeconfig of another cluster, a namespace with the same name shows none of our Jobs: all Jobs would seem gone,
and a stop would be proved while all jobs run. The namespace's uid shows the difference. If the uid differs, the uid of
kube-system shows whether the same cluster has a new namespace.
"""

from dataclasses import dataclass

from crawler_lifecycle.adapters.kubernetes.http.answers import ApiFailed, Missing
from crawler_lifecycle.adapters.kubernetes.http.api import Api
from crawler_lifecycle.adapters.kubernetes.http.decoding import NAMESPACES, Unreadable
from crawler_lifecycle.domain.reasons import NAMESPACE_CHANGED
from crawler_lifecycle.errors import TemporaryError
from crawler_lifecycle.ports import Place, Places

CLUSTER = "kube-system"  # every cluster has this namespace from its beginning to its end
CORRECT = "no job is created: give the scheduler service the kubeconfig and the namespace of the other parts"
ACCEPT = "if this cluster is the right one, and jobs that it does not show are gone: `crawlctl accept-namespace`"


@dataclass(frozen=True, slots=True)
class NamespaceCheck:
    api: Api
    places: Places
    remedy: str = ACCEPT

    def check(self, *, keep: bool = True) -> None:
        """Raise TemporaryError if absence proves no end: the namespace is gone, being deleted, or unknown.

        `keep`: record a namespace that appears for the first time.
        """
        known, seen = self.places.known(), self._namespace()
        if seen is None or (known and (known.namespace, known.namespace_uid) == (seen.namespace, seen.namespace_uid)):
            return
        present = self._with_cluster(seen)
        if known is None or (known.namespace == seen.namespace and _is_the_same_cluster(known, present)):
            if keep:
                self.places.keep(present, known)
            return
        message = f"{_words(present)} is not the {_words(known)} that this installation knows, {_why(known, present)}"
        raise TemporaryError(f"{message}: nothing in it counts as absent; {self.remedy}", cause=NAMESPACE_CHANGED)

    def check_if_readable(self, *, keep: bool = True) -> None:
        """Run the same check, but only object to an unknown namespace: the next request reports other trouble."""
        try:
            self.check(keep=keep)
        except TemporaryError as error:
            if error.cause == NAMESPACE_CHANGED:
                raise

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
            namespace = NAMESPACES.item(self.api.get(self.api.core()))
        except Missing as error:
            raise TemporaryError(f"there is no namespace {name}: is this the right cluster?") from error
        phase = namespace.status.phase if namespace.status else None
        if namespace.metadata.deletion_timestamp or phase != "Active" or namespace.metadata.name != name:
            raise TemporaryError(f"namespace {name} is not active ({phase}): nothing in it counts as absent")
        return Place(name, namespace.metadata.uid) if namespace.metadata.uid else None

    def _with_cluster(self, seen: Place) -> Place:
        try:
            uid = NAMESPACES.item(self.api.get(self.api.namespaces(CLUSTER))).metadata.uid
        except (ApiFailed, Missing, Unreadable):
            return seen
        return Place(seen.namespace, seen.namespace_uid, uid or None)


def _is_the_same_cluster(known: Place, present: Place) -> bool:
    return known.cluster_uid is not None and known.cluster_uid == present.cluster_uid


def _words(place: Place) -> str:
    return f"namespace {place.namespace} ({place.namespace_uid})"


def _why(known: Place, present: Place) -> str:
    if present.cluster_uid is None or known.cluster_uid is None:
        return f"and {CLUSTER} could not be read to tell whether it is in the same cluster"
    return "of the same cluster" if present.cluster_uid == known.cluster_uid else "and is of another cluster"
