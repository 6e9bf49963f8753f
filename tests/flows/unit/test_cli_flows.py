"""Flows by `crawlctl`, on a database, with Temporal away."""

import json
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest

from crawler_lifecycle.assembly.direct import open_control
from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.cli.flows import flow as group
from crawler_lifecycle.clusters.adapters.catalogue import Catalogue
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.errors import TemporaryError
from crawler_lifecycle.flows import Workflow
from crawler_lifecycle.flows.authors.building import fragment_of
from crawler_lifecycle.flows.cli import requests
from crawler_lifecycle.flows.cli.lines import change_lines, end_line, flow_lines, job_lines, list_lines, progress_lines
from crawler_lifecycle.flows.cli.options import print_effect
from crawler_lifecycle.flows.cli.watching import FlowReport, end_lines
from crawler_lifecycle.flows.client import ApiFlows
from crawler_lifecycle.flows.model.definition import FlowDefinition
from crawler_lifecycle.flows.model.manager_records import ItemRecord, ItemSums, ManagerStatus
from crawler_lifecycle.flows.model.records import FlowStatus, FlowSummary, MemberRecord
from crawler_lifecycle.flows.model.requests import AppendMembers, PushFlow
from crawler_lifecycle.flows.model.turns import Counts
from crawler_lifecycle.flows.ports.ledger import Delivery
from crawler_lifecycle.flows.rules import words
from crawler_lifecycle.model.flow_states import EndKind, FlowIntent, FlowState, MemberState
from crawler_lifecycle.model.manager_items import ItemState, Origin
from crawler_lifecycle.runs.client import ApiRuns
from crawler_lifecycle.stack import flow_running
from crawler_lifecycle.stack.flow_running import own_host_of
from crawler_lifecycle.transport.streams import AnswerPage
from tests.client.conftest import Hand
from tests.kit.authors.work import plain
from tests.kit.service.commands import Crawlctl

FILE = """
from crawler_lifecycle.flows import Context, Sequence, Workflow, crawl


def extract(context: Context) -> dict[str, int]:
    return {"books": 3}


def load(context: Context) -> int:
    return context["extract"]["books"]


nightly = (
    Workflow("nightly", id="nightly-1")
    .add_context({"day": "today"})
    .add("shop", crawl("bookshop"))
    .add("extract", extract, deps="shop")
    .add_approval("release", deps="extract")
    .add("load", load, deps="release")
)
"""

STATUS = FlowStatus(id="f", state=FlowState.COMPLETED, total=1)

VERBS = (
    "push", "start", "check", "run", "list", "show", "jobs", "watch", "graph", "why", "add", "approve", "cancel",
    "retry", "pause", "resume", "stop",
)  # fmt: skip


@pytest.fixture
def upgraded(crawlctl: Crawlctl, state_url: str, monkeypatch: pytest.MonkeyPatch) -> Crawlctl:
    monkeypatch.setenv("TEMPORAL_ADDRESS", "127.0.0.1:1")
    assert state_url
    return crawlctl


@pytest.fixture
def file(tmp_path: Path) -> Iterator[Path]:
    """An author's file. Its module is forgotten after the test: another test has another file of this name."""
    path, known = tmp_path / "my_graph.py", set(sys.modules)
    path.write_text(FILE)
    before = list(sys.path)
    yield path
    sys.path[:] = before
    for name in set(sys.modules) - known:
        if getattr(sys.modules[name], "__file__", "") in map(str, tmp_path.glob("*.py")):
            del sys.modules[name]


@pytest.fixture
def pushed(upgraded: Crawlctl, file: Path) -> Crawlctl:
    assert upgraded("flow", "push", str(file)).exit_code == 0
    return upgraded


@pytest.fixture
def database(state_url: str) -> Iterator[Database]:
    database = Database(state_url, pool_size=2)
    yield database
    database.close()


def hand(database: Database, flow: str = "nightly-1") -> Hand:
    store = SqlStore(database)
    return Hand(store, flow, store.flow_records.uid_of(flow))


def said(crawlctl: Crawlctl, *words: str, status: int = 0) -> Any:
    result = crawlctl("flow", *words, "--json")
    assert result.exit_code == status, result.output
    return json.loads(result.stdout if status == 0 else result.stderr)


def lines(crawlctl: Crawlctl, *words: str, status: int = 0) -> list[str]:
    result = crawlctl("flow", *words)
    assert result.exit_code == status, result.output
    printed = result.stdout if status == 0 else result.stderr.partition(" (see ")[0]
    return [line.rstrip() for line in printed.splitlines()]


