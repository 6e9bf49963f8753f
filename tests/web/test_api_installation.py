"""The API tells the use of the installation, the runs without room, and the address of a run in Temporal's Web UI."""

import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import httpx
import pytest
from sqlalchemy import update

from crawler_lifecycle import web
from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.database.flow_schema import flow_members
from crawler_lifecycle.database.schema import histories
from crawler_lifecycle.flows import Workflow
from crawler_lifecycle.flows.rules.words import HOST_PATIENCE
from crawler_lifecycle.model.audits import AuditRef, Finding, FindingKind
from crawler_lifecycle.model.manager_items import Verdict
from crawler_lifecycle.model.states import RunStatus
from crawler_lifecycle.runs.store import lists
from crawler_lifecycle.stack.plan import Ports, make_plan
from crawler_lifecycle.web.installation import MOST_SATURATED
from tests.kit.authors.work import plain
from tests.kit.data.databases import MakeRun, copy_of, give_away, ref_to
from tests.kit.data.flows import pushed
from tests.kit.data.managers import managed, over
from tests.kit.service.apis import Api, served

UI = "https://temporal.example/ui/"
NAMED = {"CRAWLER_API__TEMPORAL_UI": UI, "TEMPORAL_NAMESPACE": "crawls/eu"}


@pytest.fixture
def database_url(sqlite_template: Path, tmp_path: Path) -> str:
    """One kind is enough here: the tests in `contracts` have both."""
    return copy_of(sqlite_template, tmp_path)


@pytest.fixture
def http(api: Api) -> Iterator[httpx.Client]:
    with api.client() as client:
        yield client


def waits(database: Database, run_id: int, cause: str, minutes: float) -> None:
    """Let the run wait for the cause, since some minutes ago."""
    since = datetime.now(UTC) - timedelta(minutes=minutes)
    with database.transaction() as connection:
        row = update(histories).where(histories.c.id == run_id)
        connection.execute(row.values(waiting_cause=cause, waiting_since=since, waiting_message="exceeded: pods"))


def test_use_and_saturation_of_the_installation(
    api: Api, http: httpx.Client, database: Database, make_run: MakeRun
) -> None:
    store = SqlStore(database)
    quick, slow, started, other, over = (make_run(2) for _ in range(5))
    waits(database, quick.run_id, "quota", 4)
    waits(database, slow.run_id, "unschedulable", 30)
    store.runs.mark_started(ref_to(started))
    waits(database, started.run_id, "capacity", 0)  # its tasks had waited for long when the cause was written
    waits(database, other.run_id, "image_pull", 60)
    waits(database, over.run_id, "quota", 60)
    store.tasks.cancel_queued(ref_to(over), "stopped")
    store.runs.close(ref_to(over), RunStatus.FAILED, "stopped")
    http.put("/v1/limits", json={"runs": 7})
    assert http.get("/v1/installation").json()["places"] is None, "the cluster has no folder yet"
    api.app.state.api.control.parts.cluster.check()  # makes its folder
    answer = http.get("/v1/installation").json()
    assert answer["installation"] == store.records.installation()
    assert (answer["open_runs"], answer["runs_in_line"], answer["saturated_runs"]) == (4, 0, 2)
    assert (answer["limits"]["scope"], answer["limits"]["runs"]) == ("installation", 7)
    assert answer["places"] == {"taken": 0, "total": 16, "waiting": 0}
    saturated = [(run["run_id"], run["waiting_cause"], run["waiting_message"]) for run in answer["saturated"]]
    assert saturated == [
        (slow.run_id, "unschedulable", "exceeded: pods"),
        (started.run_id, "capacity", "exceeded: pods"),
    ]
    assert answer["saturated"][0]["tasks"] == {"QUEUED": 2}


@pytest.mark.long
def test_the_health_of_the_shared_parts_is_checked_once_for_all_callers(http: httpx.Client) -> None:
    parts = {part["part"]: part for part in http.get("/v1/parts").json()["parts"]}
    assert parts["database"]["ok"]
    assert (parts["temporal"]["ok"], parts["worker"]["because_of"]) == (False, "temporal")
    assert parts.keys() >= {"scheduler service", "cluster", "hosts"}
    assert parts.keys().isdisjoint({"settings", "disk", "stack", "events", "archives", "notices"})
    began = time.monotonic()
    assert {part["part"]: part for part in http.get("/v1/parts").json()["parts"]} == parts
    assert time.monotonic() - began < 1, "Temporal is not asked again"


