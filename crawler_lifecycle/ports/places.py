"""Port to the place of an installation's jobs: the namespace on record, which reveals a wrong kubeconfig."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable


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