def test_a_preview_of_a_workflow_counts_jobs_and_looks_crawlers_up(
    upgraded: Crawlctl, file: Path, tmp_path: Path
) -> None:
    catalogue = tmp_path / "catalogue.toml"
    catalogue.write_text('[crawlers.bookshop]\ncommand = ["true"]\n')
    result = upgraded("flow", "check", str(file), "--catalogue", str(catalogue))
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines() == [
        "workflow nightly: 4 jobs (1 approval, 1 crawl, 2 steps)",
        "  crawler bookshop: 1 crawl",
    ]
    catalogue.write_text('[crawlers.other]\ncommand = ["true"]\n')
    result = upgraded("flow", "check", str(file), "--catalogue", str(catalogue), "--json")
    assert (result.exit_code, json.loads(result.stdout)["missing_crawlers"]) == (2, ["bookshop"])
    refused = upgraded("flow", "check", str(file), "--flow", "absent")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert upgraded("flow", "check", str(file), "--", "--own", "1").exit_code == 2
    misplaced = upgraded("flow", "check", f"{file}:Shops", "--flow", "A")
    assert (misplaced.exit_code, misplaced.stderr.startswith("Error: --flow: names a flow in a file")) == (2, True)
    assert json.loads(upgraded("flow", "list", "--json").stdout) == []


@pytest.mark.parametrize("known", [False, True], ids=["without a stack", "beside a stack"])
def test_a_run_refuses_unknown_crawlers_before_it_starts(
    crawlctl: Crawlctl, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, known: bool
) -> None:
    """The flow was pushed, and discarded a moment later."""
    begun: list[str] = []

    async def begin(_: object, definition: FlowDefinition, *__: object) -> int:
        begun.append(definition.id)
        return 0

    monkeypatch.setattr(flow_running, "run_to_end", begin)
    catalogue = tmp_path / "catalogue.toml"
    words = ["flow", "run", str(file)]
    if known:
        monkeypatch.setenv("TEMPORAL_ADDRESS", "127.0.0.1:1")
        monkeypatch.setattr(flow_running, "_names_of", lambda _: Catalogue.load(catalogue).names())
    else:
        words += ["--catalogue", str(catalogue)]
    catalogue.write_text('[crawlers.other]\ncommand = ["true"]\n')
    refused = crawlctl(*words)
    assert (refused.exit_code, begun) == (2, []), refused.output
    assert refused.stderr.startswith("Error: FILE: the catalogue has no crawler 'bookshop': `crawlctl crawlers")
    catalogue.write_text('[crawlers.bookshop]\ncommand = ["true"]\n')
    assert (crawlctl(*words).exit_code, begun) == (0, ["nightly-1"])


def test_every_verb_has_help_and_json() -> None:
    for name, command in group.commands.items():
        assert command.help, name
        assert "as_json" in {param.name for param in command.params}, name
    assert {*VERBS} <= group.commands.keys()


def test_a_push_tells_that_the_flow_starts_later(upgraded: Crawlctl, file: Path) -> None:
    first, later = lines(upgraded, "push", str(file))
    assert first == "flow nightly-1: made with 4 jobs"
    assert later.startswith("  recorded, and takes effect later: Temporal does not answer")
    again = said(upgraded, "push", str(file), "--flow", "nightly")
    assert (again["created"], again["changed"], again["nudged"]) == (False, False, False)
    other = said(upgraded, "push", str(file), "--id", "nightly-2", "--actor", "ann")
    assert (other["flow_id"], other["created"]) == ("nightly-2", True)
    flows = said(upgraded, "list")
    assert [(flow["id"], flow["name"], flow["created_by"] == "ann (token embedded)") for flow in flows] == [
        ("nightly-2", "nightly", True),
        ("nightly-1", "nightly", False),
    ]


def test_a_push_takes_json_without_code(upgraded: Crawlctl, tmp_path: Path) -> None:
    file = tmp_path / "shops.json"
    work = {"kind": "crawl", "request": {"crawler": "bookshop"}}
    file.write_text(json.dumps({"id": "shops", "members": [{"path": "one", "work": work}]}))
    assert said(upgraded, "push", str(file))["count"] == 1
    file.write_text(json.dumps({"id": "shops", "members": [{"path": "one", "work": work, "prio": 1}]}))
    failure = said(upgraded, "push", str(file), status=2)
    problem = f"FILE: {file}: members.0.prio: is not a known field"
    assert (failure["error"], failure["message"]) == ("bad_input", problem)
    file.write_text("{")
    assert "Invalid JSON" in said(upgraded, "push", str(file), status=2)["message"]
    assert "only one" in said(upgraded, "push", str(file), "--flow", "x", status=2)["message"]


