"""`flow run` reads all results at a flow's end. With more results than are read at once, it showed no end, and exited
as after a wrong command line, although the flow was completed."""

from pathlib import Path

import pytest

from crawler_lifecycle.assembly.control import Control
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.flows import Workflow
from crawler_lifecycle.flows.cli.watching import FlowReport
from crawler_lifecycle.flows.store import results as flow_results
from crawler_lifecycle.settings.installation import Installation
from tests.kit.authors.work import plain
from tests.kit.data.databases import copy_of
from tests.kit.data.flows import pushed

pytestmark = pytest.mark.regression(
    "`flow run` of a completed flow showed no end if the flow had more results than are read at once"
)


@pytest.fixture
def database_url(sqlite_template: Path, tmp_path: Path) -> str:
    """One kind is enough here: the tests in `contracts` have both."""
    return copy_of(sqlite_template, tmp_path)


def test_a_flow_ends_with_more_results_than_are_read_at_once(
    database: Database, database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = pushed(database, Workflow(id="w").add("a", plain))
    flow.go_on()
    flow.end(flow.last("a"), result='"result"')
    flow.go_on()
    control = Control(Installation.with_variables(tmp_path, {"CRAWLER_DATABASE__URL": database_url}))
    end = FlowReport.read(control.flows, control.flows.status("w"), graph=False)
    assert (end.results, end.results_problem) == ({"a": "result"}, None)
    monkeypatch.setattr(flow_results, "LARGEST_READING", 7)
    end = FlowReport.read(control.flows, control.flows.status("w"), graph=False)
    assert (end.is_success, end.results) == (True, None)
    assert "are read at once: name single jobs" in (end.results_problem or "")
    control.context.close()
