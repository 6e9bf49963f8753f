"""Growth of a group: members for a crawl's tasks."""

from dataclasses import replace

from sqlalchemy import Connection, select, update

from crawler_lifecycle.adapters.sql.flow_door import Door
from crawler_lifecycle.adapters.sql.flow_locks import OnFlows
from crawler_lifecycle.adapters.sql.flow_reading import lock_in_flight, read_ledger
from crawler_lifecycle.adapters.sql.flow_rows import groups
from crawler_lifecycle.adapters.sql.flow_schema import flow_groups
from crawler_lifecycle.adapters.sql.transactions import transaction
from crawler_lifecycle.contract.flows.definition import GroupDefinition
from crawler_lifecycle.contract.flows.requests import FlowRequest
from crawler_lifecycle.domain.flows import merging
from crawler_lifecycle.domain.flows.messages import GrowGroup
from crawler_lifecycle.domain.words import counted
from crawler_lifecycle.errors import NotFound

BY_SUPERVISOR = FlowRequest(door="flow")


class FlowGrowth(OnFlows):
    """The method in `ports.FlowLedger` for growth."""

    @transaction
    def grow(self, tx: Connection, step: GrowGroup) -> None:
        head = self.lock_for_supervisor(tx, step.flow)
        lock_in_flight(tx, head.id)
        door = Door(tx, head, read_ledger(tx, head), self._db.clock(), BY_SUPERVISOR)
        group = door.ledger.groups.get(step.group)
        if group is None:
            raise NotFound(f"flow {head.flow_id!r} has no sub-workflow with the number {step.group}")
        if group.expected >= step.expected:
            return
        grown = replace(group, expected=step.expected)
        this_group = (groups.flow == head.id, groups.number == step.group)
        text = tx.scalar(select(groups.definition).where(*this_group))
        definition = GroupDefinition.model_validate_json(text or "")
        door.ledger.put(groups=[grown])
        merged = merging.grow(door.ledger, grown, definition, door.at)
        door.merge(merged)
        tx.execute(update(flow_groups).where(*this_group).values(expected=step.expected, door=door.number))
        door.log("grown", f"added {counted(len(merged.members), 'job')} for the tasks of {definition.grower!r}")