PORTED = """
from crawler_lifecycle.client import Flows, WorkflowPlugin
from crawler_lifecycle.flows import Workflow, job

@job()
async def top(): print("Top")

async def main():
    async with Flows.open() as chancy:
        await WorkflowPlugin.push(chancy, Workflow("example").add("top", top))
"""


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        ("import nobody_has_this", (), "cannot be imported: ModuleNotFoundError: No module named 'nobody_has_this' ("),
        ("x = (", (), "cannot be imported: SyntaxError"),
        ("raise SystemExit(3)", (), "cannot be imported: SystemExit: 3"),
        ("x = 1", (), "has no workflow, no sequence, no crawl manager and no function `workflow`"),
        ("x = 1", ("--flow", "y"), "has no 'y'"),
        ("x = 1", ("--flow", "x"), "--flow: 'x' is no workflow and no function that returns a workflow, but 1"),
        ("def flow(day): ...", (), "'flow' is called without arguments, and cannot be: missing a required argument"),
        ("def workflow(): return 3", (), "'workflow' is no workflow and no function that returns a workflow, but 3"),
        (PORTED, (), "no function `workflow` that returns one"),
        (PORTED, ("--flow", "top"), "--flow: 'top' is a step, and no workflow"),
        (PORTED, ("--flow", "main"), "main() pushes a workflow itself, and nothing hosts its steps: return"),
        ("{w}a = Workflow()\nb = Workflow()", (), "has several workflows: choose with --flow a or --flow b"),
        (
            "{w}a = Workflow()\nb = Workflow().add_workflow('a', a)\nc = Workflow()",
            (),
            "has several workflows: choose with --flow b or --flow c",
        ),
        ("{w}a = Workflow()", (), "workflow: '"),
        ("{w}a = Workflow().add('x', lambda: 1)", (), ": job of 'x': <lambda> has no name: a step is"),
        ("{w}a = Workflow().add('x', print, deps='y')", (), "'y' is not in the workflow yet"),
        ("{w}def x(): ...\na = Workflow(check_deps=False).add('x', x, deps='z').add('z', x, deps='x')", (),
         "deps: form a cycle: "),
    ],
)  # fmt: skip
@pytest.mark.long
def test_bad_files_get_one_line_and_leave_nothing(
    upgraded: Crawlctl, file: Path, source: str, options: tuple[str, ...], message: str
) -> None:
    file.write_text(source.replace("{w}", "from crawler_lifecycle.flows import Workflow\n"))
    result = upgraded("flow", "push", str(file), *options)
    assert result.exit_code == 2, result.output
    assert message in result.stderr
    assert (len(result.stderr.splitlines()), result.stdout) == (1, "")
    assert said(upgraded, "list") == []


@pytest.mark.parametrize(
    ("source", "flow"),
    [
        ("a = Workflow('by_object').add('x', x)\nagain = a", None),
        ("a = Sequence('by_object', [x])", None),
        ("def workflow(): return Workflow('by_object').add('x', x)\nother = Workflow('other').add('x', x)", None),
        ("async def flow(): return Workflow('by_object').add('x', x)", None),
        ("def mine(): return Sequence('by_object', [x])\ndef flow(): return Workflow('other')", "mine"),
        ("a = Workflow('other').add('x', x)\nb = Workflow('by_object').add('x', x)", "b"),
    ],
)
def test_a_workflow_is_found_in_its_file(upgraded: Crawlctl, file: Path, source: str, flow: str | None) -> None:
    file.write_text(f"from crawler_lifecycle.flows import Sequence, Workflow\ndef x(): ...\n{source}")
    said(upgraded, "push", str(file), *(["--flow", flow] if flow else []))
    (pushed,) = said(upgraded, "list")
    assert pushed["name"] == "by_object"


def test_a_missing_file_is_named(upgraded: Crawlctl) -> None:
    assert lines(upgraded, "push", "nowhere.py", status=2) == ["Error: FILE: nowhere.py: no such file"]
    assert lines(upgraded, "push", "nowhere.json", status=2) == ["Error: FILE: nowhere.json: no such file"]


