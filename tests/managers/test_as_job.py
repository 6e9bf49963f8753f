"""Managers as jobs of graphs: their definition, their place in the ledger, and refused options."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from crawler_lifecycle.adapters.sql.database import Database
from crawler_lifecycle.adapters.sql.store import SqlStore
from crawler_lifecycle.cli.flow_files import definition_in, manager_in
from crawler_lifecycle.contract.flows.requests import PushFlow
from crawler_lifecycle.errors import BadInput
from crawler_lifecycle.flows import Workflow
from crawler_lifecycle.managers import GeneratorCrawlManager, PeriodicCrawlManager, manager
from crawler_lifecycle.ports import ManagerRef
from tests.contracts.flows import Flow
from tests.databases import copy_of

EXAMPLE = Path(__file__).parents[2] / "examples" / "flows" / "shops_and_delivery.py"


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


@pytest.mark.parametrize(
    ("make", "problem"),
    [
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
        assert flow.claim(flow.last(path), token="host").mine
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
