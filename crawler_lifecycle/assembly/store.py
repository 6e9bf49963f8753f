"""`SqlStore` has an object for every port to the database, composed of classes in the capabilities' `store` folders.

Ports with doors take the requests from people and programs; ports with ledgers serve the writers at work.
"""

from crawler_lifecycle.audits.ports import Findings, ManagerAudits
from crawler_lifecycle.audits.store.auditing import AuditedRuns
from crawler_lifecycle.audits.store.findings import SqlFindings
from crawler_lifecycle.audits.store.manager_audits import SqlManagerAudits
from crawler_lifecycle.clusters.ports import Places
from crawler_lifecycle.clusters.store import SqlPlaces
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.flows.ports.ledger import FlowDoors, FlowEnds, FlowLedger, ManagerDoors
from crawler_lifecycle.flows.ports.records import FlowRecords
from crawler_lifecycle.flows.ports.steps import StepLedger
from crawler_lifecycle.flows.store.begins import StepBegins
from crawler_lifecycle.flows.store.doors import SqlFlowDoors
from crawler_lifecycle.flows.store.ledger import SqlFlowEnds, SqlFlowLedger
from crawler_lifecycle.flows.store.records import SqlFlowRecords
from crawler_lifecycle.flows.store.results import StepContexts
from crawler_lifecycle.limits.ports import Limits
from crawler_lifecycle.limits.store.admission import MOST_TASKS
from crawler_lifecycle.limits.store.limits import SqlLimits
from crawler_lifecycle.managers.ports import ManagerLedger
from crawler_lifecycle.managers.store.doors import SqlManagerDoors
from crawler_lifecycle.managers.store.ends import close_with_flow
from crawler_lifecycle.managers.store.jobs import ManagerJobs
from crawler_lifecycle.managers.store.life import ManagerLife
from crawler_lifecycle.managers.store.lists import ManagerLists
from crawler_lifecycle.managers.store.sets import ManagerSets
from crawler_lifecycle.runs.ports import Claims, Records, Runs, Tasks
from crawler_lifecycle.runs.store.additions import TaskAdditions
from crawler_lifecycle.runs.store.exports import Exports, Notices
from crawler_lifecycle.runs.store.histories import Histories
from crawler_lifecycle.runs.store.passes import Passes
from crawler_lifecycle.runs.store.records import LiveChanges, RunRecords
from crawler_lifecycle.runs.store.stops import NudgeClaims, Stops
from crawler_lifecycle.runs.store.supervision import Supervision
from crawler_lifecycle.runs.store.tasks import TaskRows
from crawler_lifecycle.schedules.ports import ScheduleLog
from crawler_lifecycle.schedules.store import SqlScheduleLog


class SqlRuns(Histories, Stops, Supervision, Exports, Notices):
    """Writes to runs; every base class has a single duty."""


class SqlTasks(TaskRows, TaskAdditions):
    """Task rows for looks, and additions of tasks."""


class SqlClaims(Passes, NudgeClaims):
    """Claims on tasks and nudges."""


class SqlRecords(RunRecords, LiveChanges, AuditedRuns):
    """Runs as people, live views and audits read them."""


class SqlStepLedger(StepBegins, StepContexts):
    """The ledger for hosts of steps."""


class SqlManagers(ManagerLife, ManagerSets, ManagerJobs, ManagerLists):
    """The ledger for hosts of crawl managers."""


class SqlStore:
    """The ports to everything in the database."""

    def __init__(self, db: Database, most_tasks: int = MOST_TASKS) -> None:
        self.runs: Runs = SqlRuns(db)
        self.tasks: Tasks = SqlTasks(db)
        self.claims: Claims = SqlClaims(db, most_tasks)
        self.records: Records = SqlRecords(db)
        self.findings: Findings = SqlFindings(db)
        self.schedule_log: ScheduleLog = SqlScheduleLog(db)
        self.places: Places = SqlPlaces(db)
        self.limits: Limits = SqlLimits(db, most_tasks)
        self.flow_doors: FlowDoors = SqlFlowDoors(db)
        self.flow_ledger: FlowLedger = SqlFlowLedger(db, close_with_flow)
        self.flow_ends: FlowEnds = SqlFlowEnds(db)
        self.step_ledger: StepLedger = SqlStepLedger(db)
        self.flow_records: FlowRecords = SqlFlowRecords(db)
        self.managers: ManagerLedger = SqlManagers(db)
        self.manager_doors: ManagerDoors = SqlManagerDoors(db)
        self.manager_audits: ManagerAudits = SqlManagerAudits(db)
