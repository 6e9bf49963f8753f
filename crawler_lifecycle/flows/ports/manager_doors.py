"""Port for people and doors: the items of the crawl managers in a flow."""

from collections.abc import Collection, Mapping
from typing import Protocol

from crawler_lifecycle.flows.model.item_filter import ALL_ITEMS, ItemFilter
from crawler_lifecycle.flows.model.item_requests import AddItems, CancelItems, RetryItems
from crawler_lifecycle.flows.model.manager_records import ItemAttempt, ItemRecord, ItemSums, ManagerStatus, OutputLine
from crawler_lifecycle.flows.model.turns import Counts
from crawler_lifecycle.flows.ports.ledger import DoorAnswer


class ManagerDoors(Protocol):
    """Requests for managers' items, and readings of the items. `flow` is the flow's id.

    Each request is one transaction. NotFound without such a flow, BadInput without such a manager.
    """

    def add_items(self, flow: str, request: AddItems) -> DoorAnswer:
        """Add items after the delayed items. Conflict if the manager has ended."""

    def retry_items(self, flow: str, request: RetryItems) -> DoorAnswer:
        """Give settled items another attempt. Conflict for the moment between a manager's close and its step's end."""

    def cancel_items(self, flow: str, request: CancelItems) -> DoorAnswer: ...

    def items(self, flow: str, chosen: ItemFilter = ALL_ITEMS, *, after: int = 0, limit: int) -> list[ItemRecord]:
        """Return a page with items, by number. `after`: the last number on the previous page."""

    def statuses(self, flow: str) -> list[ManagerStatus]:
        """Return the flow's managers in their order; an empty list for a flow without a manager."""

    def sums(self, flow_uids: Collection[str]) -> Mapping[str, ItemSums]:
        """Return the sums over the items of all managers by flow. Flows without a manager that began are left out."""

    def item_attempts(self, flow: str, number: int, manager: str | None = None) -> list[ItemAttempt]:
        """Return the item's attempts in their order. NotFound for an unknown item."""

    def output(self, flow: str, manager: str | None = None) -> list[OutputLine]:
        """Return the last lines that the manager's object has printed or logged."""

    def item_counts(self, flow: str, manager: str | None = None) -> Counts: ...

    def runs_under_way(self, flow: str) -> list[int]:
        """Return the RunIDs of all crawls under way of the flow's managers."""
