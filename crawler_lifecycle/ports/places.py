"""Where the jobs of an installation are, as the database remembers it."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class Place:
    """A namespace of a cluster, and the uids that tell it from another of the same name."""

    namespace: str
    namespace_uid: str
    cluster_uid: str | None = None  # of the namespace kube-system; None: it may not be read


class Places(Protocol):
    def known(self) -> Place | None:
        """Return the place on record; None: no job has ever been looked for."""

    def keep(self, place: Place, instead_of: Place | None) -> None:
        """Record this place if the other one is on record still; else change nothing."""


class PlacesInMemory:
    """Places of a process that has no database, as long as the process lives."""

    def __init__(self) -> None:
        self._place: Place | None = None

    def known(self) -> Place | None:
        return self._place

    def keep(self, place: Place, instead_of: Place | None) -> None:
        if self._place == instead_of:
            self._place = place


@runtime_checkable
class KnowsItsPlace(Protocol):
    """A cluster that another one may be taken for."""

    def confirm(self) -> None:
        """TemporaryError if this is not the place that the installation knows."""

    def accept_place(self) -> tuple[Place | None, Place]:
        """Record the present place. Return the one on record before, and the present one."""
