"""Port for announcements of flows' ends."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from crawler_lifecycle.contract.flows.announcements import FlowEnd


class Delivery(StrEnum):
    """Delivery for an end."""

    NOTICE = "notice"
    EVENT = "event"


@dataclass(frozen=True, slots=True)
class OwedEnd:
    """A recorded end with deliveries still to make."""

    end: FlowEnd
    owed: frozenset[Delivery]


@dataclass(frozen=True, slots=True)
class UnannouncedFlow:
    """An ended flow with a pending delivery."""

    uid: str
    id: str
    ended_at: datetime
    problem: str | None  # the last failure; None: no delivery has failed


class FlowEnds(Protocol):
    """Announcements of flows' ends. An end is recorded as pending in the same transaction as the flow's final state."""

    def owed(self, flow_uid: str) -> list[OwedEnd]:
        """Return the flow's ends with pending deliveries, by number."""

    def settle(self, flow_uid: str, end: int, settled: Sequence[Delivery], problems: Mapping[Delivery, str]) -> None:
        """Write a try to announce the end: deliveries made or refused for good, and problems by delivery.

        The timeline has the first problem, and a later delivery. Nothing is written if the flow was pruned.
        """

    def unannounced(self, since: datetime, before: datetime, *, after: str = "", limit: int) -> list[UnannouncedFlow]:
        """Return a page with ended flows with a pending delivery for an end between the times, by uid, for the audit.

        `after`: the last uid on the previous page.
        """
