"""`crawlctl` with an API, and no other access to the installation."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import cast

import pytest
from click.testing import CliRunner, Result

from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.cli.program import main
from crawler_lifecycle.client.api import Api as Client
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.errors import Conflict, NotFound
from crawler_lifecycle.flows import Workflow, crawl
from crawler_lifecycle.http.tokens import Scope
from crawler_lifecycle.model.manager_items import Verdict
from crawler_lifecycle.model.states import RunStatus
from tests.client.scripted import DROP, Answer, problem, scripted
from tests.kit.clusters.schedulers import TOKEN, SmallCluster, a_catalogue
from tests.kit.clusters.schedulers import served as scheduler_served
from tests.kit.data.databases import MakeRun, copy_of, ref_to
from tests.kit.data.flows import pushed
from tests.kit.data.managers import item, managed
from tests.kit.service.apis import Api, served

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
def crawlctl(api: Api) -> Cli:
    token = api.token(*Scope)
    return lambda *words: cli("--api", api.url, *words, CRAWLER_REMOTE__TOKEN=token)


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


def test_the_use_of_runs(crawlctl: Cli, database: Database, make_run: MakeRun) -> None:
    end(database, make_run)
    assert "used 0s of tasks" in " ".join(crawlctl("show", "1").stdout.split())
    header, group, total = (line.split() for line in crawlctl("usage").stdout.splitlines())
    assert header == ["CRAWLER", "RUNS", "TASK", "HOURS", "CPU", "HOURS", "GIB", "HOURS", "ARCHIVED"]
    zero = ["1", "0.00", "0.00", "0.00", "0", "B"]
    assert (group, total) == (["books", *zero], ["all", *zero])
    titles, values = crawlctl("usage", "--by", "tenant", "--csv").stdout.splitlines()
    assert titles == "name,runs,task_seconds,cpu_seconds,memory_gib_seconds,archived_bytes"
    assert values == ",1,0.0,0.0,0.0,0"
    sums = answer(crawlctl("usage", "--until", "2026-01-31", "--json"))
    assert isinstance(sums, dict)
    assert (sums["since"], sums["groups"]) == ("2026-01-01T00:00:00Z", [])


def test_the_status_says_what_is_open_and_paused(crawlctl: Cli, make_run: MakeRun) -> None:
    make_run(2)
    assert crawlctl("limits", "set", "--tasks", "500").exit_code == 0
    assert crawlctl("installation", "pause", "--reason", "moved").exit_code == 0
    shown = " ".join(crawlctl("status").stdout.split())
    assert "open 1 run (crawlctl list --flows) running 0, tasks: 0 of 500 in the cluster waiting - stuck -" in shown
    assert re.search(r"paused 1 scope: installation, since \S+ by \S+ \(token .*\): moved \(crawlctl limits\)", shown)
    status = answer(crawlctl("status", "--json"))
    assert isinstance(status, dict)
    view = status["installation"]
    assert (view["open_runs"], view["limits"]["tasks"], status["attention"]["pauses"]) == (1, 500, 1)


def test_a_shell_completes_names(
    api: Api, database: Database, make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crawler_lifecycle.console.completion.SECONDS", 30.0)  # on a busy machine
    run = make_run(2).run_id
    pushed(database, Workflow("nightly", id="nightly").add("a", crawl("books")))
    token = api.token(*Scope)
    assert completed("crawlctl stop ", api.url, token) == [f"plain,{run}"]
    assert completed(f"crawlctl stop {run}9", api.url, token) == []
    assert completed("crawlctl flow show ni", api.url, token) == ["plain,nightly"]
    assert completed("crawlctl stop ", api.url, "wrong") == []


def completed(words: str, url: str, token: str) -> list[str]:
    env = {"CRAWLER_REMOTE__URL": url, "CRAWLER_REMOTE__TOKEN": token, "_CRAWLCTL_COMPLETE": "bash_complete"}
    typed = {"COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    return CliRunner(env=env | typed).invoke(main, prog_name="crawlctl").stdout.split()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_its_script(shell: str) -> None:
    assert f"_CRAWLCTL_COMPLETE={shell}_complete" in cli("completion", shell).stdout


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


@pytest.mark.long
def test_the_record_names_the_actor_beside_the_token(crawlctl: Cli, tmp_path: Path) -> None:
    """Over the API, most commands recorded the token alone."""
    pause = ("installation", "pause", "--reason", "upgrade", "--actor", "ann", "--json")
    records = answer(crawlctl(*pause))
    assert isinstance(records, list)
    assert records[0]["paused_by"] == "ann (token token-0)"
    file = tmp_path / "flow.json"
    file.write_text(Workflow("night", id="night").add("shop", crawl("books")).definition().model_dump_json())
    assert crawlctl("flow", "push", str(file), "--actor", "ann").exit_code == 0
    (pushed_flow,) = cast(list[dict[str, object]], answer(crawlctl("flow", "list", "--json")))
    assert pushed_flow["created_by"] == "ann (token token-0)"


@pytest.mark.long
def test_the_token_in_the_settings_needs_no_file(database_url: str, tmp_path: Path) -> None:
    settings = {"CRAWLER_API__OPERATOR_TOKEN": "a-word-of-the-operator"}
    with served(tmp_path, database_url, **settings) as api:
        remote = {"CRAWLER_REMOTE__URL": api.url, "CRAWLER_REMOTE__TOKEN": "a-word-of-the-operator"}
        assert cli("installation", "pause", "--reason", "x", **remote).exit_code == 0
        wrong = cli("list", **remote | {"CRAWLER_REMOTE__TOKEN": "another"})
        assert (wrong.exit_code, "does not know the token" in wrong.stderr) == (4, True)
        with pytest.raises(Conflict):
            api.tokens.make("operator", [Scope.READ])


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
    assert (early.exit_code, "Error: 'shop' has no result: the job is available" in early.stderr) == (6, True)
    assert "did you mean 'release'?" in crawlctl("flow", "results", flow, "relaese").stderr
    assert answer(crawlctl("flow", "jobs", flow, "--attempts", "--json")) == {}


def test_a_remote_list_reads_no_further_than_its_limit() -> None:
    """All flows of the installation were read before the first one was shown."""
    now = "2026-11-22T03:00:00Z"
    times = {"created_at": now, "updated_at": now, "started_at": None, "stopped_at": None}
    names = {"uid": "u3", "id": "f3", "name": None, "family": None, "created_by": None}
    flow: dict[str, object] = {
        **names,
        **times,
        "state": "executing",
        "intent": "run",
        "total": 1,
        "counts": {},
        "waits_for": [],
    }
    with scripted(Answer(200, {"flows": [flow], "next": "more"})) as server, Client(server.url, "t") as client:
        assert [flow.id for flow in islice(client.flows.all(page_size=1, before="f4", search="odd"), 1)] == ["f3"]
        (request,) = server.requests
    assert "before=f4" in request.path
    assert "search=odd" in request.path


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


def test_a_program_adds_items(api: Api, crawlctl: Cli, database: Database) -> None:
    flow = managed(database)
    flow.commit(item("a"))
    with Client(api.url, api.token(Scope.OPERATE)) as client:
        added = [client.flows.add_items(flow.id, "more", [{"spider": "shop", "page": "b"}]) for _ in range(2)]
    assert [(effect.count, effect.changed) for effect in added] == [(1, True), (0, False)]
    items = answer(crawlctl("flow", "jobs", flow.id, "--json"))
    assert isinstance(items, list)
    assert [row["number"] for row in items] == [1, 2]


def test_many_jobs_are_read_in_parts(api: Api, database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """A single address with all the paths would be too long."""
    names = [f"shop-{number}" for number in range(5)]
    workflow = Workflow("night", id="night")
    for name in names:
        workflow.add(name, crawl("books"))
    pushed(database, workflow)
    monkeypatch.setattr("crawler_lifecycle.flows.client.MOST_PATHS", 2)
    with Client(api.url, api.token(Scope.READ, Scope.RESULTS)) as client:
        assert [job.path for job in client.flows.jobs("night", [*names, "shop-0"])] == names
        assert client.flows.results("night", names) == {}
        with pytest.raises(NotFound):
            list(client.flows.jobs("night", [*names, "other"]))


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


def test_a_flow_is_pushed_over_the_api(crawlctl: Cli, tmp_path: Path) -> None:
    file = tmp_path / "flow.json"
    file.write_text(Workflow("night", id="night").add("shop", crawl("books")).definition().model_dump_json())
    result = crawlctl("flow", "push", str(file))
    assert (result.exit_code, "made with 1 job" in result.stdout) == (0, True), result.output
    assert "night" in crawlctl("flow", "list").stdout
    prune = crawlctl("prune")
    assert (prune.exit_code, "`prune` works on the installation itself" in prune.stderr) == (2, True)


@pytest.mark.long
def test_crawlers_are_listed_with_hidden_values(database_url: str, tmp_path: Path) -> None:
    with scheduler_served(SmallCluster(), a_catalogue(tmp_path)) as url:
        scheduler = {"CRAWLER_SCHEDULER__URL": url, "CRAWLER_SCHEDULER__TOKEN": TOKEN}
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
    entries = answer(remote)
    assert isinstance(entries, list)
    assert ".." in [entry["name"] for entry in entries], "no address has this name"


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
        (["prune"], "prune"),
        (["flow", "run", __file__], "flow run"),
    ],
    ids=str,
)
def test_a_command_on_the_installation_itself_refuses_an_api(crawlctl: Cli, words: list[str], shown: str) -> None:
    result = crawlctl(*words)
    assert (result.exit_code, result.stdout) == (2, "")
    (line,) = result.stderr.splitlines()
    assert f"`{shown}` works on the installation itself: call it without --api" in line


def test_a_command_on_the_installation_itself_works_beside_the_variables_of_an_api(
    database_url: str, tmp_path: Path
) -> None:
    """In the container of a worker, the environment has the settings of both."""
    remote = {"CRAWLER_REMOTE__URL": "http://127.0.0.1:1", "CRAWLER_REMOTE__TOKEN": "t"}
    settings = {"CRAWLER_DATABASE__URL": database_url, "TEMPORAL_ADDRESS": "127.0.0.1:1"}
    doctor = cli("doctor", **remote, **settings)
    assert (doctor.exit_code, "ok    database" in doctor.stdout) == (4, True), doctor.output
    prune = cli("prune", "--dry-run", **remote, **settings)
    assert (prune.exit_code, prune.stdout) == (0, "nothing would be removed\n")


def test_the_environment_chooses_the_api_and_a_state_folder_its_own_stack(api: Api, tmp_path: Path) -> None:
    settings = {"CRAWLER_REMOTE__URL": api.url, "CRAWLER_REMOTE__TOKEN": api.token(Scope.READ)}
    assert "No runs." in cli("list", **settings).stdout
    local = cli("list", "--state", str(tmp_path / "empty"), **settings)
    assert (local.exit_code, "no HTTP API is known" in local.stderr) == (4, True)
    both = cli("--api", api.url, "list", "--state", str(tmp_path), **settings)
    assert (both.exit_code, "exclude each other" in both.stderr) == (2, True)


@pytest.mark.parametrize("words", [["list"], ["stop", "7"], ["flow", "watch", "night"]], ids=str)
def test_without_an_api_a_line_names_the_setting_and_the_commands_that_need_none(
    words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stream that had no first answer was asked for again for a minute."""
    monkeypatch.setattr("crawler_lifecycle.transport.streams.PATIENCE_SECONDS", 3600.0)
    unknown = cli(*words)
    away = cli(*words, CRAWLER_REMOTE__URL="http://127.0.0.1:1", CRAWLER_REMOTE__TOKEN="t")
    for result, beginning in (
        (unknown, "no HTTP API is known"),
        (away, "the API at http://127.0.0.1:1 gives no answer"),
    ):
        assert (result.exit_code, result.stdout) == (4, "")
        (line,) = result.stderr.splitlines()
        assert beginning in line
        assert all(part in line for part in ("CRAWLER_REMOTE__URL", "`doctor`", "`stop --direct`"))


def test_a_stop_needs_no_api(api: Api, database_url: str, make_run: MakeRun) -> None:
    """The emergency stop: database and Temporal are enough, and each alone."""
    run = str(make_run().run_id)
    settings = {"CRAWLER_DATABASE__URL": database_url, "TEMPORAL_ADDRESS": "127.0.0.1:1"}
    stopped = answer(cli("stop", run, "--direct", "--actor", "ann", "--json", **settings))
    assert isinstance(stopped, dict)
    assert (stopped["intent"], stopped["told"].startswith("later: ")) == ("STOP", True)
    reader = {"CRAWLER_REMOTE__URL": api.url, "CRAWLER_REMOTE__TOKEN": api.token(Scope.READ)}
    shown = answer(cli("show", run, "--json", **reader))
    assert isinstance(shown, dict)
    assert shown["run"]["intent"] == "STOP"
    assert ("ann", "crawlctl") in [(line["actor"], line["door"]) for line in shown["log"]]
    for more in (["--wait"], ["--api", api.url]):
        refused = cli("stop", run, "--direct", *more, **settings)
        assert (refused.exit_code, "--direct excludes --wait and --api" in refused.stderr) == (2, True)


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


@pytest.mark.long
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
