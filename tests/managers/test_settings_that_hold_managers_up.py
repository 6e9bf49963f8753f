from pathlib import Path

import pytest

from crawler_lifecycle.errors import BadInput
from crawler_lifecycle.flows.model.manager_records import ManagerStatus
from crawler_lifecycle.flows.model.records import Why
from crawler_lifecycle.flows.rules.managers import manager_explained
from crawler_lifecycle.managers.authors.defining import build
from crawler_lifecycle.model.flow_states import FlowIntent, MemberState
from tests.flows.plays import NOW
from tests.kit.service.commands import Crawlctl
from tests.managers.authors import Shops

pytestmark = pytest.mark.regression(
    "A cap below 0 started no job, and a manager without loop_mode closed early: neither was mentioned beforehand"
)

FILE = """
from crawler_lifecycle.managers import GeneratorCrawlManager


class Nightly(GeneratorCrawlManager):
    name = "nightly"
    spider = "books"

    def set_parameters_gen(self):
        yield {"shop": "a"}
"""
WARNING = "warning: loop_mode is 0: the manager starts jobs in a single cycle, then closes"


@pytest.mark.parametrize("number", ["-3", "two"])
def test_a_cap_below_0_is_refused(number: str) -> None:
    expected = f"--max-running-jobs: expected a whole number from 0 on, not '{number}'"
    with pytest.raises(BadInput, match=expected):
        build(Shops, [f"--max-running-jobs={number}"])


def test_an_explanation_does_not_blame_the_generator_alone() -> None:
    status = ManagerStatus(path="m", function="m:Shops", incarnation=1, read=3)
    member = Why(path="m", state=MemberState.EXECUTING, cause=None, since=NOW, until=None)
    cause = manager_explained(status, member, FlowIntent.RUN).cause
    assert cause == (
        "generator: no item is open, and the manager's code has not ended or lets no job start now (3 sets read)"
    )


@pytest.mark.parametrize("command", ["check", "start"])
@pytest.mark.usefixtures("stored")
def test_a_single_cycle_is_mentioned_before_the_start(crawlctl: Crawlctl, tmp_path: Path, command: str) -> None:
    file = tmp_path / f"nightly_{command}.py"
    file.write_text(FILE)
    result = crawlctl("flow", command, str(file))
    assert [line.startswith(WARNING) for line in result.stderr.splitlines()][:1] == [True], result.output
    assert "warning" not in crawlctl("flow", command, str(file), "--", "--loop-mode", "5").stderr
