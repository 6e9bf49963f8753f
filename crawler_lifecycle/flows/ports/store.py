"""The ports to the database that commands for flows need."""

from typing import Protocol

from crawler_lifecycle.flows.ports.ledger import FlowDoors
from crawler_lifecycle.flows.ports.manager_doors import ManagerDoors
from crawler_lifecycle.flows.ports.records import FlowRecords
from crawler_lifecycle.runs.ports.runs import RunStore


class FlowStore(RunStore, Protocol):
    @property
    def flow_doors(self) -> FlowDoors: ...

    @property
    def flow_records(self) -> FlowRecords: ...

    @property
    def manager_doors(self) -> ManagerDoors: ...
