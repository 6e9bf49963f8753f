"""Managers as jobs of graphs: their definition, their place in the ledger, and refused options."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.cli.program import main
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.errors import BadInput
from crawler_lifecycle.flows import Workflow, crawl
from crawler_lifecycle.flows.client import ApiFlows
from crawler_lifecycle.flows.commands.definitions import workflow_of
from crawler_lifecycle.flows.model.definition import ManagerWork
from crawler_lifecycle.flows.model.requests import PushFlow
from crawler_lifecycle.managers import GeneratorCrawlManager, PeriodicCrawlManager, manager
from crawler_lifecycle.managers.authors.link import AuthorsFailure
from crawler_lifecycle.managers.cli.flow_files import definition_in, manager_in
from crawler_lifecycle.managers.ports import ManagerRef
from crawler_lifecycle.testing import ManagerPlay, MemoryFlows, completed, failed, run_inline
from crawler_lifecycle.testing.outcomes import RefusedCrawl
from crawler_lifecycle.transport.connection import HttpConnection
from tests.kit.data.databases import copy_of
from tests.kit.data.flows import Flow

EXAMPLE = Path(__file__).parents[2] / "examples" / "flows" / "shops_and_delivery.py"
CATALOGUE = EXAMPLE.parents[1] / "catalogue.toml"


class Shops(GeneratorCrawlManager):
    name, spider = "any", "shop"
    loop_mode = 60

    def set_parameters_gen(self) -> Iterator[Any]:
        yield {"shop": "alfa"}


class Nameless(Shops):
    name = ""


class Again(PeriodicCrawlManager):
    name, spider = "again", "shop"


def test_a_manager_is_a_job_with_its_command_line() -> None:
    job = manager(Shops, "--max-running-jobs", "2").with_options(queue="shops", priority=3)
    workflow = Workflow("w", id="one").add("a", job).add("b", manager(Nameless, "b"), "a")
    first, second = workflow.definition().members
    assert (first.work.is_manager, first.work.arguments) == (True, ["--max-running-jobs", "2"])  # type: ignore[union-attr]
    assert (first.work.queue, first.priority, second.needs[0].on) == ("shops", 3, ("a",))  # type: ignore[union-attr]
    assert workflow.check()
    assert workflow.definition().manager is None


def test_a_manager_of_the_catalogue_is_a_job_by_its_name() -> None:
    job = manager("shops", "--deep").with_options(priority=3)
    workflow = Workflow("w", id="one").add("shops", job).add("next", manager("next"), "shops")
    definition = workflow.definition()
    assert definition.members[0].work == ManagerWork(manager="shops", arguments=("--deep",))
    assert "shops (shops)" in workflow.to_mermaid()
    assert workflow_of(definition).definition() == definition


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: manager("shops", "--flow-id", "other"), "the manager's family is the workflow's"),
        (lambda: manager("x" * 129), "manager: .*at most 128"),
        (lambda: manager("shops").with_options(queue="own"), "is no option of a manager by its name"),
        (lambda: manager(Shops, "--own"), "unrecognized arguments"),
        (lambda: manager(Nameless), "required: name"),
        (lambda: manager(Again), "seconds between its cycles"),
        (lambda: manager(Shops, "--flow-id", "other"), "the manager's family is the workflow's"),
        (lambda: manager(Shops).with_options(timeout=3), "is no option of a manager; possible are priority"),
        (lambda: manager(Shops).with_options(retries=3), "is no option of a manager"),
        (lambda: manager(Shops).with_kwargs(shop="alfa"), "takes its command line in manager"),
        (lambda: Workflow().add("shops", Shops), "is the class Shops; add manager\\(Shops"),
    ],
)
def test_wrong_jobs_are_refused(make: Any, problem: str) -> None:
    with pytest.raises(BadInput, match=problem):
        make()


@pytest.fixture
def database(sqlite_template: Path, tmp_path: Path) -> Iterator[Database]:
    database = Database(copy_of(sqlite_template, tmp_path))
    yield database
    database.close()


@pytest.mark.parametrize("family", [None, "monthly"])
def test_managers_of_a_graph_have_the_names_of_their_jobs(database: Database, family: str | None) -> None:
    workflow = Workflow("the graph", id="one", family=family).add("north", manager(Shops)).add("south", manager(Shops))
    store = SqlStore(database)
    answer = store.flow_doors.push(PushFlow(definition=workflow.definition()))
    flow = Flow(store, answer.flow_id, answer.flow_uid)
    flow.go_on()
    for path in ("north", "south"):
        row = flow.row(path)
        assert flow.begin_steps(flow.last(path), token="host").mine
        begun = store.managers.begin(ManagerRef(flow.uid, row.number, 1, "host"), f"child-{path}")
        assert (begun.name, begun.family, begun.flow_id) == (path, family or "one", "one")
    assert [status.path for status in store.manager_doors.statuses("one")] == ["north", "south"]


def test_a_file_with_a_graph_of_its_managers_has_a_single_flow(tmp_path: Path) -> None:
    definition = definition_in(EXAMPLE, None, None)
    assert [member.path for member in definition.members] == ["shops", "deliver"]
    chosen = manager_in(EXAMPLE, "Shops")
    assert chosen is not None
    more = tmp_path / "more.py"
    more.write_text(EXAMPLE.read_text() + "\n\nclass Other(Shops):\n    pass\n")
    with pytest.raises(BadInput, match="has several flows"):
        definition_in(more, None, None)


def deliver(shops: dict[str, Any]) -> str:
    return f"{shops['counts']['completed']} of {shops['stats']['crawlmanager/scheduled_jobs']}: {shops['close_reason']}"


class Four(Shops):
    def set_parameters_gen(self) -> Iterator[Any]:
        yield from ({"shop": number} for number in range(4))


def test_a_graph_with_a_manager_runs_in_memory() -> None:
    workflow = Workflow("w").add("shops", manager(Four, "--max-running-jobs", "2")).add("deliver", deliver, "shops")
    assert run_inline(workflow).assert_completed().results["deliver"] == "4 of 4: finished"
    failing = run_inline(workflow, crawls={"shops/2": failed(), "shops/4": [failed(), completed()]})
    assert failing.results["deliver"] == "2 of 4: finished_with_failures"
    assert failing.results["shops"]["counts"]["failed"] == 2
    assert run_inline(workflow, fails={"shops": 1}).states["deliver"] == "cancelled"
    with pytest.raises(BadInput, match="has no crawl 'shop/2'"):
        run_inline(workflow, crawls={"shop/2": failed()})
    refused = run_inline(workflow, crawls={"shops/2": RefusedCrawl()})
    assert "cannot be refused here: use a ManagerPlay" in refused.reasons["shops"]


def test_a_named_manager_in_memory_has_a_chosen_result() -> None:
    workflow = Workflow("w").add("shops", manager("shops")).add("deliver", deliver, "shops")
    assert "choose its result" in run_inline(workflow).reasons["shops"]
    chosen = {"counts": {"completed": 1}, "stats": {"crawlmanager/scheduled_jobs": 1}, "close_reason": "enough"}
    assert run_inline(workflow, results={"shops": chosen}).results["deliver"] == "1 of 1: enough"


def by_a_client(workflow: Workflow) -> None:
    with MemoryFlows.open_sync() as flows:
        flows.push(workflow)


def by_http(workflow: Workflow) -> None:
    ApiFlows(HttpConnection("http://127.0.0.1:1", "token", 1)).push(PushFlow(definition=workflow.definition()))


@pytest.mark.parametrize("push", [by_a_client, by_http, lambda workflow: asyncio.run(workflow.push())])
def test_code_of_a_manager_pushes_no_flow(push: Callable[[Workflow], object]) -> None:
    class Pushing(Four):
        def finished_ok_hook(self, *_: Any) -> None:
            push(Workflow("inner", id="inner").add("again", crawl("shop")))

    play = ManagerPlay(Pushing)
    play.cycle()
    play.end()
    with pytest.raises(AuthorsFailure, match=r"a crawl manager's code pushes no flow.*by manager\(\.\.\.\)"):
        play.cycle()
    by_a_client(Workflow("outer", id="outer").add("again", crawl("shop")))  # the test's own code may push


def test_a_check_counts_managers() -> None:
    checked = CliRunner().invoke(main, ["flow", "check", str(EXAMPLE), "--catalogue", str(CATALOGUE)])
    assert "workflow shops-and-delivery: 2 jobs (1 manager, 1 step)" in checked.output
