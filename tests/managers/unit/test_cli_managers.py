"""Crawl managers by `crawlctl flow`, on a database, with Temporal away."""

import csv
import io
import json
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from crawler_lifecycle.database.database import Database
from crawler_lifecycle.flows.model.manager_records import OutputLine
from crawler_lifecycle.model.flow_states import EndKind
from crawler_lifecycle.model.manager_items import CodeProblem, Item, Verdict
from crawler_lifecycle.model.requests import RunParameters
from crawler_lifecycle.model.states import RunStatus
from tests.kit.data.managers import Managed, item, managed, over
from tests.kit.service.commands import Crawlctl
from tests.managers.manager_files import FILE

Flow = Callable[..., Result]
NAMELESS = """
from crawler_lifecycle.managers import CrawlManager


class One(CrawlManager):
    pass
"""
PERIODIC = """
from crawler_lifecycle.managers import PeriodicCrawlManager


class Again(PeriodicCrawlManager):
    name = "again"
    spider = "books"
"""


@pytest.fixture
def flow(state_url: str, typed: Crawlctl, monkeypatch: pytest.MonkeyPatch) -> Flow:
    monkeypatch.setenv("TEMPORAL_ADDRESS", "127.0.0.1:1")
    assert state_url
    return lambda *words: typed("flow", *words)


@pytest.fixture
def file(tmp_path: Path) -> Iterator[Path]:
    """An author's file, whose module is forgotten after the test."""
    before, known = list(sys.path), set(sys.modules)
    path = tmp_path / "my_managers.py"
    path.write_text(FILE)
    yield path
    sys.path[:] = before
    for name in set(sys.modules) - known:
        if getattr(sys.modules[name], "__file__", "") in map(str, tmp_path.glob("*.py")):
            del sys.modules[name]


@pytest.fixture
def database(state_url: str, flow: Flow) -> Iterator[Database]:
    database = Database(state_url, pool_size=2)
    yield database
    database.close()


@pytest.fixture
def ledger(database: Database) -> Managed:
    """Three items: the first failed, the second waits with a tag, the third runs."""
    flow = managed(database)
    tagged = item("b")
    assert tagged.request is not None
    tagged = tagged.model_copy(update={"request": tagged.request.model_copy(update={"tags": ["north"]})})
    flow.commit(item("a"), tagged, item("c"))
    flow.ended_run(flow.started(1), RunStatus.FAILED)
    flow.react(flow.ended()[0], Verdict.BAD)
    flow.run_of(flow.started(3))
    return flow


def said(result: Result, status: int = 0) -> Any:
    assert result.exit_code == status, result.output
    return json.loads(result.stdout if status == 0 else result.stderr)


def lines(result: Result, status: int = 0) -> list[str]:
    assert result.exit_code == status, result.output
    return [line.rstrip() for line in (result.stdout if status == 0 else result.stderr).splitlines()]


def test_a_manager_is_started_once_under_its_flow_id(flow: Flow, file: Path) -> None:
    target = f"{file}:Shops"
    started = said(flow("start", target, "--id", "november", "--json", "--", "--own", "5"))
    assert (started["flow_id"], started["created"], started["nudged"]) == ("november/nightly", True, False)
    again = said(flow("start", target, "--id", "november/nightly", "--json", "--", "--own", "5"))
    assert (again["flow_id"], again["created"], again["changed"]) == ("november/nightly", False, False)
    inside = said(flow("start", target, "--json", "--", "--own", "5", "--flow-id", "december"))
    assert inside["flow_id"] == "december/nightly"
    refused = said(flow("start", target, "--id", "november", "--json", "--", "--own", "6"), 6)
    assert "other arguments" in refused["message"]
    new = said(flow("start", str(file), "--json"))
    assert new["created"]
    assert new["flow_id"].endswith("/nightly")
    (status,) = said(flow("show", "november/nightly", "--json"))["managers"]
    assert (status["function"], status["arguments"]) == ("my_managers:Shops", ["--own", "5"])
    assert len(said(flow("list", "--json"))) == 3


def test_a_class_of_another_machine_needs_a_name(flow: Flow) -> None:
    assert "is not on this machine" in said(flow("start", "nobody.has_this:Shops", "--json"), 2)["message"]
    words = ("start", "nobody.has_this:Shops", "--name", "nightly", "--json", "--", "--flow-id", "november")
    assert said(flow(*words))["flow_id"] == "november/nightly"


