"""Programs from Chancy with other import lines: their client, their plugin, and its routes."""

import subprocess
import sys
from collections.abc import AsyncIterator
from importlib import import_module
from typing import Any

import pytest
import pytest_asyncio
from fastapi import FastAPI
from httpx import ASGITransport, AsyncClient

from crawler_lifecycle import client
from crawler_lifecycle.compat.chancy import Chancy
from crawler_lifecycle.compat.chancy.plugin import Plugin, PluginScope
from crawler_lifecycle.compat.chancy.plugins.leadership import Leadership
from crawler_lifecycle.compat.chancy.plugins.workflow import (
    CircularDependencyError,
    EmptyWorkflowError,
    InvalidDependencyError,
    WorkflowPlugin,
)
from crawler_lifecycle.compat.chancy.plugins.workflow import Workflow as ChancyWorkflow
from crawler_lifecycle.compat.chancy.plugins.workflow.api import WorkflowApiPlugin
from crawler_lifecycle.compat.chancy.utils import chancy_uuid
from crawler_lifecycle.database import migrations
from crawler_lifecycle.flows import StepState, Workflow
from crawler_lifecycle.testing import MemoryFlows, Scenario
from tests.compat import graphs

program: Any = graphs


@pytest.fixture(autouse=True)
def _in_memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setattr(client, "Flows", MemoryFlows, raising=False)
    monkeypatch.setenv("CRAWLER_STATE", str(tmp_path))
    monkeypatch.delenv("CRAWLER_DATABASE__URL", raising=False)


@pytest_asyncio.fixture
async def flows() -> AsyncIterator[MemoryFlows]:
    async with MemoryFlows.open(Scenario(fails={"second": 1})) as opened:
        yield opened


async def test_a_program_runs_with_other_imports(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture, tmp_path: Any
) -> None:
    ended = await program.main()
    assert ended.state is Workflow.State.COMPLETED
    assert (ended["parse"].job.queue, ended["store"].job.priority) == ("slow", 3)
    assert capsys.readouterr().out.split("\n")[:3] == ["fetch", "parse 1", "store"]
    first, *rest = caplog.messages
    assert first == (
        "Chancy: postgresql://localhost/shop?sslmode=disable names no installation of this service; in use is "
        f"sqlite:///{tmp_path}/crawler.db, whose own processes do the work of plugins "
        "(Leadership, WorkflowPlugin, Ticker do not run here)"
    )
    assert [line.partition(" has no effect: ")[0] for line in rest] == ["Chancy.migrate", "Chancy.declare"]


async def test_our_own_address_needs_no_line(caplog: pytest.LogCaptureFixture, tmp_path: Any) -> None:
    async with Chancy(f"sqlite:///{tmp_path}/crawler.db"):
        assert caplog.messages == []


async def test_a_sequence_and_a_single_job_are_pushed(capsys: pytest.CaptureFixture[str]) -> None:
    assert await program.chain()
    assert capsys.readouterr().out.split("\n")[:2] == ["fetch", "parse 2"]