def test_lists_and_tables(pushed: Crawlctl, database: Database) -> None:
    title, row = lines(pushed, "list")
    assert title.split() == ["ID", "NAME", "STATE", "JOBS", "CREATED", "TOOK", "WAITS", "FOR"]
    assert row.startswith("nightly-1  nightly  executing  3 suspended, 1 available  ")
    assert lines(pushed, "list", "--status", "completed") == [
        "ID  NAME  STATE  JOBS  CREATED  TOOK  WAITS FOR",
        "No such flows.",
    ]
    assert said(pushed, "list", "--before", "nightly-1") == []
    assert "there is no flow 'x'" in lines(pushed, "list", "--before", "x", status=3)[0]
    hand(database).go_on()
    table = lines(pushed, "jobs", "nightly-1")
    assert [line.split()[:4] for line in table[1:3]] == [
        ["shop", "crawl", "bookshop", "executing"], ["extract", "step", "extract", "suspended"],
    ]  # fmt: skip
    assert [job["path"] for job in said(pushed, "jobs", "nightly-1", "load", "shop")] == ["shop", "load"]
    assert [job["path"] for job in said(pushed, "jobs", "nightly-1", "--status", "executing")] == ["shop"]
    assert "has no job 'x'" in lines(pushed, "jobs", "nightly-1", "x", status=3)[0]


def test_a_flow_is_shown_with_its_failures_and_timeline(pushed: Crawlctl, database: Database) -> None:
    pushed("flow", "cancel", "nightly-1", "shop", "--reason", "not \x1b[31mtoday", "--actor", "ann")
    hand(database).go_on()
    shown = lines(pushed, "show", "nightly-1")
    assert shown[0] == "nightly-1  cancelled"
    assert "  jobs          4: 4 cancelled" in shown
    assert "  cancelled shop: cancel_requested" in shown
    assert "  3 jobs cancelled after a dependency failed" in shown
    assert any(
        line.endswith("cancelled by ann (token embedded): 1 job: not \N{REPLACEMENT CHARACTER}[31mtoday")
        for line in shown
    )
    answer = said(pushed, "show", "nightly-1")
    assert (answer["status"]["state"], len(answer["failed"])) == ("cancelled", 4)
    assert [line["event"] for line in answer["timeline"]][:2] == ["pushed", "cancelled"]
    assert lines(pushed, "show", "nobody", status=3) == ["Error: there is no flow 'nobody'"]


def test_the_attempts_of_a_job_are_shown_with_their_errors_and_code(upgraded: Crawlctl, database: Database) -> None:
    SqlStore(database).flow_doors.push(PushFlow(definition=Workflow(id="w").add("a", plain, retries=1).definition()))
    flow = hand(database, "w")
    for version in ("one", "two"):
        flow.begin_steps(flow.start("a"), token=version, code_version=version)
        flow.end(flow.last("a"), token=version, kind=EndKind.FAILED, outcome="Oops", error="Traceback\nOops: \x1b[31m")
    shown = lines(upgraded, "jobs", "w", "a", "--attempts")
    assert shown == [
        "a",
        "  attempt 1  failed  Oops, host host of one, code one",
        "    Traceback",
        "    Oops: \N{REPLACEMENT CHARACTER}[31m",
        "  attempt 2  failed  Oops, host host of two, code two",
        "    Traceback",
        "    Oops: \N{REPLACEMENT CHARACTER}[31m",
    ]
    answer = said(upgraded, "jobs", "w", "--attempts")
    assert [attempt["code_version"] for attempt in answer["a"]] == ["one", "two"]


@pytest.mark.long
def test_why_is_indented_down_to_the_cause(pushed: Crawlctl) -> None:
    shown = lines(pushed, "why", "nightly-1", "load")
    assert [line.split(" since ")[0] for line in shown] == [
        "load is suspended",
        "  release is suspended",
        "    extract is suspended",
        "      shop is available",
    ]
    assert shown[-1].endswith(": no_supervisor: no worker continues the flow (crawlctl doctor shows the workers)")
    assert said(pushed, "why", "nightly-1", "load")["because"][0]["path"] == "release"


def test_why_of_a_flow_names_the_nearest_causes(pushed: Crawlctl, database: Database) -> None:
    shown = lines(pushed, "why", "nightly-1")
    assert shown[0].startswith("nightly-1 is executing since ")
    assert shown[0].endswith(": 3 suspended, 1 available")
    assert [line.split(" since ")[0] for line in shown[1:]] == ["  shop is available"]
    engine = hand(database)
    (crawl,) = engine.start_crawls(engine.start("shop")).crawls
    engine.run(crawl)
    shop = said(pushed, "why", "nightly-1")["because"][0]
    assert (shop["path"], [inner["path"] for inner in shop["because"]]) == ("shop", ["run 1"])
    assert "there is no flow 'nobody'" in lines(pushed, "why", "nobody", status=3)[0]