def test_a_catalogue_name_needs_the_scheduler_service(flow: Flow) -> None:
    assert "no scheduler service is known" in said(flow("start", "shops", "--json"), 4)["message"]


@pytest.mark.parametrize(
    ("source", "words", "message"),
    [
        (FILE, ("my_managers.py:Absent",), "has no crawl manager Absent"),
        (FILE + PERIODIC, ("my_managers.py",), "my_managers.py:Again or "),
        (FILE + PERIODIC, ("my_managers.py:Absent",), "my_managers.py:Again or "),
        ("x = 1", ("my_managers.py",), "has no crawl manager at its top level"),
        (FILE, ("my_managers.py", "--", "--spider-args", "{x"), "--spider-args: is no JSON"),
        (FILE, ("my_managers.py", "--", "--spider-args", "[1]"), "expected a JSON object"),
        (FILE, ("my_managers.py", "--", "--unknown"), "unrecognized arguments: --unknown"),
        (FILE, ("my_managers.py", "--", "--load-sc-settings"), "no Scrapy Cloud"),
        (FILE, ("my_managers.py", "--id", "a", "--", "--flow-id", "b"), "is 'a' here, and 'b'"),
        (FILE, ("my_managers.py", "--name", "x"), "names itself"),
        (NAMELESS, ("my_managers.py",), "the following arguments are required: name, spider"),
        (PERIODIC, ("my_managers.py",), "needs the seconds between its cycles"),
        (FILE, ("absent.py",), "no such file"),
        (FILE, ("my_managers:Absent",), "defines no crawl manager 'Absent'"),
    ],
)
@pytest.mark.long
def test_wrong_starts_get_a_line_and_leave_nothing(
    flow: Flow, file: Path, monkeypatch: pytest.MonkeyPatch, source: str, words: tuple[str, ...], message: str
) -> None:
    file.write_text(source)
    monkeypatch.chdir(file.parent)
    (line,) = lines(flow("start", *words), 2)
    assert message in line
    assert said(flow("list", "--json")) == []


def test_arguments_are_for_managers(flow: Flow, file: Path) -> None:
    file.write_text("from crawler_lifecycle.flows import Workflow, crawl\nflow = Workflow('w').add('a', crawl('b'))")
    (line,) = lines(flow("run", str(file), "--", "--own", "3"), 2)
    assert "are for crawl managers" in line


@pytest.mark.long
def test_the_ledger_names_the_failed_items(flow: Flow, ledger: Managed) -> None:
    (failed,) = said(flow("jobs", ledger.id, "--status", "failed", "--json"))
    assert (failed["number"], failed["outcome"], failed["override"]) == (1, "failed", {"shop": "a"})
    assert [job["number"] for job in said(flow("jobs", ledger.id, "--json"))] == [1, 2, 3]
    assert [job["number"] for job in said(flow("jobs", ledger.id, "--outcome", "failed", "--json"))] == [1]
    assert [job["number"] for job in said(flow("jobs", ledger.id, "--tag", "north", "--json"))] == [2]
    assert [job["number"] for job in said(flow("jobs", ledger.id, "2", "3", "--json"))] == [2, 3]
    page = lines(flow("jobs", ledger.id, "--limit", "2"))
    assert [line.split()[:3] for line in page[1:3]] == [["1", "books", "failed"], ["2", "books", "waiting"]]
    assert page[-1] == "The next page: --after 2"
    assert [line.split()[0] for line in lines(flow("jobs", ledger.id, "--after", "2"))] == ["ITEM", "3"]


def test_the_ledger_shows_the_arguments_of_the_crawl(flow: Flow, database: Database) -> None:
    manager = managed(database)
    request = RunParameters(crawler="books", arguments={"shop": "a", "depth": "3"})
    manager.commit(
        Item(override={"spider": "books"}, request=request),
        Item(override={"spider_args": {"shop": "b"}}, problem="the parameters name no spider"),
    )
    shown = "\n".join(lines(flow("jobs", manager.id)))
    assert "shop=a depth=3" in shown
    assert "spider=books" not in shown
    assert "shop=b" in shown, "refused parameters as their author wrote them"
    rows = csv.DictReader(io.StringIO(flow("jobs", manager.id, "--csv").stdout))
    assert [json.loads(row["spider_args"]) for row in rows] == [{"shop": "a", "depth": "3"}, {"shop": "b"}]
    assert [item["arguments"] for item in said(flow("jobs", manager.id, "--json"))] == [request.arguments, None]


