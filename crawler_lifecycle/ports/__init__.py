"""Ports: the protocols by which activities and services use databases, clusters and receivers.

`adapters/` implements the ports, and `tests/contracts/` runs the same tests against every adapter.

A failure raises TemporaryError (try again; no change is known) or PermanentError. Every method may be called twice. A
write to a run compares the epoch in its RunRef and raises Fenced when another supervisor has taken over.
"""

from crawler_lifecycle.ports.cluster import (
    NO_UIDS,
    Cluster,
    Deployer,
    HasPlaces,
    JobsPlace,
    KeepFacts,
    KnowsItsPlace,
    LogChunk,
    Places,
    PlacesInMemory,
    PlacesTaken,
    Uids,
    keep_no_facts,
)
from crawler_lifecycle.ports.deliveries import Deliveries
from crawler_lifecycle.ports.findings import Acted, AuditStore, Findings
from crawler_lifecycle.ports.flows.claims import AttemptKey, Claimed, ClaimedStep, StepClaims, StepEnd, StepInputs
from crawler_lifecycle.ports.flows.ledger import (
    CrawlStart,
    CrawlStarts,
    CrawlToStop,
    Delivery,
    DoorAnswer,
    FlowDoors,
    FlowEnds,
    FlowLedger,
    OwedEnd,
    UnannouncedFlow,
)
from crawler_lifecycle.ports.flows.manager_doors import ManagerDoors
from crawler_lifecycle.ports.flows.records import (
    AttemptRecord,
    FlowFigures,
    FlowLine,
    FlowNews,
    FlowRecord,
    FlowRecords,
    KeptFlow,
    Part,
    ScheduledFlow,
    SilentFlow,
)
from crawler_lifecycle.ports.flows.store import FlowStore
from crawler_lifecycle.ports.limits import Limits, LimitStore
from crawler_lifecycle.ports.manager_audits import DoubtfulAttempt, ManagerAudits, UnknownRun
from crawler_lifecycle.ports.managers import (
    ManagerLedger,
    ManagerNews,
    ManagerRef,
    ManagerStart,
    ManagerStarts,
)
from crawler_lifecycle.ports.outside import (
    Announcer,
    Archive,
    Archiver,
    FlowSupervisors,
    OnProgress,
    Pusher,
    RunArchive,
    StoredArchive,
    Supervisors,
)
from crawler_lifecycle.ports.records import (
    EndDeliveries,
    ExpiredClaims,
    OccurrenceRun,
    Records,
    RunFigures,
    SaturatedRuns,
)
from crawler_lifecycle.ports.runs import (
    Addition,
    Claim,
    Claims,
    LookEnd,
    NewRun,
    Runs,
    RunState,
    RunStore,
    SupervisorExecution,
    Tasks,
)
from crawler_lifecycle.ports.schedule_log import ScheduleLog, ScheduleStore
