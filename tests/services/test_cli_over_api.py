"""`crawlctl` over the HTTP API says the same as on the database: one set of assertions for both."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from crawler_lifecycle.adapters.sql.database import Database
from crawler_lifecycle.adapters.sql.store import SqlStore
from crawler_lifecycle.cli.program import main
from crawler_lifecycle.contract.managers.turns import Verdict
from crawler_lifecycle.contract.states import RunStatus
from crawler_lifecycle.flows import Workflow, crawl
from crawler_lifecycle.services.api.tokens import Scope
from tests.apis import Api, served
from tests.client.scripted import DROP, Answer, problem, scripted
from tests.contracts.flows import pushed
from tests.contracts.managers import item, managed
from tests.databases import MakeRun, copy_of, ref_to
from tests.schedulers import TOKEN, SmallCluster, a_catalogue
from tests.schedulers import served as scheduler_served

Cli = Callable[..., Result]


@pytest.fixture
def database_url(sqlite_template: Path, tmp_path: Path) -> str:
    return copy_of(sqlite_template, tmp_path)


def cli(*words: str, **variables: str) -> Result:
    env = {"CRAWLER_REMOTE__URL": None, "CRAWLER_DATABASE__URL": None, "TEMPORAL_ADDRESS": None, **variables}
    return CliRunner(env=env).invoke(main, words)


@pytest.fixture(autouse=True)
def _empty_state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CRAWLER_STATE", str(tmp_path / "state"))


@pytest.fixture
def over_api(api: Api) -> Cli:
    token = api.token(*Scope)
    return lambda *words: cli("--api", api.url, *words, CRAWLER_REMOTE__TOKEN=token)


@pytest.fixture
def on_database(database_url: str) -> Cli:
    settings = {"CRAWLER_DATABASE__URL": database_url, "TEMPORAL_ADDRESS": "127.0.0.1:1"}
    return lambda *words: cli(*words, **settings)


@pytest.fixture(params=["on the database", "over the API"])
def crawlctl(request: pytest.FixtureRequest) -> Cli:
    fixture: Cli = request.getfixturevalue("over_api" if request.param == "over the API" else "on_database")
    return fixture


def answer(result: Result) -> object:
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def end(database: Database, make_run: MakeRun) -> int:
    run = make_run(2)
    SqlStore(database).tasks.cancel_queued(ref_to(run), "stopped")
    SqlStore(database).runs.close(ref_to(run), RunStatus.FAILED, "stopped")
    return run.run_id


def test_list_filters_and_pages(crawlctl: Cli, database: Database, make_run: MakeRun) -> None:
    over, hot, last = end(database, make_run), make_run(tags=["hot"]).run_id, make_run(labels=["site:a"]).run_id

    def listed(*options: str) -> list[int]:
        runs = answer(crawlctl("list", "--json", *options))
        assert isinstance(runs, list)
        return [run["run_id"] for run in runs]

    assert listed() == [last, hot, over]
    assert listed("--limit", "2") == [last, hot]
    assert listed("--limit", "1", "--before", str(hot)) == [over]
    assert listed("--status", "stopped") == [over]
    assert listed("--status", "failed") == []
    assert listed("--tag", "hot") == [hot]
    assert listed("--outcome", "cancelled") == [over]
    assert listed("--label", "site:a") == [last]
    assert listed("--crawler", "other") == []
    assert "No such runs." in crawlctl("list", "--crawler", "other").stdout
    assert crawlctl("list").stdout.splitlines()[1].split()[:3] == [str(last), "books", "INITIALIZING"]


def test_show_and_watch_tell_all_of_a_run(crawlctl: Cli, database: Database, make_run: MakeRun) -> None:
    run = end(database, make_run)
    shown = answer(crawlctl("show", str(run), "--json"))
    assert isinstance(shown, dict)
    assert (shown["run"]["status"], [task["task"] for task in shown["tasks"]]) == ("FAILED", [0, 1])
    assert "task 0 (main)" in crawlctl("show", shown["run"]["run_uid"]).stdout


def test_both_ways_print_the_same(over_api: Cli, on_database: Cli, database: Database, make_run: MakeRun) -> None:
    run = str(end(database, make_run))
    for words in (
        ["list", "--json"],
        ["show", run, "--json"],
        ["limits"],
        ["audit", "--json"],
        ["installation"],
        ["installation", "--json"],
    ):
        local, remote = on_database(*words), over_api(*words)
        assert local.stdout == remote.stdout, words
        assert "Traceback" not in remote.output


def test_the_installation_alone_shows_its_state(crawlctl: Cli, make_run: MakeRun) -> None:
    """The command printed its help, and only the API and the page had the state."""
    make_run(2)
    assert crawlctl("limits", "set", "--tasks", "500").exit_code == 0
    assert crawlctl("installation", "pause", "--reason", "moved").exit_code == 0
    shown = crawlctl("installation").stdout
    assert "attention     1 pause\n" in shown
    assert "open runs     1, of them 0 queued for a permit" in shown
    assert "in cluster    0 of 500 tasks" in shown
    assert ": moved" in shown
    view = answer(crawlctl("installation", "--json"))
    assert isinstance(view, dict)
    assert (view["open_runs"], view["limits"]["tasks"]) == (1, 500)


def test_limits_and_pauses(crawlctl: Cli) -> None:
    assert crawlctl("limits", "set", "--label", "site:x.com", "--runs", "2", "--allow-unknown").exit_code == 0
    records = answer(crawlctl("installation", "pause", "--reason", "upgrade", "--json"))
    assert isinstance(records, list)
    assert [(record["scope"], record["paused_reason"]) for record in records] == [
        ("installation", "upgrade"),
        ("label:site:x.com", None),
    ]
    assert crawlctl("installation", "resume").exit_code == 0
    assert crawlctl("installation", "resume").exit_code == 3


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (["show", "4711"], 3),
        (["show", "not-a-run"], 3),
        (["watch", "4711"], 3),
        (["stop", "4711"], 3),
        (["logs", "4711"], 3),
        (["fetch", "4711"], 3),
        (["resume", "4711"], 3),
        (["run", "books", "--tasks", "0"], 2),
        (["limits", "set", "--tasks", "1"], 2),
        (["run", "books", "--detach"], 4),  # neither Temporal nor the scheduler service is there
        (["schedule", "list"], 4),
    ],
    ids=str,
)
def test_failures_have_the_same_statuses(crawlctl: Cli, words: list[str], status: int) -> None:
    result = crawlctl(*words)
    assert (result.exit_code, result.stdout) == (status, ""), result.output
    assert len(result.stderr.splitlines()) == 1
    as_json = json.loads(crawlctl(*words, "--json").stderr.splitlines()[-1])
    assert as_json["exit_status"] == status


def test_a_run_that_goes_on_is_refused_alike(crawlctl: Cli, make_run: MakeRun) -> None:
    run = str(make_run().run_id)
    for verb in ("export", "fetch"):
        result = crawlctl(verb, run)
        assert result.exit_code == 6, result.output
        assert "INITIALIZING" in result.stderr


@pytest.fixture
def flow(database: Database) -> str:
    """A flow of a crawl and an approval behind it, beside an older flow."""
    pushed(database, Workflow("day", id="day").add("shop", crawl("books")))
    graph = Workflow("night", id="night/1").add("shop", crawl("books")).add_approval("release", deps=["shop"])
    pushed(database, graph)
    return "night/1"


def test_flows_are_listed_and_explained(crawlctl: Cli, flow: str) -> None:
    def ids(*options: str) -> list[str]:
        flows = answer(crawlctl("flow", "list", "--json", *options))
        assert isinstance(flows, list)
        return [flow["id"] for flow in flows]

    assert ids() == ["night/1", "day"]
    assert ids("--limit", "1") == ["night/1"]
    assert ids("--before", "night/1") == ["day"]
    assert ids("--status", "executing", "--status", "paused") == ["night/1", "day"]
    assert ids("--status", "completed") == []
    assert ids("--search", "NIGHT") == ["night/1"]
    assert ids("--attention") == []
    assert ids("--search", "y", "--before", "night/1") == ["day"]
    shown = answer(crawlctl("flow", "show", flow, "--json"))
    assert isinstance(shown, dict)
    assert (shown["status"]["id"], shown["failed"], shown["managers"]) == (flow, [], [])
    jobs = answer(crawlctl("flow", "jobs", flow, "--json"))
    assert isinstance(jobs, list)
    assert [job["path"] for job in jobs] == ["shop", "release"]
    chosen = answer(crawlctl("flow", "jobs", flow, "release", "shop", "--status", "suspended", "--json"))
    assert isinstance(chosen, list)
    assert [job["path"] for job in chosen] == ["release"]
    assert "release" in crawlctl("flow", "why", flow, "release").stdout
    assert "shop" in crawlctl("flow", "graph", flow).stdout
    assert answer(crawlctl("flow", "results", flow)) == {}
    early = crawlctl("flow", "results", flow, "shop")
    assert (early.exit_code, early.stderr) == (6, "Error: 'shop' has no result: the job is available\n")
    assert "did you mean 'release'?" in crawlctl("flow", "results", flow, "relaese").stderr
    assert answer(crawlctl("flow", "jobs", flow, "--attempts", "--json")) == {}


def test_the_ledger_of_a_manager_is_read_and_changed(crawlctl: Cli, database: Database) -> None:
    """Three items: the first failed, the second waits, the third runs."""
    flow = managed(database)
    flow.commit(item("a"), item("b"), item("c"))
    flow.ended_run(flow.started(1), RunStatus.FAILED)
    flow.react(flow.ended()[0], Verdict.BAD)
    flow.run_of(flow.started(3))

    def listed(*options: str) -> list[int]:
        items = answer(crawlctl("flow", "jobs", flow.id, "--json", *options))
        assert isinstance(items, list)
        return [row["number"] for row in items]

    shown = answer(crawlctl("flow", "show", flow.id, "--json"))
    assert isinstance(shown, dict)
    assert len(shown["managers"]) == 1
    assert listed() == [1, 2, 3]
    assert listed("--status", "failed") == [1]
    assert listed("--status", "failed", "--status", "waiting") == [1, 2]
    assert listed("--after", "1", "--limit", "1") == [2]
    assert listed("3", "1") == [1, 3]
    assert crawlctl("flow", "why", flow.id, "2").exit_code == 0
    assert crawlctl("flow", "why", flow.id, "4").exit_code == 3
    assert crawlctl("flow", "retry", flow.id, "1").exit_code == 0
    assert listed("--status", "waiting") == [1, 2]
    assert crawlctl("flow", "cancel", flow.id, "2").exit_code == 0
    assert listed("--status", "cancelled") == [2]


def test_flows_are_changed(crawlctl: Cli, flow: str) -> None:
    """The requests are on record also without Temporal."""
    for words, effect in (
        (["approve", flow, "release", "--note", "fine"], "release is approved"),
        (["pause", flow], "paused"),
        (["resume", flow], "resumed"),
        (["cancel", flow, "shop", "--reason", "wrong"], "cancelled"),
        (["stop", flow], "cancelled"),
    ):
        result = crawlctl("flow", *words)
        assert (result.exit_code, effect in result.stdout) == (0, True), result.output
    again = crawlctl("flow", "cancel", flow, "shop")
    assert (again.exit_code, again.stderr) == (0, ""), "a cancel may be repeated after a lost answer"
    assert crawlctl("flow", "show", "other").exit_code == 3
    assert crawlctl("flow", "why", flow, "other").exit_code == 3


def test_both_ways_print_the_same_of_flows(over_api: Cli, on_database: Cli, flow: str) -> None:
    for words in (
        ["list", "--json"],
        ["jobs", flow, "--json"],
        ["graph", flow],
        ["why", flow, "release", "--json"],
        ["why", flow],
    ):
        assert over_api("flow", *words).stdout == on_database("flow", *words).stdout, words


def test_a_flow_is_pushed_over_the_api(over_api: Cli, on_database: Cli, tmp_path: Path) -> None:
    file = tmp_path / "flow.json"
    file.write_text(Workflow("night", id="night").add("shop", crawl("books")).definition().model_dump_json())
    result = over_api("flow", "push", str(file))
    assert (result.exit_code, "made with 1 job" in result.stdout) == (0, True), result.output
    assert "night" in on_database("flow", "list").stdout
    prune = over_api("prune")
    assert (prune.exit_code, "no equivalent for `prune`" in prune.stderr) == (2, True)


def test_crawlers_are_listed_with_hidden_values(database_url: str, tmp_path: Path) -> None:
    with scheduler_served(SmallCluster(), a_catalogue(tmp_path)) as url:
        scheduler = {"CRAWLER_SCHEDULER__URL": url, "CRAWLER_SCHEDULER__TOKEN": TOKEN}
        local = cli("crawlers", "--json", CRAWLER_DATABASE__URL=database_url, **scheduler)
        with served(tmp_path, database_url, **scheduler) as api:
            remote = cli("--api", api.url, "crawlers", "--json", CRAWLER_REMOTE__TOKEN=api.token(Scope.READ))
            file = tmp_path / "flow.json"
            file.write_text(Workflow("night").add("shop", crawl("absent")).definition().model_dump_json())
            check = ("flow", "check", str(file), "--json")
            checked = cli("--api", api.url, *check, CRAWLER_REMOTE__TOKEN=api.token(Scope.READ))
            push = ("flow", "push", str(file))
            pushed = cli("--api", api.url, *push, CRAWLER_REMOTE__TOKEN=api.token(Scope.READ, Scope.OPERATE))
    assert (checked.exit_code, json.loads(checked.stdout)["missing_crawlers"]) == (2, ["absent"])
    assert (pushed.exit_code, "the catalogue has no crawler 'absent'" in pushed.stderr) == (2, True)
    entries = answer(local)
    assert isinstance(entries, list)
    assert answer(remote) == [entry for entry in entries if entry["name"] != ".."], "no address has this name"
    assert entries


def test_options_are_named_where_the_api_refuses_them() -> None:
    refusal = problem(422, "expected at most 5000, not 9000", field="tasks")
    with scripted(refusal) as server:
        result = cli("--api", server.url, "run", "books", "--tasks", "9000", "--json", CRAWLER_REMOTE__TOKEN="t")
    failure = json.loads(result.stderr)
    assert (failure["option"], failure["exit_status"]) == ("--tasks", 2)


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["doctor"], "doctor"),
        (["up"], "up"),
        (["token", "create", "x"], "token"),
        (["db", "upgrade"], "db"),
        (["accept-namespace"], "accept-namespace"),
        (["flow", "run", __file__], "flow run"),
    ],
    ids=str,
)
def test_a_command_that_the_api_lacks_says_so_in_a_line(over_api: Cli, words: list[str], shown: str) -> None:
    result = over_api(*words)
    assert (result.exit_code, result.stdout) == (2, "")
    (line,) = result.stderr.splitlines()
    assert f"the API has no equivalent for `{shown}`" in line


def test_a_command_that_the_api_lacks_names_the_variable(api: Api) -> None:
    result = cli("doctor", CRAWLER_REMOTE__URL=api.url, CRAWLER_REMOTE__TOKEN=api.token())
    assert result.exit_code == 2
    assert "CRAWLER_REMOTE__URL: the API has no equivalent for `doctor`" in " ".join(result.stderr.split())


def test_the_environment_chooses_the_api_and_a_state_folder_the_database(api: Api, tmp_path: Path) -> None:
    settings = {"CRAWLER_REMOTE__URL": api.url, "CRAWLER_REMOTE__TOKEN": api.token(Scope.READ)}
    assert "No runs." in cli("list", **settings).stdout
    local = cli("list", "--state", str(tmp_path / "empty"), **settings)
    assert (local.exit_code, "crawlctl db upgrade" in local.stderr) == (4, True)
    both = cli("--api", api.url, "list", "--state", str(tmp_path), **settings)
    assert (both.exit_code, "exclude each other" in both.stderr) == (2, True)


def test_a_wrong_token_and_a_missing_scope_are_said_in_a_line(api: Api, make_run: MakeRun) -> None:
    run = str(make_run().run_id)
    for token, words, expected in (
        ("crawl_wrong", ["list"], "does not know the token"),
        ("", ["list"], "CRAWLER_REMOTE__TOKEN_FILE"),
        (api.token(Scope.READ), ["stop", run], "lacks the scope operate"),
    ):
        result = cli("--api", api.url, *words, CRAWLER_REMOTE__TOKEN=token)
        assert (result.exit_code, result.stdout) == (4, ""), result.output
        (line,) = result.stderr.splitlines()
        assert expected in line
        assert not token or token not in line


def test_an_api_that_is_away_or_slow_or_newer_is_no_traceback() -> None:
    newer = Answer(200, {"runs": [], "next": None, "mood": "good"})
    for answers, status, expected in (
        ([DROP], 4, "gives no answer"),
        ([Answer(200, {}, seconds=20)], 4, "no answer in 1 s"),
        ([problem(503, "the database is away")], 4, "the database is away"),
        ([Answer(502, "<html>", kind="text/html")], 4, "answers 502"),
        ([newer], 0, ""),
    ):
        with scripted(*answers) as server:
            result = cli("--api", server.url, "list", CRAWLER_REMOTE__TOKEN="t", CRAWLER_REMOTE__SECONDS="1")
        assert result.exit_code == status, result.output
        assert expected in result.stderr
        assert "Traceback" not in result.output
    away = cli("--api", "http://127.0.0.1:1", "list", CRAWLER_REMOTE__TOKEN="t")
    assert (away.exit_code, len(away.stderr.splitlines())) == (4, 1)


def test_commands_in_messages_can_be_copied(api: Api, make_run: MakeRun) -> None:
    run = make_run().run_id
    refusal = problem(409, f"run {run} goes on: `crawlctl show {run}`, or `crawlctl doctor`")
    with scripted(refusal) as server:
        result = cli("--api", server.url, "stop", str(run), CRAWLER_REMOTE__TOKEN="t")
        assert f"`crawlctl --api {server.url} show {run}`, or `crawlctl doctor`" in result.stderr


def test_list_over_the_api_imports_nothing_heavy(api: Api, make_run: MakeRun) -> None:
    run = make_run()
    code = (
        "import sys\n"
        "from crawler_lifecycle.cli.program import main\n"
        f"main(['--api', {api.url!r}, 'list', '--json'], standalone_mode=False)\n"
        "heavy = {'temporalio', 'fastapi', 'sqlalchemy', 'uvicorn', 'alembic', 'psutil', 'kubernetes', 'boto3'}\n"
        "heavy &= set(sys.modules)\n"
        "sys.exit(', '.join(heavy) or 0)\n"
    )
    env = {"CRAWLER_REMOTE__TOKEN": api.token(Scope.READ), "HOME": "/nonexistent"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, env=env, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)[0]["run_id"] == run.run_id
