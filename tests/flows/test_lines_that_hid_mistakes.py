import json
from datetime import UTC, datetime
from pathlib import Path

import click
import pytest

from crawler_lifecycle.flows.cli.watching import FlowReport, end_lines
from crawler_lifecycle.flows.model.records import FlowStatus, MemberRecord
from crawler_lifecycle.model.flow_states import FlowState, MemberState
from tests.kit.service.commands import Crawlctl

pytestmark = pytest.mark.regression(
    "`crawlers --check` counted further mistakes in an entry, and the end of a flow hid outcomes and further errors"
)

NOON = datetime(2026, 11, 26, 12, tzinfo=UTC)


def test_every_mistake_is_a_line(crawlctl: Crawlctl, tmp_path: Path) -> None:
    file = tmp_path / "catalogue.toml"
    file.write_text(
        '[crawlers.books]\ncommand = ["true"]\nprocesses = 0\nmax_parallel = 0\n'
        '[managers.a]\nqueue = ""\n[managers.b]\nclass = "Shops"\n'
    )
    result = crawlctl("crawlers", "--check", str(file))
    assert result.exit_code == 2
    assert sorted(line.removeprefix(f"{file}: ") for line in result.stdout.splitlines()) == [
        "crawlers.books: max_parallel: expected at least 1, not 0",
        "crawlers.books: processes: expected at least 1, not 0",
        "managers.a: class: is missing",
        "managers.a: queue: expected 1 or more characters",
        "managers.b: class: expected `module:Class` or `module:function`, not 'Shops'",
    ]


def test_a_good_catalogue_names_its_managers(crawlctl: Crawlctl, tmp_path: Path) -> None:
    file = tmp_path / "catalogue.toml"
    file.write_text('[crawlers.books]\ncommand = ["true"]\n[managers.shops]\nclass = "m:Shops"\n')
    line = crawlctl("crawlers", "--check", str(file)).stdout
    assert line == f"{file} is valid: 1 crawler (books); crawl managers: shops\n"
    assert json.loads(crawlctl("crawlers", "--check", str(file), "--json").stdout)["managers"] == ["shops"]


def test_the_end_of_a_flow_names_outcomes_and_further_errors() -> None:
    status = FlowStatus(id="w", uid="u", state=FlowState.DISCARDED, total=5, counts={MemberState.DISCARDED: 5})
    failed = [
        MemberRecord(
            flow_id="w",
            path=f"step-{number}",
            number=number,
            kind="step",
            title="step",
            state=MemberState.DISCARDED,
            attempt=1,
            outcome="error",
        )
        for number in range(5)
    ]
    errors = {job.path: "ValueError" for job in failed[:3]}
    lines = [
        click.unstyle(line).strip()
        for line in end_lines(FlowReport(status=status, failed=failed, errors=errors, results={}))
    ]
    assert "discarded step-4: error" in lines
    assert lines[-1] == "... and 2 more (`crawlctl flow jobs w --status discarded --attempts`)"


def test_up_says_that_it_hosts_managers(crawlctl: Crawlctl) -> None:
    words = " ".join(crawlctl("up", "--help").stdout.split())
    assert "Host the steps and crawl managers in a module or a .py file; repeatable." in words
