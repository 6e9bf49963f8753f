"""All activities over a real database, the local cluster and folders; `do` runs one as Temporal would."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar, overload
from uuid import uuid4

import pytest
from temporalio.testing import ActivityEnvironment

from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.audits.activities.auditing import AuditActivities
from crawler_lifecycle.audits.activities.flows import FlowAudit, ManagerAudit
from crawler_lifecycle.audits.activities.handovers import HandoverAudit
from crawler_lifecycle.audits.activities.jobs import JobAudit
from crawler_lifecycle.audits.activities.runs import RunAudit
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.delivery.activities.exports import ExportActivities
from crawler_lifecycle.delivery.activities.notices import FlowNudges, NoticeActivities
from crawler_lifecycle.delivery.adapters.folder import FolderExporter
from crawler_lifecycle.delivery.adapters.json_lines import FilePusher
from crawler_lifecycle.errors import BadInput, LifecycleError, NotFound, TemporaryError
from crawler_lifecycle.flows.activities.crawls import FlowCrawlActivities
from crawler_lifecycle.flows.activities.flows import FlowAnnouncements
from crawler_lifecycle.model.deployment import Crawler, Deployment, DeploymentRequest, ManagerEntry
from crawler_lifecycle.model.records import RunDetails, RunRecord
from crawler_lifecycle.model.requests import RunRequest, StopRequest
from crawler_lifecycle.model.run_plan import RunInput, RunPlan
from crawler_lifecycle.model.supervision import AuditedRun, AuditPatience, WorkflowInfo
from crawler_lifecycle.runs.activities.deployment import ClaimDeployer, DeploymentActivities
from crawler_lifecycle.runs.activities.reconciliation import ReconciliationActivities
from crawler_lifecycle.runs.activities.stopping import StoppingActivities
from crawler_lifecycle.runs.activities.supervision import HistoryActivities, SupervisionActivities
from crawler_lifecycle.runs.model import CreateHistory, StartRun
from crawler_lifecycle.runs.rules.plan import RunLimits
from crawler_lifecycle.runs.store.passes import claim_ready_tasks
from tests.kit.clusters.clusters import LocalBench

A = TypeVar("A")
R = TypeVar("R")

SCRIPT = (
    'case "$CRAWL_TASK" in 1) echo task one fails; exit 3;; *) echo "$CRAWL_TASK" > item-$CRAWL_TASK; exit 0;; esac'
)
SLEEPS = "exec sleep 60"
# an audit that takes nothing for a moment's delay
NONE = timedelta()
AT_ONCE = AuditPatience(NONE, NONE, NONE, NONE, NONE, stuck=timedelta(minutes=1))


@dataclass
class DirectDeployer:
    """A scheduler service without the service: what HTTP adds has tests of its own."""

    bench: LocalBench
    scripts: dict[str, str]
    trouble: LifecycleError | None = None
    loses_answers: bool = False
    requests: list[DeploymentRequest] = field(default_factory=list)

    def crawler(self, name: str) -> Crawler:
        if self.trouble:
            raise self.trouble
        if name not in self.scripts:
            raise BadInput("crawler", f"there is no crawler named {name}")
        return Crawler(name=name, command=["/bin/sh", "-c", self.scripts[name]], processes=2, grace_seconds=7)

    def only_installation(self) -> str | None:
        return None

    def manager(self, name: str) -> ManagerEntry:
        raise NotImplementedError

    def crawler_names(self) -> list[str]:
        return sorted(self.scripts)

    def deploy(self, request: DeploymentRequest) -> Deployment:
        if self.trouble:
            raise self.trouble
        self.requests.append(request)
        deployment = self.bench.cluster.deploy(request)
        if self.loses_answers:
            raise TemporaryError("the answer was lost")
        return deployment

    def check(self) -> str:
        return "direct"


OPEN, MISSING = WorkflowInfo(is_open=True), WorkflowInfo(is_open=False, end="missing")


@dataclass
class NotedSupervisors:
    """The workflows that would be started, and those that would be cancelled."""

    started: list[tuple[str, RunRequest]] = field(default_factory=list)
    cancelled: list[tuple[str, str]] = field(default_factory=list)
    listed: set[str] = field(default_factory=set)  # as open
    described: dict[str, WorkflowInfo] = field(default_factory=dict)  # the others as they are listed, or missing
    nudged_flows: list[tuple[str, str]] = field(default_factory=list)
    trouble: LifecycleError | None = None  # in place of a nudge
    stopped: list[tuple[str, StopRequest]] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)

    async def go_on(self, run: RunRecord | AuditedRun, *, reopen: bool = False) -> None:
        self.started.append((run.workflow_id, RunRequest(crawler=run.crawler, run_id=run.run_id, reopen=reopen)))

    async def start_crawl(self, workflow_id: str, request: RunRequest) -> None:
        if workflow_id not in self.described:
            self.started.append((workflow_id, request))
            self.described[workflow_id] = OPEN

    async def nudge_flow(self, flow_uid: str, flow_id: str) -> None:
        if self.trouble is not None:
            raise self.trouble
        self.nudged_flows.append((flow_uid, flow_id))

    async def stop(self, workflow_id: str, stop: StopRequest) -> str:
        if not (await self.describe(workflow_id)).is_open:
            raise NotFound(f"workflow {workflow_id} is not open")
        self.stopped.append((workflow_id, stop))
        return "signal"

    async def failure(self, workflow_id: str) -> str | None:
        return self.failures.get(workflow_id)

    async def cancel(self, workflow_id: str, temporal_run_id: str) -> None:
        self.cancelled.append((workflow_id, temporal_run_id))

    async def open_among(self, workflow_ids: Sequence[str]) -> set[str]:
        return self.listed & set(workflow_ids)

    async def describe(self, workflow_id: str) -> WorkflowInfo:
        return self.described.get(workflow_id, OPEN if workflow_id in self.listed else MISSING)

    async def task_failure(self, workflow_id: str) -> str | None:
        return "TypeError: a bug"

    async def requested_run_id(self, workflow_id: str) -> int | None:
        return self.described[workflow_id].requested_run_id


@dataclass
class Rig:
    database: Database
    bench: LocalBench
    folder: Path
    environment: ActivityEnvironment = field(default_factory=ActivityEnvironment)

    def __post_init__(self) -> None:
        self.store = store = SqlStore(self.database)
        self.bench.installation = store.records.installation()
        self.bench.cluster = self.bench.client()
        cluster, runs, tasks, records = self.bench.cluster, store.runs, store.tasks, store.records
        self.deployer = DirectDeployer(self.bench, {"books": SCRIPT, "sleepy": SLEEPS})
        exporter = FolderExporter(self.folder / "files", self.folder / "exports")
        self.tasks, self.claims, self.findings, limits = tasks, store.claims, store.findings, RunLimits(most_tasks=50)
        self.claim_deployer = ClaimDeployer(self.claims, cluster, self.deployer)
        self.supervisors = NotedSupervisors()
        self.nudges = nudges = FlowNudges(self.supervisors)
        self.histories = HistoryActivities(runs, tasks, self.deployer, limits, nudges=nudges)
        minute = timedelta(seconds=60)
        self.deployment = DeploymentActivities(runs, tasks, self.claims, cluster, self.claim_deployer, minute)
        self.reconciliation = ReconciliationActivities(runs, tasks, cluster, nudges)
        self.supervision = SupervisionActivities(runs, tasks, cluster, self.supervisors, limits, nudges=nudges)
        self.flow_crawls = FlowCrawlActivities(store.flow_ledger, runs, self.supervisors, self.deployer, limits)
        self.stopping = StoppingActivities(runs, tasks, cluster)
        self.notices = NoticeActivities(runs, FilePusher(self.folder / "exports" / "notices.jsonl"))
        self.exports = ExportActivities(runs, exporter, exporter, nudges)
        self.audits = AuditActivities(self.findings, kept_for=timedelta(days=30))
        self.run_audit = RunAudit(records, self.findings, store.limits, self.supervisors, tasks, cluster, AT_ONCE)
        self.job_audit = JobAudit(records, self.findings, tasks, cluster, AT_ONCE)
        self.handover_audit = HandoverAudit(records, self.findings, self.supervisors, AT_ONCE)
        self.flow_records, self.flow_doors = store.flow_records, store.flow_doors
        managers = ManagerAudit(store.manager_audits, self.findings, self.supervisors, AT_ONCE)
        self.flow_audit = FlowAudit(
            self.flow_records, store.flow_ends, self.findings, self.supervisors, AT_ONCE, managers
        )
        self.flow_announcements = FlowAnnouncements(store.flow_ends, self.notices.pusher, exporter)

    @overload
    def do(self, activity: Callable[[A], Coroutine[Any, Any, R]], step: A) -> R: ...

    @overload
    def do(self, activity: Callable[[A], R], step: A) -> R: ...

    def do(self, activity: Callable[[A], Any], step: A) -> Any:
        done = self.environment.run(activity, step)
        return asyncio.run(done) if isinstance(done, Coroutine) else done

    def begin(self, crawler: str = "books", **request: object) -> RunPlan:
        asked = RunRequest.model_validate({"crawler": crawler, **request})
        step = CreateHistory(request=asked, workflow_id=f"crawl-{uuid4()}", first_execution_run_id=str(uuid4()))
        return self.do(self.histories.create_history_id, step)

    def started(self, crawler: str = "books", **request: object) -> RunPlan:
        """A run whose main job is deployed and that is PROCESSING."""
        plan = self.begin(crawler, **request)
        self.do(self.deployment.run_onetime_crawler, RunInput(run=plan.run))
        self.do(self.histories.update_run_started, StartRun(run=plan.run))
        return plan

    def deploy_children(self, plan: RunPlan) -> None:
        most = (self.details(plan).run.request.max_parallel or 101) - 1
        with self.database.transaction() as tx:
            claims = claim_ready_tasks(tx, plan.run.run_id, most, "test", self.database.clock(), timedelta(seconds=60))
        for claim in claims:
            self.claims.deployed(claim, self.deployer.deploy(claim.request))

    def details(self, plan: RunPlan) -> RunDetails:
        return self.store.records.details(plan.run.run_id)


@pytest.fixture
def rig(database: Database, local: LocalBench, tmp_path: Path) -> Rig:
    return Rig(database, local, tmp_path)