def test_the_ledger_as_csv(flow: Flow, ledger: Managed) -> None:
    rows = list(csv.DictReader(io.StringIO(flow("jobs", ledger.id, "--csv").stdout)))
    assert [(row["number"], row["state"], row["outcome"]) for row in rows] == [
        ("1", "failed", "failed"), ("2", "waiting", ""), ("3", "running", ""),
    ]  # fmt: skip
    assert rows[1]["tags"] == "north"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("jobs", "shops/nightly", "--status", "executing"), "'executing' is no state here"),
        (("jobs", "shops/nightly", "one"), "'one' is no number of an item"),
        (("retry", "shops/nightly", "one"), "'one' is no number of an item"),
        (("retry", "shops/nightly", "--completed"), "not for items"),
        (("retry", "shops/nightly", "1", "--spider", ""), "spider"),
        (("add", "shops/nightly", "--item", "{x"), "--item: is no JSON"),
        (("add", "shops/nightly", "--item", "[]"), "--item: expected a JSON object"),
        (("add", "shops/nightly", "--item", '{"shop": null}'), "item 1: spider_args.shop"),
        (("add", "shops/nightly"), "expected FILE with --key"),
        (("add", "shops/nightly", "--items", "absent.jsonl"), "cannot be read"),
        (("jobs", "shops/nightly", "--manager", "absent"), "name one of the flow's crawl managers"),
    ],
)
@pytest.mark.long
def test_wrong_requests_get_a_line(flow: Flow, ledger: Managed, words: tuple[str, ...], message: str) -> None:
    (line,) = lines(flow(*words), 2)
    assert message in line


def test_unknown_flows_and_items_are_not_found(flow: Flow, ledger: Managed) -> None:
    for words in (("jobs", "x"), ("retry", "x"), ("retry", ledger.id, "9"), ("why", ledger.id, "9"), ("show", "x")):
        assert flow(*words).exit_code == 3, words


def test_items_are_added_retried_and_cancelled(flow: Flow, ledger: Managed, tmp_path: Path) -> None:
    assert said(flow("retry", ledger.id, "--arg", "depth=3", "--json"))["count"] == 1
    (again,) = said(flow("jobs", ledger.id, "1", "--json"))
    assert (again["state"], again["generation"], again["override"]["spider_args"]) == ("waiting", 2, {"depth": "3"})
    added = said(flow("add", ledger.id, "--item", '{"shop": "d", "tags": ["south"]}', "--key", "more", "--json"))
    assert (added["count"], added["changed"]) == (1, True)
    repeated = lines(flow("add", ledger.id, "--item", '{"shop": "d"}', "--key", "more"))
    assert "nothing added, the key 'more' was used" in repeated[0]
    (tmp_path / "items.jsonl").write_text('{"shop": "e"}\n\n{"shop": "f", "spider": "other"}\n')
    assert said(flow("add", ledger.id, "--items", str(tmp_path / "items.jsonl"), "--json"))["count"] == 2
    items = said(flow("jobs", ledger.id, "--after", "3", "--json"))
    assert [(entry["number"], entry["crawler"]) for entry in items] == [(4, "books"), (5, "books"), (6, "other")]
    assert said(flow("cancel", ledger.id, "5", "6", "--json"))["count"] == 2
    under_way = flow("cancel", ledger.id, "3")
    assert (under_way.exit_code, under_way.stderr) == (
        6,
        "Error: not cancelled: '3' is running: a stop of its run ends the crawl\n",
    )


@pytest.mark.parametrize("is_paused", [True, False])
def test_a_retry_of_an_ended_manager_says_what_the_manager_waits_for(
    flow: Flow, ledger: Managed, is_paused: bool
) -> None:
    if is_paused:
        ledger.hold("pause")
    over(ledger, "left")
    line, *_ = lines(flow("retry", ledger.id, "1"))
    assert "1 item retried; the manager continues with all that it has not done" in line
    assert ("after `crawlctl flow resume shops/nightly`: the flow is paused" in line) is is_paused


@pytest.mark.long
def test_why_explains_an_item(flow: Flow, ledger: Managed) -> None:
    assert said(flow("why", ledger.id, "1", "--json"))["cause"] == "failed"
    assert said(flow("why", ledger.id, "2", "--json"))["cause"].startswith("room: 1 job runs")
    (because,) = said(flow("why", ledger.id, "3", "--json"))["because"]
    assert because["path"].startswith("run ")
    assert flow("pause", ledger.id).exit_code == 0
    assert said(flow("why", ledger.id, "2", "--json"))["cause"] == "paused: the flow is paused"