def test_pictures_of_flows_and_files(pushed: Crawlctl, file: Path) -> None:
    assert lines(pushed, "graph", "nightly-1")[0] == "flowchart TD"
    plain = lines(pushed, "graph", "nightly-1", "--no-states")
    assert plain == lines(pushed, "graph", str(file))
    assert lines(pushed, "graph", str(file), "--format", "dot", "--flow", "nightly")[0] == 'digraph "nightly" {'
    states = said(pushed, "graph", "nightly-1", "--format", "states-dot")["graph"]
    assert '"shop" [label="shop\\n(pending)", fillcolor=lightblue];' in states


def test_cancel_retry_approve_and_holds(pushed: Crawlctl, database: Database) -> None:
    assert lines(pushed, "cancel", "nightly-1", "load")[0] == "flow nightly-1: 1 job cancelled"
    assert lines(pushed, "cancel", "nightly-1", "load")[0] == "flow nightly-1: 0 jobs cancelled"
    assert lines(pushed, "retry", "nightly-1")[0] == "flow nightly-1: 1 job retried"
    assert said(pushed, "pause", "nightly-1")["changed"]
    assert said(pushed, "show", "nightly-1")["status"]["state"] == "paused"
    assert lines(pushed, "resume", "nightly-1")[0] == "flow nightly-1: resumed"
    assert lines(pushed, "approve", "nightly-1", "release")[0] == "flow nightly-1: release is approved"
    assert lines(pushed, "approve", "nightly-1", "release")[0] == "flow nightly-1: release is approved already"
    refused = lines(pushed, "approve", "nightly-1", "release", "--reject", status=6)
    assert refused == ["Error: approval 'release' is approved already"]
    assert lines(pushed, "approve", "nightly-1", "load", status=2) == ["Error: name: 'load' is no approval"]
    assert said(pushed, "cancel", "nightly-1")["count"] == 4
    changed = said(pushed, "retry", "nightly-1", "shop", "--arg", "lang=de", "--arg", "pages=7")
    assert changed["count"] == 1
    (shop,) = said(pushed, "jobs", "nightly-1", "shop")
    assert shop["args"] == {"lang": "de", "pages": "7"}


def test_a_graph_has_no_log_of_a_manager(pushed: Crawlctl) -> None:
    (refused,) = lines(pushed, "log", "nightly-1", status=2)
    assert refused == "Error: FLOW: the flow has no crawl manager"


def test_arguments_for_a_function_that_takes_none_are_refused(upgraded: Crawlctl, file: Path) -> None:
    file.write_text(
        "from crawler_lifecycle.flows import Workflow\ndef x(context): ...\nw = Workflow(id='w').add_cascade('x', x)"
    )
    upgraded("flow", "push", str(file))
    upgraded("flow", "cancel", "w")
    (refused,) = lines(upgraded, "retry", "w", "x", "--arg", "lang=fr", status=2)
    assert refused == "Error: --arg: 'x' has a function that takes the context, and no arguments"


def test_arguments_of_a_step_are_json_if_possible(upgraded: Crawlctl, file: Path) -> None:
    file.write_text(
        "from crawler_lifecycle.flows import Workflow, job\n@job()\ndef x(n=1, s=''): ...\n"
        "w = Workflow(id='w').add('x', x)"
    )
    upgraded("flow", "push", str(file))
    upgraded("flow", "cancel", "w")
    assert said(upgraded, "retry", "w", "x", "--arg", "n=[1, 2]", "--arg", "s=[1")["count"] == 1
    (x,) = said(upgraded, "jobs", "w")
    assert x["args"] == {"n": [1, 2], "s": "[1"}