def test_attention_counts_what_waits_for_people(http: httpx.Client, database: Database, make_run: MakeRun) -> None:
    calm = http.get("/v1/attention").json()
    assert calm == {
        "failed_runs": 0, "more_failed_runs": False, "saturated_runs": 0, "more_saturated_runs": False,
        "with_failed_items": {"total": 0, "flows": []},
        "awaiting_approval": {"total": 0, "flows": []},
        "without_host": {"total": 0, "flows": []}, "without_run": None,
        "open_findings": 0, "pauses": 0, "audit_problem": None,
    }  # fmt: skip
    store = SqlStore(database)
    failed, stopped, stuck = (make_run(1) for _ in range(3))
    for run, reason in ((failed, "main_job_failed"), (stopped, "stopped")):
        store.tasks.cancel_queued(ref_to(run), "stopped")
        store.runs.close(ref_to(run), RunStatus.FAILED, reason)
    waits(database, stuck.run_id, "quota", 30)
    http.post("/v1/limits/pause", json={"reason": "rebuilt"}).raise_for_status()
    pushed(database, Workflow("asks", id="asks").add_approval("check")).go_on()
    pushed(database, Workflow("lone", id="lone").add("step", plain))
    with database.transaction() as connection:
        connection.execute(update(flow_members).values(since=datetime.now(UTC) - timedelta(minutes=2)))
    shops = managed(database, "shops")
    shops.offer("a")
    shops.ended_run(shops.started())
    shops.react(shops.ended()[0], Verdict.BAD)
    over(shops, "finished_with_failures")
    finding = Finding(kind=FindingKind.UNSUPERVISED, subject=stuck.run_uid, message="its workflow is gone")
    began_at = datetime.now(UTC) - timedelta(days=3)
    store.findings.report(AuditRef(audit_uid=str(uuid4()), began_at=began_at, repair=True), [finding])
    assert http.get("/v1/attention").json() == calm | {
        "failed_runs": 1, "with_failed_items": {"total": 1, "flows": ["shops"]}, "saturated_runs": 1,
        "open_findings": 1, "pauses": 1,
        "awaiting_approval": {"total": 1, "flows": ["asks"]}, "without_host": {"total": 1, "flows": ["lone"]},
    }  # fmt: skip
    pushed(database, Workflow("calm", id="calm").add("step", plain))
    needy = http.get("/v1/flows", params={"attention": True}).json()
    assert [flow["id"] for flow in needy["flows"]] == ["shops", "lone", "asks"]
    assert [flow["id"] for flow in http.get("/v1/flows", params={"search": "S"}).json()["flows"]] == ["shops", "asks"]


@pytest.mark.long
def test_many_saturated_runs_are_counted_and_the_longest_waits_are_named(
    http: httpx.Client, database: Database, make_run: MakeRun
) -> None:
    for number in range(MOST_SATURATED + 2):
        waits(database, make_run().run_id, "quota", 10 + number)
    answer = http.get("/v1/installation").json()
    assert (answer["saturated_runs"], len(answer["saturated"])) == (MOST_SATURATED + 2, MOST_SATURATED)
    waited = [run["waiting_since"] for run in answer["saturated"]]
    assert waited == sorted(waited)


@pytest.mark.long
def test_more_open_and_saturated_runs_than_are_counted(
    http: httpx.Client, database: Database, make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beyond the bounds, the sums for limits count the open runs, and the answers say that there may be more."""
    monkeypatch.setattr(lists, "WAITING_FOR", lists.WAITING_FOR.limit(3))
    monkeypatch.setattr(lists, "MOST_WAITING", 3)
    monkeypatch.setattr(lists, "MOST_OPEN", 3)
    runs = [make_run().run_id for _ in range(4)]
    for run_id in runs[:2]:
        waits(database, run_id, "quota", 10)
    answer, attention = http.get("/v1/installation").json(), http.get("/v1/attention").json()
    assert (answer["open_runs"], answer["saturated_runs"], answer["more_saturated_runs"]) == (0, 2, False)
    assert (attention["saturated_runs"], attention["more_saturated_runs"]) == (2, False)
    with database.transaction() as connection:
        admitted = {"admitted_at": datetime.now(UTC), "status": RunStatus.PROCESSING}
        connection.execute(update(histories).values(admitted))
    SqlStore(database).limits.correct_sums()
    for number, run_id in enumerate(runs):
        waits(database, run_id, "quota", number)
    answer, attention = http.get("/v1/installation").json(), http.get("/v1/attention").json()
    assert (answer["open_runs"], answer["saturated_runs"], answer["more_saturated_runs"]) == (4, 3, True)
    assert [run["run_id"] for run in answer["saturated"]] == list(reversed(runs))[:3]
    assert (attention["saturated_runs"], attention["more_saturated_runs"]) == (3, True)


def test_runs_of_another_installation_saturate_nothing(
    http: httpx.Client, database: Database, database_url: str, make_run: MakeRun
) -> None:
    waits(database, make_run().run_id, "quota", 60)
    give_away(database_url)
    assert http.get("/v1/installation").json()["saturated_runs"] == 0


def test_a_run_and_a_flow_lead_to_temporals_web_ui(
    tmp_path: Path, database_url: str, http: httpx.Client, make_run: MakeRun
) -> None:
    run = make_run()
    member = {"path": "a", "work": {"kind": "step", "function": "tests.kit.authors.work:plain"}}
    uid = http.post("/v1/flows", json={"id": "shop", "members": [member]}).json()["flow_uid"]
    for path in (f"/v1/runs/{run.run_id}", "/v1/flows/shop"):
        assert http.get(path).json()["temporal_url"] is None, "no setting, no link"
    with served(tmp_path / "named", database_url, **NAMED) as api, api.client() as client:
        place = "https://temporal.example/ui/namespaces/crawls%2Feu/workflows"
        assert client.get(f"/v1/runs/{run.run_id}").json()["temporal_url"] == f"{place}/{run.workflow_id}"
        assert client.get("/v1/flows/shop").json()["temporal_url"] == f"{place}/flow-{uid}"


def test_the_embedded_stack_knows_its_web_ui(tmp_path: Path) -> None:
    plan = make_plan(tmp_path, Ports(temporal=1, web_ui=8233, scheduler=3, api=4), tmp_path / "catalogue.toml")
    assert plan.environment["CRAWLER_API__TEMPORAL_UI"] == plan.web_ui == "http://127.0.0.1:8233"


def test_the_page_has_the_same_patience_with_hosts_as_lists() -> None:
    script = (Path(web.__file__).parent / "page" / "flow.js").read_text()
    (milliseconds,) = re.findall(r"^const HOST_PATIENCE = (\d+);", script, re.MULTILINE)
    assert timedelta(milliseconds=int(milliseconds)) == HOST_PATIENCE