def test_a_problem_is_shown_everywhere_and_cleared_by_a_resume(flow: Flow, ledger: Managed) -> None:
    error = "Traceback (most recent call last):\nValueError: no such shop"
    ledger.managers.pause(ledger.mine, CodeProblem(phase="finished_ok_hook", error=error, failures=5))
    shown = "\n".join(lines(flow("show", ledger.id)))
    assert "paused: finished_ok_hook failed 5 times" in shown
    assert "ValueError: no such shop" in shown
    assert "paused by a failure" in "\n".join(lines(flow("list")))
    assert said(flow("why", ledger.id, "2", "--json"))["cause"].startswith("manager_paused: finished_ok_hook failed")
    assert flow("resume", ledger.id).exit_code == 0
    assert said(flow("show", ledger.id, "--json"))["managers"][0]["problem"] is None


def test_lists_and_views_have_the_items(flow: Flow, ledger: Managed) -> None:
    assert "3 items: 2 open, 1 failed" in "\n".join(lines(flow("list")))
    shown = "\n".join(lines(flow("show", ledger.id)))
    assert "items     3: 1 running, 1 waiting, 1 failed" in shown
    assert "arguments --own 3" in shown


def test_a_manager_without_a_host_says_so(flow: Flow, database: Database) -> None:
    waiting = managed(database, begins=False)
    assert "no_host" in "\n".join(lines(flow("show", waiting.id)))


def test_a_preview_writes_nothing(flow: Flow, file: Path, tmp_path: Path) -> None:
    catalogue = tmp_path / "catalogue.toml"
    catalogue.write_text('[crawlers.books]\ncommand = ["true"]\n')
    words = ("check", str(file), "--catalogue", str(catalogue))
    result = flow(*words, "--first", "2", "--duration", "1h", "--", "--own", "8")
    assert result.exit_code == 2, result.output
    head, *rest = result.stdout.splitlines()
    assert head == "manager nightly: 10 inputs read, 8 jobs, 1 duplicate skipped, 1 refused"
    assert rest[:3] == ["  1  books  shop=shop-0", "  2  books  shop=shop-1", "  ... and 6 further jobs"]
    assert rest[3] == "  9  duplicate of 1"
    assert rest[4].startswith("  10  refused: spider_args.shop: expected a text")
    assert rest[5] == "forecast: 2 hours with 4 jobs at once"
    assert "further" not in flow(*words, "--first", "8", "--", "--own", "8").stdout
    catalogue.write_text('[crawlers.other]\ncommand = ["true"]\n')
    assert "crawler 'books' is not in the catalogue" in flow(*words).stdout
    assert said(flow("list", "--json")) == []


def test_a_preview_names_what_a_class_takes_from_shub_workflow_in_vain(flow: Flow, file: Path) -> None:
    file.write_text(f"{FILE}\n    def upload_stats(self):\n        pass\n")
    line = FILE.count("\n") + 2
    shown = flow("check", str(file), "--", "--own", "2").stdout.splitlines()
    place = shown.index("not as in shub-workflow:") + 1
    assert (
        shown[place]
        == f"  {file}, line {line}: an own upload_stats is never called: stats are stored with each reaction"
    )
    (difference,) = json.loads(flow("check", str(file), "--json", "--", "--own", "2").stdout)["preview"]["differences"]
    assert "upload_stats" in difference


def test_a_preview_of_a_long_generator_is_cut(flow: Flow, file: Path) -> None:
    result = flow("check", str(file), "--most", "3", "--json", "--", "--own", "1000000")
    preview = said(result)["preview"]
    assert (preview["read"], preview["new"], preview["is_exhausted"]) == (3, 3, False)


def test_why_without_an_item_explains_the_manager(flow: Flow, database: Database) -> None:
    shops = managed(database)
    shops.commit(item("a"), item("b"))
    run = shops.run_of(shops.started(1))
    top, manager, job, task = flow("why", shops.id).stdout.splitlines()
    assert top.startswith("shops/nightly is executing since ")
    assert manager.split(" since ")[0] == "  manager is executing"
    assert manager.endswith(": room: 1 job under way, and 1 item without room beside these jobs")
    assert (job.split(" since ")[0], task.split(" is ")[0]) == ("    item 1 is running", f"      run {run.run_id}")
    alone = flow("why", shops.id, "manager").stdout.splitlines()
    assert alone == [line.removeprefix("  ") for line in (manager, job, task)]
    shops.managers.pause(shops.mine, CodeProblem(phase="schedule_job", error="Traceback\nKeyError: 'x'"))
    assert "manager_paused: schedule_job failed (KeyError: 'x')" in flow("why", shops.id).stdout