def test_stops(pushed: Crawlctl, database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    assert lines(pushed, "stop", "nightly-1", "--drain")[0] == (
        "flow nightly-1: starts nothing new, and ends with its jobs under way"
    )
    assert said(pushed, "resume", "nightly-1")["changed"]
    assert "exclude each other" in lines(pushed, "stop", "nightly-1", "--drain", "--force", status=2)[0]

    def print_and_go_on(*words: Any, **options: Any) -> None:
        print_effect(*words, **options)
        hand(database).go_on()

    monkeypatch.setattr(requests, "print_effect", print_and_go_on)
    stopped = lines(pushed, "stop", "nightly-1", "--wait", "--reason", "r")
    assert stopped[0] == "flow nightly-1: 4 jobs cancelled, those under way are asked to end"
    assert stopped[-1] == "flow nightly-1 is cancelled, and none of its crawls is left"
    for way in ((), ("--wait",), ("--leave",)):
        assert lines(pushed, "stop", "nightly-1", *way, status=6) == ["Error: flow 'nightly-1' is cancelled already"]


class ShortPages(ApiRuns):
    """A page is empty and has a next one, which has the open run in the first two looks."""

    def __init__(self) -> None:
        self.looks = 0

    def page(self, *, cursor: str | None = None, **_: Any) -> AnswerPage[Any, str]:
        if cursor is None:
            self.looks += 1
            return AnswerPage((), "more")
        return AnswerPage([SimpleNamespace(run_id=7)] if self.looks < 3 else (), None)


class Followed(ApiFlows):
    """A flow that ends after some seconds."""

    def __init__(self, seconds: float = 0.0) -> None:
        self._seconds = seconds

    def follow(self, flow: str) -> Iterator[Any]:
        assert flow
        time.sleep(self._seconds)
        yield from ()


async def test_the_proof_of_a_stop_follows_short_pages(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(requests, "POLL_SECONDS", 0.0)
    runs = ShortPages()
    await requests._until_proved(Followed(), runs, "f", None)
    assert runs.looks == 3
    assert capsys.readouterr().err == "flow f has ended; waiting for its open runs: 7\n"


@pytest.mark.parametrize(
    ("seconds", "problem"),
    [
        (0.0, "its runs 7 are open (see `crawlctl list --flow f`)"),
        (3.0, "it has not ended (see `crawlctl flow watch f`)"),
    ],
)
async def test_the_wait_for_the_proof_of_a_stop_has_a_limit(seconds: float, problem: str) -> None:
    with pytest.raises(TemporaryError) as refused:
        await requests._until_proved(Followed(seconds), ShortPages(), "f", 1)
    assert str(refused.value) == f"the stop of flow f is not over after 1 s, and continues: {problem}"


def test_a_stop_leaves_jobs_under_way_alone(pushed: Crawlctl) -> None:
    assert lines(pushed, "stop", "nightly-1", "--leave", "--reason", "r")[0].startswith(
        "flow nightly-1: 4 jobs cancelled, those under way continue"
    )


def test_jobs_are_added_once(pushed: Crawlctl, tmp_path: Path) -> None:
    more = tmp_path / "more.json"
    work = {"kind": "crawl", "request": {"crawler": "bookshop"}}
    member = {"path": "late", "work": work, "needs": [{"on": ["load"]}]}
    more.write_text(json.dumps({"members": [member]}))
    assert lines(pushed, "add", "nightly-1", str(more), "--key", "k")[0] == "flow nightly-1: 1 job added"
    assert lines(pushed, "add", "nightly-1", str(more), "--key", "k")[0] == (
        "flow nightly-1: nothing added, the key 'k' was used"
    )
    assert "'late' is already in flow" in lines(pushed, "add", "nightly-1", str(more), "--key", "l", status=6)[0]
    assert "Missing option '--key'" in lines(pushed, "add", "nightly-1", str(more), status=2)[0]


def test_results_and_a_watch_to_the_end(upgraded: Crawlctl, file: Path, database: Database) -> None:
    file.write_text(FILE.replace('.add("shop", crawl("bookshop"))', '.add("shop", extract)'))
    upgraded("flow", "push", str(file))
    upgraded("flow", "approve", "nightly-1", "release")
    hand(database).play({"shop": {"at": 3}, "load": 4})
    results = said(upgraded, "results", "nightly-1")
    assert (results["shop"], results["load"], results["release"]["approved"]) == ({"at": 3}, 4, True)
    assert said(upgraded, "results", "nightly-1", "load") == {"load": 4}
    assert said(upgraded, "results", "nightly-1", "load", "nobody", status=3)["error"] == "not_found"
    watched = lines(upgraded, "watch", "nightly-1")
    assert watched[-1].startswith("flow nightly-1 ended completed after ")
    assert "nightly  completed  load (load)" in watched
    (change,) = [json.loads(line) for line in upgraded("flow", "watch", "nightly-1", "--json").stdout.splitlines()]
    assert (change["is_over"], change["status"]["state"], len(change["jobs"])) == (True, "completed", 4)
    assert lines(upgraded, "watch", "nobody", status=3) == ["Error: there is no flow 'nobody'"]


def test_a_watch_exits_by_the_outcome(pushed: Crawlctl, database: Database) -> None:
    pushed("flow", "cancel", "nightly-1")
    hand(database).go_on()
    result = pushed("flow", "watch", "nightly-1")
    assert result.exit_code == 5
    assert result.stdout.splitlines()[-1] == "  cancelled load: cancel_requested"


def test_prune(pushed: Crawlctl, database: Database) -> None:
    pushed("flow", "cancel", "nightly-1")
    hand(database).go_on()
    store = SqlStore(database)
    (flow,) = store.flow_records.page(limit=9)
    store.flow_ends.settle(flow.uid, 1, list(Delivery), {})
    assert pushed("prune").stdout == "nothing removed\n", "the flow is younger than a year"
    assert pushed("prune", "--flows-older-than", "0s", "--dry-run").stdout == "1 flows would be removed\n"
    assert pushed("prune", "--flows-older-than", "0s").stdout == "1 flows removed\n"
    assert said(pushed, "list") == []


def test_runs_of_flows_are_listed_on_request(pushed: Crawlctl, database: Database) -> None:
    engine = hand(database)
    (crawl,) = engine.start_crawls(engine.start("shop")).crawls
    engine.run(crawl)

    def listed(*options: str) -> int:
        return len(json.loads(pushed("list", "--json", *options).stdout))

    assert [listed(), listed("--flows"), listed("--flow", "nightly-1"), listed("--flow", "other")] == [0, 1, 1, 0]
    assert listed("--flows", "--tag", "x") == 0
    assert "  flow          nightly-1, shop, attempt 1" in pushed("show", "1").stdout


@pytest.mark.parametrize(
    ("former", "wrong", "problem"),
    [
        ('deps="extract")\n    .add("load"', 'deps="extarct")\n    .add("load"', "'extarct', which is not in the flow"),
        ('"extract", extract, deps="shop"', '"extract", extract, deps="load"', "cycle: "),
    ],
)
def test_no_picture_is_made_of_a_file_that_a_push_refuses(
    crawlctl: Crawlctl, file: Path, former: str, wrong: str, problem: str
) -> None:
    text = file.read_text().replace('Workflow("nightly", ', 'Workflow("nightly", check_deps=False, ')
    assert former in text
    file.write_text(text.replace(former, wrong))
    (line,) = lines(crawlctl, "graph", str(file), status=2)
    assert problem in line


def test_a_list_marks_failures_of_managers_and_names_waits() -> None:
    sums = ItemSums(
        total=3,
        completed=2,
        failed=1,
        cancelled=0,
        refused=0,
        failures=1,
        repeated=0,
        has_problem=False,
        is_exhausted=True,
    )
    flow = FlowSummary(
        uid="u", id="shops", state=FlowState.COMPLETED, intent=FlowIntent.RUN, total=1, counts={}, items=sums,
        created_at=datetime(2026, 11, 28, tzinfo=UTC), updated_at=datetime(2026, 11, 28, tzinfo=UTC),
    )  # fmt: skip
    waiting = flow.model_copy(
        update={"items": None, "state": FlowState.EXECUTING, "waits_for": ("approval:go", "host:my_project.flows")}
    )
    _, failed, waits = list_lines([flow, waiting], datetime.now(UTC))
    assert click.style("completed, failures", fg="yellow") in failed, failed
    assert waits.endswith("  a decision about go, a host of my_project.flows")


@pytest.mark.parametrize("width", [60, 80, 120, 400])
def test_a_list_of_flows_fits_a_terminal(width: int) -> None:
    counts = dict.fromkeys(MemberState, 12)
    flow = FlowSummary(
        uid="u", id="november/shops", name="shops", state=FlowState.EXECUTING, intent=FlowIntent.RUN, total=1,
        counts=counts, created_at=datetime(2026, 11, 28, tzinfo=UTC), updated_at=datetime(2026, 11, 28, tzinfo=UTC),
        waits_for=("approval:the prices of november",),
    )  # fmt: skip
    header, line = (click.unstyle(text) for text in list_lines([flow], datetime.now(UTC), width))
    assert len(line) <= width
    assert all(title in header for title in ("ID", "STATE", "JOBS", "WAITS FOR"))
    assert all(words in line for words in ("november/shops", "executing", "a decision about"))
    assert ("CREATED" in header) is (width == 400)


def test_a_completed_job_with_another_outcome_is_no_green_line() -> None:
    """A crawl that was banned was a green `completed` without a word."""
    named: dict[str, Any] = {"flow_id": "f", "number": 0, "state": MemberState.COMPLETED}
    banned = MemberRecord(path="a", kind="crawl", title="books", outcome="banned", **named)
    failures = MemberRecord(path="m", kind="manager", title="Shops", outcome="finished_with_failures", **named)
    finished = MemberRecord(path="b", kind="crawl", title="books", outcome="finished", **named)
    _, *rows = job_lines([banned, failures, finished], datetime.now(UTC))
    width = len("completed, finished_with_failures")
    for row, state in zip(rows, ("completed, banned", "completed, finished_with_failures"), strict=False):
        assert click.style(state.ljust(width), fg="yellow") in row, row
    assert click.style("completed".ljust(width), fg="yellow") not in rows[2]
    assert "finished" not in rows[2]
    (line,) = change_lines("f", {}, [banned])
    assert click.style("completed, banned", fg="yellow") in line
    assert any(
        click.style("completed, banned", fg="yellow") in line for line in progress_lines(STATUS, {"a": banned}, 5)
    )


def test_a_flow_with_failures_of_a_manager_is_nowhere_green() -> None:
    """`flow list` marked it, and `flow show`, `flow watch` and the end of `flow run` did not."""
    failures, finished = (
        [ManagerStatus(path="m", function="m:Shops", close_reason=reason)]
        for reason in ("finished_with_failures", "finished")
    )
    for managers, state in ((failures, "completed, finished_with_failures"), (finished, "completed")):
        colour = "yellow" if managers is failures else "green"
        report = FlowReport(status=STATUS, failed=[], errors={}, results={}, managers=managers)
        heads = (
            next(flow_lines(STATUS, [], [], managers)),
            next(progress_lines(STATUS, {}, 5, managers)),
            next(end_lines(report)),
            end_line(STATUS, managers),
        )
        assert [click.style(state, fg=colour) in head for head in heads] == [True] * 4


def _item(number: int, state: ItemState, **fields: str) -> ItemRecord:
    known = {"origin": Origin.GENERATOR, "override": {}, "generation": 1, "attempt": 0, "tries": 0}
    return ItemRecord.model_validate({"number": number, "state": state, **known, **fields})


def test_refused_items_are_counted_with_the_first_reason() -> None:
    """The table of items cuts reasons, and says nothing of a ledger with more items than it shows."""
    manager = ManagerStatus(path="m", function="m:Shops", counts=Counts(refused=70), close_reason="finished")
    reason = "crawler: there is no crawler 'no-such-crawler' in the catalogue: `crawlctl crawlers` lists the crawlers"
    items = [
        _item(1, ItemState.FAILED),
        *(_item(number, ItemState.REFUSED, problem=reason) for number in (2, 3)),
    ]
    report = FlowReport(status=STATUS, failed=[], errors={}, results={}, managers=[manager])
    lines = list(end_lines(report.model_copy(update={"items": {"m": items}})))
    assert f"    refused   70 items; the first, item 2: {reason}" in lines
    assert "    refused   70 items" in list(end_lines(report))


def test_a_manager_whose_generator_is_not_read_to_its_end_has_no_bar() -> None:
    """The bar was nearly full at 18 of 22 items, while hundreds were to come."""
    manager = ManagerStatus(path="m", function="m:Shops", counts=Counts(completed=18, waiting=4))
    _, line, *_ = progress_lines(STATUS, {}, 5, [manager])
    assert line == "  m  4 waiting, 18 completed"
    closed = {"closed_at": datetime.now(UTC), "close_reason": "cancelled"}
    for final, end in (({"is_exhausted": True}, ""), (closed, "  closed: cancelled")):
        _, line, *_ = progress_lines(STATUS, {}, 5, [manager.model_copy(update=final)])
        assert line == f"  [{'#' * 24}{'.' * 6}] m  4 waiting, 18 completed{end}"


def waits_of(crawlctl: Crawlctl, flow: str) -> list[str]:
    (row,) = [row for row in said(crawlctl, "list") if row["id"] == flow]
    return list(row["waits_for"])


def test_a_run_has_hosts_of_its_own_for_new_flows_alone(
    pushed: Crawlctl, database: Database, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(words, "HOST_PATIENCE", timedelta(seconds=-1))
    doors, control = SqlStore(database).flow_doors, open_control(state)
    new = Workflow(id="new").add("a", plain).definition()
    assert own_host_of(control, new) == "new"
    doors.push(PushFlow(definition=new, own_host="parent"))
    doors.push(PushFlow(definition=new))  # a later push, such as `flow push`, leaves the flow its hosts
    doors.append("new", AppendMembers(key="k", fragment=fragment_of(Workflow().add("b", plain))))
    assert own_host_of(control, new) == "parent"
    assert waits_of(pushed, "new") == [f"host:{plain.__module__} --flow parent"]
    shared = Workflow(id="shared").add("a", plain).definition()
    doors.push(PushFlow(definition=shared))
    assert own_host_of(control, shared) == ""
    assert waits_of(pushed, "shared") == [f"host:{plain.__module__}"]
