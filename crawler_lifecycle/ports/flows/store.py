"""The ports to the database that commands for flows need."""

from typing import Protocol

from crawler_lifecycle.ports.flows.ledger import FlowDoors
from crawler_lifecycle.ports.flows.manager_doors import ManagerDoors
from crawler_lifecycle.ports.flows.records import FlowRecords
from crawler_lifecycle.ports.runs import RunStore


class FlowStore(RunStore, Protocol):
    @property
    def flow_doors(self) -> FlowDoors: ...

    @property
    def flow_records(self) -> FlowRecords: ...

    @property
    def manager_doors(self) -> ManagerDoors: ...