def test_why_of_a_manager_without_a_host_says_so(flow: Flow, database: Database) -> None:
    shops = managed(database, begins=False)
    assert ": no_host: no running host has loaded the manager m:Shops" in flow("why", shops.id).stdout


def test_a_refused_item_is_corrected_or_dismissed(flow: Flow, ledger: Managed) -> None:
    nameless = Item(override={"spider": "", "spider_args": {"shop": "d"}}, problem="the parameters name no spider")
    ledger.commit(nameless, nameless, call="refused")
    assert "item 4 is refused" in lines(flow("retry", ledger.id, "4"), 2)[0]
    assert said(flow("retry", ledger.id, "4", "--spider", "books", "--arg", "depth=3", "--json"))["count"] == 1
    (again,) = said(flow("jobs", ledger.id, "4", "--json"))
    assert (again["state"], again["crawler"], again["problem"]) == ("waiting", "books", None)
    assert again["override"]["spider_args"] == {"shop": "d", "depth": "3"}
    assert said(flow("cancel", ledger.id, "5", "--json"))["count"] == 1
    (gone,) = said(flow("jobs", ledger.id, "5", "--json"))
    assert (gone["state"], gone["problem"]) == ("cancelled", "the parameters name no spider")


def test_the_attempts_of_items(flow: Flow, ledger: Managed) -> None:
    said(flow("retry", ledger.id, "1", "--arg", "depth=3", "--json"))
    ledger.run_of(ledger.started(1))
    first, second = said(flow("jobs", ledger.id, "1", "--attempts", "--json"))
    assert (first["attempt"], first["outcome"], second["attempt"]) == (1, "failed", 2)
    assert (second["outcome"], second["changed"]) == (None, {"depth": "3"})
    head, *rows = [line.split() for line in lines(flow("jobs", ledger.id, "1", "3", "--attempts"))]
    assert head[:5] == ["ITEM", "ATTEMPT", "CRAWLER", "RUN", "OUTCOME"]
    assert [row[:3] + row[-1:] for row in rows] == [
        ["1", "1", "books", "-"], ["1", "2", "books", "depth=3"], ["3", "1", "books", "-"],
    ]  # fmt: skip
    assert flow("jobs", ledger.id, "9", "--attempts").exit_code == 3


def test_the_attempts_of_the_manager_itself(flow: Flow, ledger: Managed) -> None:
    """The name of the manager's job is no number of an item: it stands for the job."""
    error = "Traceback (most recent call last):\nKeyError: 'shop'"
    ledger.end(ledger.last("manager"), kind=EndKind.FAILED, reason="KeyError", error=error)
    attempts = said(flow("jobs", ledger.id, "manager", "--attempts", "--json"))
    assert [(attempt["host"], attempt["error"]) for attempt in attempts["manager"]] == [("host of host", error)]
    assert attempts == said(flow("jobs", ledger.id, "--attempts", "--json"))
    shown = lines(flow("jobs", ledger.id, "manager", "--attempts"))
    assert (shown[0], shown[-1]) == ("manager", "    KeyError: 'shop'")
    assert flow("jobs", ledger.id, "absent", "--attempts").exit_code == 3


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (("--status", "failed"), "--status"),
        (("--outcome", "failed", "--csv"), "--outcome, --csv"),
        (("--limit", "5", "--after", "1"), "--limit, --after"),
        (("--tag", "north"), "--tag"),
    ],
)
@pytest.mark.long
def test_the_attempts_of_items_refuse_options_without_effect(
    flow: Flow, ledger: Managed, options: tuple[str, ...], named: str
) -> None:
    (line,) = lines(flow("jobs", ledger.id, "1", "--attempts", *options), 2)
    assert f"attempts are listed without {named} " in line


@pytest.mark.long
def test_the_last_lines_of_a_manager(flow: Flow, ledger: Managed) -> None:
    line = OutputLine(at=datetime(2026, 11, 26, 3, tzinfo=UTC), text="INFO shops: 40 shops\x1b[2J")
    ledger.managers.keep_output(ledger.mine, [line])
    assert lines(flow("log", ledger.id)) == ["2026-11-26T03:00:00Z  INFO shops: 40 shops\ufffd[2J"]
    assert [entry["text"] for entry in said(flow("log", ledger.id, "--json"))] == [line.text]
    assert flow("log", "absent").exit_code == 3
