"""The right to read logs is taken away. The task ends as its program ended, its Job stays, and the API and `crawlctl`
say why; once the right is back, the Job leaves and its log is kept."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from temporalio.testing import ActivityEnvironment

from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.cli.program import main
from crawler_lifecycle.clusters.kubernetes.act.job_spec import PodSettings
from crawler_lifecycle.clusters.kubernetes.cluster import KubernetesCluster, LogStorage
from crawler_lifecycle.clusters.kubernetes.naming import NOT_AFTER
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.errors import TemporaryError
from crawler_lifecycle.http.tokens import Scope
from crawler_lifecycle.model.deployment import Crawler
from crawler_lifecycle.model.run_plan import Removal, RemoveJobs, RunInput, RunRef
from crawler_lifecycle.model.task_changes import EvidenceRequest, EvidenceWrite, LookAt, StatusWrite
from crawler_lifecycle.runs.activities.reconciliation import ReconciliationActivities
from crawler_lifecycle.runs.ports import Claim
from tests.kit.clusters.api_servers import ApiServer, an_access, an_api_server
from tests.kit.clusters.small_cluster import SmallCluster
from tests.kit.data.databases import MakeRun, copy_of, ref_to
from tests.kit.service.apis import Api

BOOKS = Crawler(name="books", image="registry/books:1", command=["crawl"])
TRIES = 3  # of a removal, before the run tells the problem


@pytest.fixture
def database_url(sqlite_template: Path, tmp_path: Path) -> str:
    return copy_of(sqlite_template, tmp_path)


@pytest.fixture
def server() -> Iterator[ApiServer]:
    with an_api_server() as server:
        yield server


@dataclass
class Supervisor:
    """The activities of a run's looks, on a database and on the adapter for Kubernetes."""

    run: RunRef
    reconciliation: ReconciliationActivities
    environment: ActivityEnvironment = field(default_factory=ActivityEnvironment)

    def do(self, activity: Callable[[Any], Any], step: object) -> Any:
        return self.environment.run(activity, step)

    def look(self) -> None:
        active = self.do(self.reconciliation.get_active_running_tasks, RunInput(run=self.run))
        differences = self.do(self.reconciliation.get_history_statuses_to_sync, LookAt(run=self.run, active=active))
        request = EvidenceRequest(run=self.run, tasks=differences.evidence)
        page = self.do(self.reconciliation.get_bulk_task_history_data, request)
        self.do(self.reconciliation.reconcile_tasks, EvidenceWrite(run=self.run, items=page.items))
        self.do(self.reconciliation.sync_statuses, StatusWrite(run=self.run, changes=differences.changes))

    def remove(self, attempt: int = 1) -> Removal:
        self.environment.info = replace(self.environment.info, attempt=attempt)
        removal: Removal = self.do(self.reconciliation.remove_jobs, RemoveJobs(run=self.run, tasks="0"))
        return removal


def test_a_log_that_nobody_may_read_is_a_visible_problem(
    server: ApiServer, api: Api, database: Database, make_run: MakeRun, tmp_path: Path
) -> None:
    store, record = SqlStore(database), make_run(entry=BOOKS)
    run, installation = ref_to(record), store.records.installation()
    files = LogStorage(tmp_path / "files")
    cluster = KubernetesCluster(an_access(server, tmp_path), installation, PodSettings(), files)
    supervisor = Supervisor(run, ReconciliationActivities(store.runs, store.tasks, cluster))
    claim = store.claims.claim_main(run, "supervisor:1", timedelta(minutes=1))
    assert isinstance(claim, Claim)
    store.claims.deployed(claim, cluster.deploy(claim.request))
    store.runs.mark_started(run)
    nature = SmallCluster(server, installation)
    for _ in range(3):  # the pod is made, runs, and ends
        nature.move(0, code=3)
    server.logs = dict.fromkeys(server.objects["pods"], b"page 1\nno more pages\n")
    server.denied = {("get", "pods/log")}

    supervisor.look()
    for attempt in range(1, TRIES + 1):
        with pytest.raises(TemporaryError, match="403"):
            supervisor.remove(attempt)
    assert supervisor.remove(TRIES + 1).left == len(server.objects["jobs"]) == 1

    with api.client() as http:
        details = http.get(f"/v1/runs/{run.run_id}").json()
        task = http.get(f"/v1/runs/{run.run_id}/tasks/0").json()
    assert (task["status"], task["reason"], task["exit_code"]) == ("FAILED", "exit_3", 3)
    problem = 'cannot get resource "pods/log"'
    assert [line["message"] for line in details["log"] if problem in line["message"]]
    assert [event for event in task["events"] if event.startswith("log not read:") and problem in event]
    token = api.token(Scope.READ)
    words = ["--api", api.url, "show", str(run.run_id)]
    shown = CliRunner(env={"CRAWLER_REMOTE__TOKEN": token}).invoke(main, words).output
    assert "ended jobs stay in the cluster" in shown
    assert problem in shown

    server.denied = set()
    (job,) = nature.jobs
    job["metadata"]["annotations"][NOT_AFTER] = "2026-01-01T00:00:00+00:00"  # no request for it is on its way
    assert supervisor.remove().left == 0
    assert not server.objects["jobs"]
    (log,) = (tmp_path / "files").rglob("*.log*")
    assert log.read_bytes().endswith(b"no more pages\n")
