"""The store: an object for every port to the database, put together from the classes in this folder."""

from crawler_lifecycle.adapters.sql.additions import TaskAdditions
from crawler_lifecycle.adapters.sql.admission import MOST_TASKS
from crawler_lifecycle.adapters.sql.auditing import AuditedRuns
from crawler_lifecycle.adapters.sql.database import Database
from crawler_lifecycle.adapters.sql.exports import Exports, Notices
from crawler_lifecycle.adapters.sql.findings import SqlFindings
from crawler_lifecycle.adapters.sql.flow_doors import SqlFlowDoors
from crawler_lifecycle.adapters.sql.flow_ends import SqlFlowEnds
from crawler_lifecycle.adapters.sql.flow_ledger import SqlFlowLedger
from crawler_lifecycle.adapters.sql.flow_records import SqlFlowRecords
from crawler_lifecycle.adapters.sql.histories import Histories
from crawler_lifecycle.adapters.sql.limits import SqlLimits
from crawler_lifecycle.adapters.sql.manager_audits import SqlManagerAudits
from crawler_lifecycle.adapters.sql.manager_doors import SqlManagerDoors
from crawler_lifecycle.adapters.sql.manager_ends import close_with_flow
from crawler_lifecycle.adapters.sql.manager_jobs import ManagerJobs
from crawler_lifecycle.adapters.sql.manager_life import ManagerLife
from crawler_lifecycle.adapters.sql.manager_lists import ManagerLists
from crawler_lifecycle.adapters.sql.manager_sets import ManagerSets
from crawler_lifecycle.adapters.sql.nudges import NudgeClaims
from crawler_lifecycle.adapters.sql.passes import Passes
from crawler_lifecycle.adapters.sql.places import SqlPlaces
from crawler_lifecycle.adapters.sql.records import LiveChanges, RunRecords
from crawler_lifecycle.adapters.sql.schedule_log import SqlScheduleLog
from crawler_lifecycle.adapters.sql.step_claims import StepRights
from crawler_lifecycle.adapters.sql.step_ends import StepEnds
from crawler_lifecycle.adapters.sql.step_inputs import StepContexts
from crawler_lifecycle.adapters.sql.stops import Stops
from crawler_lifecycle.adapters.sql.supervision import Supervision
from crawler_lifecycle.adapters.sql.tasks import TaskRows
from crawler_lifecycle.ports import (
    Claims,
    Findings,
    FlowDoors,
    FlowEnds,
    FlowLedger,
    FlowRecords,
    Limits,
    ManagerAudits,
    ManagerDoors,
    ManagerLedger,
    Places,
    Records,
    Runs,
    ScheduleLog,
    StepClaims,
    Tasks,
)


class SqlRuns(Histories, Stops, Supervision, Exports, Notices):
    """Writes to runs; every base class has a single duty."""


class SqlTasks(TaskRows, TaskAdditions):
    """Task rows for looks, and additions of tasks."""


class SqlClaims(Passes, NudgeClaims):
    """Claims on tasks and nudges."""


class SqlRecords(RunRecords, LiveChanges, AuditedRuns):
    """Runs as people, live views and audits read them."""


class SqlStepClaims(StepRights, StepEnds, StepContexts):
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
        self.step_claims: StepClaims = SqlStepClaims(db)
        self.flow_records: FlowRecords = SqlFlowRecords(db)
        self.managers: ManagerLedger = SqlManagers(db)
        self.manager_doors: ManagerDoors = SqlManagerDoors(db)
        self.manager_audits: ManagerAudits = SqlManagerAudits(db)
