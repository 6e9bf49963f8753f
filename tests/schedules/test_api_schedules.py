"""The API's doors to schedules, on a real Temporal server and with the real catalogue; nothing of them is due."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio
from click.testing import CliRunner, Result
from temporalio.testing import WorkflowEnvironment

from crawler_lifecycle.cli.program import main
from crawler_lifecycle.database import migrate
from crawler_lifecycle.errors import TemporaryError
from crawler_lifecycle.http.tokens import Scope
from crawler_lifecycle.schedules.commands.schedule_commands import ScheduleCommands
from crawler_lifecycle.schedules.model import OccurrenceOutcome, Triggered
from tests.kit.clusters.schedulers import TOKEN, SmallCluster, a_catalogue
from tests.kit.clusters.schedulers import served as scheduler_served
from tests.kit.service.apis import Api, problem, served
from tests.kit.waiting import until

pytestmark = pytest.mark.timeout(240)
RULES: dict[str, Any] = {"run": {"crawler": "bookshop", "arguments": {"site": "x"}}, "cron": ["0 0 1 1 *"]}


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def server(real_time: WorkflowEnvironment) -> dict[str, str]:
    return {
        "TEMPORAL_ADDRESS": real_time.client.service_client.config.target_host,
        "TEMPORAL_NAMESPACE": real_time.client.namespace,
        "CRAWLER_WORKER__TASK_QUEUE": "schedules-by-api",
    }


@pytest.fixture(scope="module")
def api(server: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    folder = tmp_path_factory.mktemp("schedules")
    database_url = f"sqlite:///{folder / 'crawler.db'}"
    migrate.upgrade(database_url)
    with scheduler_served(SmallCluster(), a_catalogue(folder)) as url:
        scheduler = {"CRAWLER_SCHEDULER__URL": url, "CRAWLER_SCHEDULER__TOKEN": TOKEN}
        with served(folder, database_url, **server, **scheduler) as api:
            yield api


@pytest.fixture
def http(api: Api) -> Iterator[httpx.Client]:
    with api.client() as client:
        yield client


def put(http: httpx.Client, name: str, headers: dict[str, str] | None = None, **changes: Any) -> httpx.Response:
    return http.put(f"/v1/schedules/{name}", json=RULES | changes, headers=headers or {})


def test_a_schedule_is_made_changed_paused_resumed_and_deleted(http: httpx.Client) -> None:
    made = put(http, "nightly", time_zone="Europe/Berlin", overlap="queue", paused=True)
    assert made.status_code == 201
    assert http.get(made.headers["Location"]).json()["schedule_id"] == "nightly"
    token = http.get("/v1/me").json()["name"]
    name = f"token {token}"
    assert made.json()["run"]["requested_by"] == made.json()["pauses"][0]["actor"] == name
    assert (made.json()["overlap"], made.json()["time_zone"], made.json()["next_at"]) == ("queue", "Europe/Berlin", [])

    changed = put(http, "nightly")
    assert (changed.status_code, "Location" in changed.headers) == (200, False)
    problem(put(http, "nightly", {"If-None-Match": "*"}), 412)
    shown = http.get("/v1/schedules/nightly", params={"occurrences": 3, "before": "2026-01-01T00:00:00Z"}).json()
    assert shown["occurrences"] == []
    problem(http.get("/v1/schedules/nightly?before=yesterday"), 422, "before")
    assert (shown["time_zone"], shown["overlap"], shown["paused"]) == ("UTC", "skip", True)

    resumed = http.post("/v1/schedules/nightly/resume", json={"reason": "done", "actor": "ann"}).json()
    assert (resumed["paused"], bool(resumed["next_at"])) == (False, True)
    commands = [(line["command"], line["actor"], line["door"]) for line in resumed["commands"]]
    assert commands == [
        ("resume", f"ann (token {token})", "api"), ("replace", name, "api"), ("create", name, "api")
    ]  # fmt: skip
    forged = http.post("/v1/schedules/nightly/pause", json={"actor": "ceo (token admin)"})
    assert "must not look like the name of a token" in problem(forged, 422, "actor").detail
    paused = http.post("/v1/schedules/nightly/pause", json={"reason": "the site is being rebuilt"}).json()
    assert paused["pauses"][-1] | {"since": None} == {
        "since": None, "until": None, "actor": name, "reason": "the site is being rebuilt"
    }  # fmt: skip
    assert http.post("/v1/schedules/nightly/trigger?actor=bob").status_code in (200, 202)
    assert http.get("/v1/schedules/nightly").json()["commands"][0]["actor"].startswith("bob (token ")
    assert http.delete("/v1/schedules/nightly").json() == {"schedule_id": "nightly", "deleted": True}
    problem(http.get("/v1/schedules/nightly"), 404)


def test_a_schedule_starts_flows(http: httpx.Client) -> None:
    flow = {"id": "shops", "members": [{"path": "shop", "work": {"kind": "crawl", "request": {"crawler": "bookshop"}}}]}
    made = put(http, "flows", run=None, flow=flow)
    assert made.status_code == 201, made.text
    assert (made.json()["flow_id"], made.json()["crawler"], made.json()["run"]) == ("shops", None, None)
    assert made.json()["flow"]["members"][0]["path"] == "shop"
    assert put(http, "flows", run=None, flow=flow).status_code == 200
    problem(put(http, "flows"), 422, "flow")  # a schedule keeps what it starts
    assert "starts flows 'shops'" in put(http, "flows").text
    assert http.delete("/v1/schedules/flows").status_code == 200


def test_a_schedule_starts_a_manager_of_the_catalogue(http: httpx.Client) -> None:
    answer = put(http, "monthly", run=None, manager={"name": "shops", "arguments": ["--deep"]})
    assert answer.status_code == 201, answer.text
    flow = answer.json()["flow"]
    assert (flow["id"], flow["name"], flow["family"]) == ("monthly/shops", "shops", "monthly")
    assert flow["members"][0]["work"]["function"] == "m:Shops"
    assert flow["members"][0]["work"]["arguments"] == ["--own", "3", "--deep"]
    assert put(http, "monthly", run=None, manager={"name": "shops", "arguments": []}).status_code == 200
    problem(put(http, "other", run=None, manager={"name": "absent"}), 422, "manager")
    problem(put(http, "other", manager={"name": "shops"}), 422)
    work = flow["members"][0]["work"]
    problem(put(http, "other", run=None, flow={"id": "x", "members": [{"path": "a", "work": work}]}), 422, "form")
    assert http.delete("/v1/schedules/monthly").status_code == 200


def test_a_schedule_starts_a_graph_with_a_manager_of_the_catalogue(http: httpx.Client) -> None:
    named = {"path": "shops", "work": {"kind": "manager", "manager": "shops", "arguments": ["--deep"]}}
    deliver = {"path": "deliver", "work": {"kind": "step", "function": "m:deliver"}, "needs": [{"on": ["shops"]}]}
    graph = {"id": "both", "members": [named, deliver]}
    answer = put(http, "both", run=None, flow=graph)
    assert answer.status_code == 201, answer.text
    work = answer.json()["flow"]["members"][0]["work"]
    assert (work["function"], work["form"], work["arguments"]) == ("m:Shops", "manager", ["--own", "3", "--deep"])
    assert put(http, "both", run=None, flow=graph).status_code == 200
    named["work"] = {"kind": "manager", "manager": "absent"}
    problem(put(http, "both", run=None, flow=graph), 422, "manager")
    assert http.delete("/v1/schedules/both").status_code == 200


def test_crawlctl_schedules_a_manager_of_the_catalogue_over_the_api(api: Api) -> None:
    env = {"CRAWLER_REMOTE__TOKEN": api.token(*Scope), "CRAWLER_DATABASE__URL": None, "TEMPORAL_ADDRESS": None}
    words = ("--api", api.url, "schedule", "create", "yearly", "--manager")
    rules = ("--cron", "0 0 1 1 *", "--json")

    def crawlctl(*more: str) -> Result:
        return CliRunner(env=env).invoke(main, [*words, *more])

    created = crawlctl("shops", *rules, "--", "--deep")
    assert created.exit_code == 0, created.output
    (member,) = json.loads(created.stdout)["flow"]["members"]
    assert (member["work"]["function"], member["work"]["arguments"]) == ("m:Shops", ["--own", "3", "--deep"])
    assert "there is a schedule yearly already" in crawlctl("shops", *rules).output
    assert crawlctl("shops", *rules, "--replace").exit_code == 0
    assert crawlctl("absent", *rules, "--replace").exit_code == 2
    deleted = CliRunner(env=env).invoke(main, ["--api", api.url, "schedule", "delete", "yearly"])
    assert deleted.exit_code == 0, deleted.output


def test_crawlctl_pauses_in_the_name_of_the_actor(api: Api, http: httpx.Client) -> None:
    put(http, "nightly")
    env = {"CRAWLER_REMOTE__TOKEN": api.token(*Scope), "USER": "bob", "LOGNAME": "bob"}
    words = ("--api", api.url, "schedule", "pause", "nightly", "--json")
    for more, actor in (((), "bob"), (("--actor", "ann"), "ann")):
        result = CliRunner(env=env).invoke(main, [*words, *more])
        assert result.exit_code == 0, result.output
        assert json.loads(result.stdout)["pauses"][-1]["actor"].startswith(f"{actor} (token ")
        http.post("/v1/schedules/nightly/resume", json={})
    http.delete("/v1/schedules/nightly")


@pytest.mark.long
def test_a_file_has_all_schedules_and_makes_them_again(api: Api, http: httpx.Client, tmp_path: Path) -> None:
    file, env = tmp_path / "schedules.json", {"CRAWLER_REMOTE__TOKEN": api.token(*Scope)}

    def crawlctl(*words: str) -> Result:
        return CliRunner(env=env).invoke(main, ["--api", api.url, "schedule", *words])

    def applied(*words: str) -> dict[str, list[str]]:
        answer = crawlctl("apply", str(file), "--json", *words)
        assert answer.exit_code in (0, 1), answer.output
        return {change["schedule_id"]: [change["action"], *change["fields"]] for change in json.loads(answer.stdout)}

    def is_listed(name: str) -> bool:
        return name in crawlctl("export").stdout

    flow = {"id": "shops", "members": [{"path": "a", "work": {"kind": "crawl", "request": {"crawler": "bookshop"}}}]}
    put(http, "first", time_zone="Europe/Berlin", overlap="queue", paused=True)
    assert put(http, "second", run=None, flow=flow, missed_window_seconds=600).status_code == 201
    until(lambda: is_listed("first") and is_listed("second"))
    file.write_text(crawlctl("export").stdout)
    exported = json.loads(file.read_text())["schedules"]
    assert (
        exported[0]
        == {"schedule_id": "first", "time_zone": "Europe/Berlin", "overlap": "queue", "paused": True} | RULES
    )
    assert "requested_by" not in exported[0]["run"], "who applies a file is its requester"
    unchanged = {"first": ["unchanged"], "second": ["unchanged"]}
    assert (applied(), crawlctl("apply", str(file), "--dry-run").exit_code) == (unchanged, 0)

    http.delete("/v1/schedules/second")
    http.post("/v1/schedules/first/resume", json={})
    put(http, "first", cron=["0 5 1 1 *"])
    drift = {"first": ["change", "cron", "time_zone", "overlap", "paused"], "second": ["create"]}
    assert (applied("--dry-run"), crawlctl("apply", str(file), "--dry-run").exit_code) == (drift, 1)
    assert (applied(), applied()) == (drift, unchanged)
    assert json.loads(crawlctl("export").stdout)["schedules"] == exported

    put(http, "third")
    until(lambda: is_listed("third"))
    assert applied() == unchanged | {"third": ["not in the file"]}
    assert applied("--delete-others") == unchanged | {"third": ["delete"]}
    problem(http.get("/v1/schedules/third"), 404)
    for name in unchanged:
        http.delete(f"/v1/schedules/{name}")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("[]", "is not the output of `crawlctl"),
        ('{"flows": []}', "has no list `schedules`"),
        (
            '{"schedules": [{"schedule_id": "bad", "run": {"crawler": "x"}, "cron": ["0 0 30 2 *"]}]}',
            "schedule bad: cron",
        ),
        ('{"schedules": [{}]}', "schedule number 1: "),
        (json.dumps({"schedules": [RULES | {"schedule_id": "x"}] * 2}), "has more than one schedule x"),
    ],
)
def test_a_wrong_file_changes_nothing(api: Api, tmp_path: Path, content: str, says: str) -> None:
    file, env = tmp_path / "schedules.json", {"CRAWLER_REMOTE__TOKEN": api.token(*Scope)}
    file.write_text(content)
    answer = CliRunner(env=env).invoke(main, ["--api", api.url, "schedule", "apply", str(file)])
    assert answer.exit_code == 2, answer.output
    assert says in answer.output


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"run": None}, "request"),
        ({"flow": {"id": "shops", "members": []}}, "request"),
        ({"run": None, "flow": {"id": "shops", "members": []}}, "workflow"),
        ({"run": None, "flow": {"id": "shops", "jobs": []}}, "jobs"),
        (
            {"run": None, "flow": {"id": "shops", "members": [{"path": "a", "work": {"kind": "approval", "note": 7}}]}},
            None,
        ),
    ],
)
def test_a_wrong_flow_makes_no_schedule(http: httpx.Client, changes: dict[str, Any], field: str | None) -> None:
    refused = put(http, "wrong", **changes)
    assert refused.status_code == 422
    if field is not None:
        problem(refused, 422, field)
    problem(http.get("/v1/schedules/wrong"), 404)


def test_a_trigger_says_what_came_of_it_and_the_past_is_made_up_for(http: httpx.Client) -> None:
    assert put(http, "asked", {"If-None-Match": "*"}, paused=True).status_code == 201
    started = http.post("/v1/schedules/asked/trigger").json()
    assert (started["outcome"], started["workflow_id"].startswith("crawl-asked-")) == ("started", True)
    assert http.post("/v1/schedules/asked/trigger").json()["reason"] == "overlap"
    days = {"since": "2024-12-31T00:00:00Z", "until": "2026-01-01T00:00:00+00:00"}
    filled = http.post("/v1/schedules/asked/backfill", json=days)
    assert filled.status_code == 202
    assert filled.json()["occurrences"] == ["2025-01-01T00:00:00Z", "2026-01-01T00:00:00Z"]
    problem(http.post("/v1/schedules/asked/backfill", json={"since": "2025-06-01T00:00:00"}), 422, "since")
    problem(http.post("/v1/schedules/asked/backfill", json={"since": "2999-06-01T00:00:00Z"}), 422, "since")
    http.delete("/v1/schedules/asked")


def test_nobody_is_told_to_ask_again_for_what_may_have_been_made(
    http: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def asked(_: ScheduleCommands, schedule_id: str) -> Triggered:
        return Triggered(schedule_id=schedule_id, outcome=OccurrenceOutcome.ASKED)

    async def away(*_: object, **__: object) -> None:
        raise TemporaryError("Temporal does not answer")

    monkeypatch.setattr(ScheduleCommands, "trigger", asked)
    answer = http.post("/v1/schedules/nightly/trigger")
    assert (answer.status_code, answer.json()["outcome"]) == (202, "asked")
    for verb in ("trigger", "backfill", "pause"):
        monkeypatch.setattr(ScheduleCommands, verb, away)
        answer = http.post(
            f"/v1/schedules/nightly/{verb}", json={} if verb == "pause" else {"since": "2025-06-01T00:00:00Z"}
        )
        assert problem(answer, 503).detail == "Temporal does not answer"
        assert ("Retry-After" in answer.headers) == (verb == "pause")


def test_a_list_names_it(http: httpx.Client) -> None:
    put(http, "listed")
    for _ in range(600):  # a list is a moment late
        names = [each["schedule_id"] for each in http.get("/v1/schedules").json()["schedules"]]
        if "listed" in names:
            break
    assert "listed" in names
    http.delete("/v1/schedules/listed")


@pytest.mark.parametrize(
    ("name", "change", "field"),
    [
        ("bad", {"cron": ["0 0 30 2 *"]}, "cron"),
        ("bad", {"cron": []}, "every_seconds"),
        ("bad", {"time_zone": "Mars/Base"}, "time_zone"),
        ("bad", {"overlap": "sometimes"}, "overlap"),
        ("bad", {"paused": "yes"}, "paused"),
        ("bad", {"run": {"crawler": "no such crawler"}}, "crawler"),
        ("bad", {"run": {"crawler": "bookshop", "run_id": 1}}, "run.run_id"),
        ("bad", {"run": {"crawler": "bookshop", "trigger": "manual"}}, "run.trigger"),
        ("bad", {"run": {"crawler": "bookshop", "tasks": "4"}}, "run.tasks"),
        ("bad", {"rules": 1}, "rules"),
        ("-bad", {}, "schedule"),
        ("b a d", {}, "schedule"),
    ],
)
def test_bad_input_makes_nothing(http: httpx.Client, name: str, change: dict[str, Any], field: str) -> None:
    problem(put(http, name, **change), 422, field)
    problem(http.get(f"/v1/schedules/{name}"), 404)


def test_who_may_only_read_changes_nothing(api: Api, http: httpx.Client) -> None:
    put(http, "seen")
    with api.client(Scope.READ) as reader:
        assert reader.get("/v1/schedules/seen").status_code == 200
        assert reader.get("/v1/schedules").status_code == 200
        problem(put(reader, "seen"), 403)
        problem(reader.delete("/v1/schedules/seen"), 403)
        for verb in ("pause", "resume", "trigger", "backfill"):
            problem(reader.post(f"/v1/schedules/seen/{verb}", json={"since": "2025-01-01T00:00:00Z"}), 403)
    assert http.get("/v1/schedules/seen").json()["counts"]["started"] == 0
    http.delete("/v1/schedules/seen")