async def test_a_worker_says_where_functions_run(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(TimeoutError):
        await program.work()
    assert "hosts run the functions: crawlctl up --flows FILE, or crawlctl host MODULE" in caplog.text


async def test_a_client_that_is_not_opened_is_the_innermost_client(flows: MemoryFlows) -> None:
    chancy = Chancy("postgresql://localhost/postgres")
    flow = await chancy.push(graphs.fetch)
    assert (await flows.wait(flow)).name == "fetch"
    with pytest.raises(AttributeError):
        chancy.no_such_method  # noqa: B018


def test_the_plugin_has_all_members_of_the_page(caplog: pytest.LogCaptureFixture) -> None:
    plugin = WorkflowPlugin(polling_interval=1, max_workflows_per_run=1000)
    assert isinstance(plugin, Plugin)
    assert WorkflowPlugin.get_scope() is PluginScope.WORKER is Leadership.get_scope()
    module, _, name = plugin.api_plugin().rpartition(".")
    assert getattr(import_module(module), name) is WorkflowApiPlugin
    assert plugin.migrate_key() == "workflow"
    assert plugin.migrate_package() == migrations.__name__
    assert caplog.text.count("crawlctl db upgrade migrates the service's tables") == 2
    assert (Leadership().api_plugin(), Leadership().migrate_key(), Leadership().migrate_package()) == (None, None, None)


async def test_the_service_does_what_a_plugin_does_elsewhere(
    flows: MemoryFlows, caplog: pytest.LogCaptureFixture
) -> None:
    plugin, workflow = WorkflowPlugin(), Workflow("w").add("first", graphs.fetch).add("second", graphs.fetch, ["first"])
    await plugin.run(worker=None, chancy=flows)
    assert "WorkflowPlugin.run has no effect: the service's own processes do the work" in caplog.text
    await plugin.process_workflow(flows, workflow)  # unknown so far
    await WorkflowPlugin.push(flows, workflow)
    await flows.wait(workflow.id)
    assert workflow.state is Workflow.State.PENDING
    await plugin.process_workflow(chancy=flows, workflow=workflow)
    assert (workflow.state, workflow.updated_at is not None) == (Workflow.State.FAILED, True)
    assert {state: [step.step_id for step in steps] for state, steps in workflow.steps_by_state.items()} == {
        StepState.SUCCEEDED: ["first"],
        StepState.FAILED: ["second"],
    }
    assert workflow["first"].job_id
    assert f"the supervisor of {workflow.id} advances it" in caplog.text
    assert await Leadership().cleanup(chancy=flows) is None
    flows.plays[workflow.id].later(days=2)
    assert await WorkflowPlugin(pruning_rule=WorkflowPlugin.Rules.Age() > 60 * 60 * 24).cleanup(chancy=flows) == 1


async def test_the_routes_of_the_api_plugin(flows: MemoryFlows) -> None:
    plugin, app = WorkflowApiPlugin(), FastAPI()
    assert plugin.name() == "workflow"
    for route in plugin.routes():
        endpoint = route["endpoint"]

        async def answer(request: Any, endpoint: Any = endpoint) -> Any:
            return await endpoint(request, chancy=flows, worker=None)

        app.router.add_route(route["path"], answer, route["methods"], route["name"])
    old, new = Workflow("old").add("a", graphs.fetch), Workflow("new").add("b", graphs.parse.job.with_kwargs(pages=2))
    new.add("second", graphs.fetch, ["b"])
    for workflow in (old, new):
        await flows.push(workflow)
        await flows.wait(workflow.id)
    async with AsyncClient(transport=ASGITransport(app), base_url="http://service") as http:
        listed = (await http.get("/api/v1/workflows")).json()
        assert [(flow["name"], flow["state"]) for flow in listed] == [("new", "failed"), ("old", "completed")]
        assert [flow["name"] for flow in (await http.get("/api/v1/workflows?limit=1")).json()] == ["new"]
        numbers = {name: number for name, number in listed[0].items() if name.endswith("_steps") and number}
        assert numbers == {"total_steps": 2, "succeeded_steps": 1, "failed_steps": 1}
        for refused in ("limit=0", "before=nobody", "filters=[]"):
            assert (await http.get(f"/api/v1/workflows?{refused}")).status_code == 422
        open_one = Workflow("open").add("c", graphs.fetch)
        await flows.push(open_one)
        first = (await http.get("/api/v1/workflows?pagination=true&limit=2")).json()
        assert [(flow["name"], flow["waiting_steps"]) for flow in first["items"]] == [("open", 1), ("new", 0)]
        assert (first["has_more"], first["next_cursor"]) == (True, new.id)
        last = (await http.get(f"/api/v1/workflows?pagination=true&limit=2&before={new.id}")).json()
        assert [flow["name"] for flow in last["items"]] == ["old"]
        assert (last["has_more"], last["next_cursor"]) == (False, None)
        shown = (await http.get(f"/api/v1/workflows/{new.id}")).json()
        assert shown["steps"]["b"] | {"job_id": None} == {
            "step_id": "b", "dependencies": [], "state": "succeeded", "job_id": None,
            "job": {
                "func": "tests.compat.graphs.parse", "kwargs": {"pages": 2}, "queue": "slow", "priority": 0,
                "max_attempts": 1,
            },
        }  # fmt: skip
        assert (shown["steps"]["second"]["dependencies"], shown["steps"]["second"]["state"]) == (["b"], "failed")
        assert (await http.get("/api/v1/workflows/nowhere")).status_code == 404


async def test_a_dependency_may_be_added_after_its_dependent(flows: MemoryFlows) -> None:
    workflow = ChancyWorkflow("late").add("b", graphs.fetch, ["a"]).add(step_id="a", job=graphs.fetch)
    workflow.validate()
    await WorkflowPlugin.push(flows, workflow)
    assert (await flows.wait(workflow.id)).state is Workflow.State.COMPLETED
    assert flows.plays[workflow.id].order == ["a", "b"]
    cycle = ChancyWorkflow(name="cycle").add("a", graphs.fetch, ["b"]).add("b", graphs.fetch, ["a"])
    with pytest.raises(CircularDependencyError, match="form a cycle"):
        cycle.validate()
    unknown = ChancyWorkflow("unknown", id=chancy_uuid()).add("a", graphs.fetch, ["nobody"])
    with pytest.raises(InvalidDependencyError, match="'a' depends on 'nobody'"):
        await WorkflowPlugin.push(flows, unknown)
    with pytest.raises(EmptyWorkflowError):
        ChancyWorkflow("empty").validate()


@pytest.mark.parametrize(
    "module", ["chancy.plugins.workflow", "chancy.plugins.leadership", "oban", "oban_pro", "shub.crawl"]
)
@pytest.mark.long
def test_an_authors_module_loads_neither_temporal_nor_a_database(module: str) -> None:
    code = f"import sys; import crawler_lifecycle.compat.{module}; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True).stdout.split()
    assert {"temporalio", "sqlalchemy", "fastapi"}.isdisjoint(loaded)


def test_no_name_of_the_page_is_missing() -> None:
    names = {
        "": ("Chancy", "Job", "Queue", "QueuedJob", "Worker", "job"),
        ".job": ("IsAJob", "Job", "QueuedJob", "job"),
        ".rule": ("Rule",),
        ".plugin": ("Plugin", "PluginScope"),
        ".app": ("Chancy",),
        ".plugins.leadership": ("ImmediateLeadership", "Leadership"),
        ".utils": ("chancy_uuid",),
        ".plugins.workflow": ("Sequence", "Workflow", "WorkflowPlugin", "WorkflowStep"),
        ".plugins.workflow.api": ("WorkflowApiPlugin",),
    }
    for module, exported in names.items():
        mirror = import_module(f"crawler_lifecycle.compat.chancy{module}")
        assert [name for name in exported if not hasattr(mirror, name)] == []
    assert client.WorkflowPlugin is WorkflowPlugin
