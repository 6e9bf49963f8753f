"""Pruning of ended flows with all their rows. Runs stay."""

from collections.abc import Collection
from datetime import datetime

from sqlalchemy import Connection, delete

from crawler_lifecycle.adapters.sql.flow_locks import OnFlows
from crawler_lifecycle.adapters.sql.flow_schema import (
    flow_appends,
    flow_attempts,
    flow_ends,
    flow_groups,
    flow_logs,
    flow_members,
    flow_results,
    flows,
)
from crawler_lifecycle.adapters.sql.flow_sights import has_run_to_read
from crawler_lifecycle.adapters.sql.manager_schema import manager_attempts, manager_items, manager_keys, managers
from crawler_lifecycle.adapters.sql.transactions import transaction
from crawler_lifecycle.errors import NotFound

# members first: an end of a step locks its member before the end writes a result
WITH_FLOW = (
    *(flow_members, flow_attempts, flow_results, flow_groups, flow_appends, flow_ends, flow_logs),
    *(managers, manager_items, manager_attempts, manager_keys),
)


class FlowPruning(OnFlows):
    """The method in `ports.FlowDoors` that deletes flows."""

    def prune(self, flow_uids: Collection[str], ended_before: datetime | None = None) -> int:
        return sum(self._prune(uid, ended_before) for uid in flow_uids)

    @transaction
    def _prune(self, tx: Connection, flow_uid: str, ended_before: datetime | None) -> bool:
        """Delete the flow if it has ended, and no run was reopened since. Return whether the flow was deleted."""
        try:
            head = self.lock(tx, flow_uid)
        except NotFound:
            return False
        if ended_before is not None and (head.stopped_at is None or head.stopped_at >= ended_before):
            return False  # the flow has ended again since
        if not head.state.is_final or has_run_to_read(tx, head.id, head.uid):
            return False
        for table in WITH_FLOW:
            tx.execute(delete(table).where(table.c.flow == head.id))
        tx.execute(delete(flows).where(flows.c.id == head.id))
        return True
