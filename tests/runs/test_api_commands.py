"""The API's commands against a whole running stack: start once, watch, stop, force, resume, reopen, export, follow."""

import asyncio
import re
import sys
from collections.abc import AsyncIterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import DeleteWorkflowExecutionRequest

from crawler_lifecycle.database.database import Database
from crawler_lifecycle.http.tokens import Tokens
from crawler_lifecycle.model.answers import Started
from crawler_lifecycle.model.requests import RunRequest
from crawler_lifecycle.retention.store import RetentionStore
from tests.kit.service.apis import DOCUMENT, problem, stream
from tests.kit.service.embedded import LINK, ask, processes_of
from tests.kit.waiting import eventually, eventually_async
from tests.process.crawls import PATIENCE, Site, end_all_of, site
from tests.process.stops import until_closed

pytestmark = [pytest.mark.process, pytest.mark.system, pytest.mark.timeout(240)]
EVENTS = Path(__file__).parents[2] / "examples" / "events.toml"
TALK = 'for n in 1 2 3 4 5; do echo "line $n é"; sleep 0.5; done; exit 0;'


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def stack(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    folder = tmp_path_factory.mktemp("api")
    try:
        async with site(folder, {"talker": TALK}, {"CRAWLER_TRIGGERS__MAPPING": str(EVENTS)}) as running:
            await running.command.wait_for(LINK)
            yield running
            await running.end_all()
        await eventually(lambda: not processes_of(folder), patience=20)
    finally:
        end_all_of(folder)


@pytest.fixture
def address(stack: Site) -> tuple[str, str]:
    """URL and token, as the link that the stack prints says them."""
    found = re.search(LINK, stack.command.output)
    assert found, stack.command.output
    return found[1], found[2]


@pytest_asyncio.fixture(loop_scope="session")
async def http(address: tuple[str, str]) -> AsyncIterator[httpx.AsyncClient]:
    url, token = address
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(base_url=url, headers=headers, timeout=60, trust_env=False) as client:
        yield client


async def start(http: httpx.AsyncClient, key: str | None = None, **request: Any) -> httpx.Response:
    headers = {"Idempotency-Key": key} if key else {}
    return await http.post("/v1/runs", json={"crawler": "gated", **request}, headers=headers)


async def until(http: httpx.AsyncClient, run: int, status: str) -> dict[str, Any]:
    async def reached() -> dict[str, Any] | None:
        view: dict[str, Any] = (await http.get(f"/v1/runs/{run}")).json()
        return view if view["run"]["status"] == status else None

    view = await eventually_async(reached, patience=PATIENCE)
    assert view is not None
    return view


async def test_one_key_is_one_run(http: httpx.AsyncClient, stack: Site) -> None:
    at_once = await asyncio.gather(*(start(http, "one-key", tasks=2) for _ in range(3)))
    again = await start(http, "one-key", tasks=2)
    assert sorted(answer.status_code for answer in at_once) == [200, 200, 201]
    assert sorted(answer.json()["created"] for answer in at_once) == [False, False, True]
    assert (again.status_code, again.json()["created"]) == (200, False)
    (run,) = {answer.json()["run_id"] for answer in [*at_once, again]}
    assert {answer.headers["Location"] for answer in at_once} == {f"/v1/runs/{run}"}
    problem(await start(http, "one-key", tasks=3), 409, "Idempotency-Key")
    assert "tasks" in problem(await start(http, "one-key"), 409, "Idempotency-Key").detail
    problem(await start(http, "one-key", tasks=2, arguments={"site": "x"}), 409, "Idempotency-Key")
    other = (await start(http, "another-key", tasks=2)).json()
    assert other["run_id"] != run
    view = (await http.get(f"/v1/runs/{run}")).json()
    assert (view["run"]["trigger"], view["run"]["request"]["requested_by"]) == ("api", "token embedded")
    for each in (run, other["run_id"]):
        await http.post(f"/v1/runs/{each}/stop", json={"force": True})
        await until(http, each, "FAILED")
    assert (await start(http, "one-key", tasks=2)).json()["run_id"] == run, "a run that is over keeps its key"
    shown = await asyncio.to_thread(stack.control.runs.show, run)
    assert [line.actor for line in shown.log if line.event == "force stop"] == ["token embedded"]


async def test_the_key_of_a_removed_run_starts_a_new_one(http: httpx.AsyncClient, stack: Site) -> None:
    """Once Temporal has forgotten the run's workflow, too."""
    started = Started.model_validate((await start(http, "old-key")).json())
    stack.release(started, 0)
    await stack.until_over(started)
    client = await stack.control.engine.client()
    await until_closed(stack, started.workflow_id)
    with closing(Database(f"sqlite:///{stack.state / 'crawler.db'}")) as database:
        assert RetentionStore(database).remove([started.run_id], datetime.now(UTC)) == [started.run_uid]
    assert "has run already" in problem(await start(http, "old-key"), 409).detail
    gone = WorkflowExecution(workflow_id=started.workflow_id, run_id=started.first_execution_run_id)
    forget = DeleteWorkflowExecutionRequest(namespace=client.namespace, workflow_execution=gone)
    await client.workflow_service.delete_workflow_execution(forget)

    async def start_again() -> Started | None:
        answer = await start(http, "old-key")
        return Started.model_validate(answer.json()) if answer.status_code == 201 else None

    again = await eventually_async(start_again, patience=PATIENCE)
    assert again is not None
    assert again.run_id > started.run_id
    stack.release(again, 0)
    await stack.until_over(again)


async def test_the_token_stands_beside_every_claimed_name(http: httpx.AsyncClient, stack: Site) -> None:
    """A token named shop started and stopped a run as ceo@example.com, and nothing told of the token. (R7)"""
    run = (await start(http, requested_by="ceo@example.com", tasks=1)).json()["run_id"]
    await http.post(f"/v1/runs/{run}/stop", json={"force": True, "actor": "ceo@example.com", "reason": "enough"})
    await until(http, run, "FAILED")
    ceo = "ceo@example.com (token embedded)"
    assert (await http.post(f"/v1/runs/{run}/export")).status_code == 200
    resume = f"/v1/runs/{run}/resume?actor=ceo@example.com"
    assert (await http.post(resume, json={"reopen": True})).status_code == 202
    shown = await asyncio.to_thread(stack.control.runs.show, run)
    actors = {line.event: (line.actor, line.door) for line in shown.log if line.actor}
    assert actors["created"] == (ceo, None)
    assert actors["force stop"] == (ceo, "api")
    assert (actors["export requested"], actors["reopen requested"]) == (("token embedded", "api"), (ceo, "api"))
    (listed,) = (await http.get("/v1/runs?requested_by=ceo@example.com")).json()["runs"]
    assert (listed["run_id"], listed["requested_by"]) == (run, ceo)
    for forged in ("ceo (token admin)", "token admin"):
        problem(await start(http, requested_by=forged), 422, "requested_by")
        problem(await http.post(f"/v1/runs/{run}/stop", json={"actor": forged}), 422, "actor")
        problem(await http.post(f"/v1/runs/{run}/export", params={"actor": forged}), 422, "actor")
    await http.post(f"/v1/runs/{run}/stop", json={"force": True})
    await until(http, run, "FAILED")


async def run_ids(http: httpx.AsyncClient) -> list[int]:
    """Of runs before, more may still be written: what matters is that there are no others."""
    return [run["run_id"] for run in (await http.get("/v1/runs?limit=500")).json()["runs"]]


async def test_an_audit_is_asked_for_and_tells_what_it_found(http: httpx.AsyncClient) -> None:
    asked = await http.post("/v1/audits", json={"repair": True, "requested_by": "ann"})
    assert asked.status_code == 202, asked.text
    path = f"/v1/audits/{asked.json()['audit']}"
    assert asked.headers["Location"] == path

    async def done() -> dict[str, Any] | None:
        report: dict[str, Any] | None = (await http.get(path)).json()["report"]
        return report

    report = await eventually_async(done, patience=PATIENCE)
    assert report is not None
    assert {part: each["problem"] for part, each in report["parts"].items()} == dict.fromkeys(
        ("runs", "jobs", "handovers", "flows")
    )
    overview = (await http.get("/v1/audits")).json()
    assert overview["audits"][0]["requested_by"] == "ann (token embedded)"
    assert overview["audits"][0]["complete"]
    assert overview["last_complete_at"]
    problem(await http.get("/v1/audits/crawl-1"), 404)
    problem(await http.post("/v1/audits", json={"repair": "yes"}), 422, "repair")
    unknown = {"repair": True, "remove_unknown_jobs": True}
    problem(await http.post("/v1/audits", json=unknown), 422, "remove_unknown_jobs")


async def test_bad_input_leaves_nothing(http: httpx.AsyncClient) -> None:
    before = await run_ids(http)
    for body, field in (
        ({"crawler": "no such crawler"}, "crawler"),
        ({"crawler": "gated", "tasks": "3"}, "tasks"),
        ({"crawler": "gated", "tasks": 10_001}, "tasks"),
        ({"crawler": "gated", "taks": 3}, "taks"),
        ({"crawler": "gated", "trigger": "scheduled"}, "trigger"),
        ({"crawler": "gated", "run_id": 1}, "run_id"),
        ({"crawler": "gated", "retries": {"infrastucture": 0}}, "retries.infrastucture"),
        ({"crawler": "gated", "retries": {"program": "1"}}, "retries.program"),
        ({"crawler": "gated", "cluster": "moon"}, "cluster"),
        ({"crawler": "gated", "arguments": {"a": 1}}, "arguments.a"),
        ({"crawler": "gated", "arguments": {str(number): "x" * 4000 for number in range(20)}}, "arguments"),
        ({"crawler": "gated", "settings": {str(number): "x" * 4000 for number in range(20)}}, "settings"),
        ({"crawler": "gated", "arguments": {"a": "x\0y"}}, "arguments"),
        ({"crawler": "gated", "settings": {"a": "\0"}}, "settings"),
        ([], "body"),
    ):
        problem(await http.post("/v1/runs", json=body), 422, field)
    problem(await http.post("/v1/runs", content=b"{", headers={"Content-Type": "application/json"}), 400, "body")
    half = b'{"crawler": "gated", "arguments": {"a": "\\ud800"}}'
    problem(await http.post("/v1/runs", content=half, headers={"Content-Type": "application/json"}), 422)
    for key in ("a b", "é", "x" * 256):
        headers = httpx.Headers({"Idempotency-Key": key}, encoding="utf-8")
        problem(await http.post("/v1/runs", json={"crawler": "gated"}, headers=headers), 422, "Idempotency-Key")
    plain = {"Content-Type": "text/plain"}
    problem(await http.post("/v1/runs", content=b'{"crawler": "gated"}', headers=plain), 415, "Content-Type")
    problem(await http.post("/v1/runs/1/stop", json={"force": "yes"}), 422, "force")
    problem(await http.post("/v1/runs/4711/stop"), 404)
    assert await run_ids(http) == before


async def test_a_run_ends_fails_is_reopened_and_exported(http: httpx.AsyncClient, stack: Site) -> None:
    started = await stack.start(tasks=2)
    run = started.run_id
    await stack.until_running(started, 2)
    problem(await http.post(f"/v1/runs/{run}/export"), 409)
    assert (await http.post(f"/v1/runs/{run}/resume")).json()["started"] is False
    stack.release(started, 0, 1, codes={1: 7})
    await until(http, run, "FAILED")
    await stack.until_over(started)
    failed = (await http.get(f"/v1/runs/{run}/tasks?status=FAILED")).json()
    assert [(task["task"], task["exit_code"]) for task in failed["tasks"]] == [(1, 7)]
    problem(await http.post(f"/v1/runs/{run}/resume"), 409)
    exported = (await http.post(f"/v1/runs/{run}/export")).json()["exports"]
    assert {each["state"] for each in exported} == {"done"}
    stack.release(started, 1)
    assert (await http.post(f"/v1/runs/{run}/resume", json={"reopen": True})).json()["started"] is True
    await until(http, run, "COMPLETED")
    problem(await http.post(f"/v1/runs/{run}/stop"), 409)


async def test_a_run_under_way_gets_more_tasks(http: httpx.AsyncClient, stack: Site) -> None:
    started = await stack.start(tasks=1)
    path, key = f"/v1/runs/{started.run_id}/tasks", {"Idempotency-Key": "more"}
    await stack.until_running(started, 1)
    for _ in range(2):
        assert (await http.post(path, json={"count": 2}, headers=key)).json() == {"first": 1, "count": 2}
    problem(await http.post(path, json={"count": 2}), 422, "Idempotency-Key")
    problem(await http.post(path, json={"count": 0}, headers=key), 422, "count")
    problem(await http.post(path, json={"count": 10_000}, headers={"Idempotency-Key": "too-many"}), 422, "count")
    await stack.until_running(started, 3)
    stack.release(started, 0, 1, 2)
    await stack.assert_true(started, {0: 0, 1: 0, 2: 0})
    problem(await http.post(path, json={"count": 1}, headers={"Idempotency-Key": "late"}), 409)


async def test_a_log_is_followed_to_its_end_and_gone_on_with(
    http: httpx.AsyncClient, stack: Site, address: tuple[str, str]
) -> None:
    started = await stack.control.runs.start(RunRequest(crawler="talker"))
    whole = "".join(f"line {number} é\n" for number in range(1, 6))

    def followed() -> tuple[str, str, list[str]]:
        headers = {"Authorization": f"Bearer {address[1]}"}
        with httpx.Client(base_url=address[0], headers=headers, timeout=60, trust_env=False) as client:
            path = f"/v1/runs/{started.run_uid}/logs/stream"
            with stream(client, path) as events:
                first = next(event for event in events if event.kind == "log")
            with stream(client, path, first.id) as events:
                rest = list(events)
        return first.data["text"], "".join(event.data["text"] for event in rest), [event.kind for event in rest]

    began, rest, kinds = await asyncio.to_thread(followed)
    assert began + rest == whole
    assert kinds[-1] == "end"
    tail = (await http.get(f"/v1/runs/{started.run_id}/logs", params={"offset": -10})).json()
    assert tail["text"] == "line 5 é\n"[-9:]
    assert tail["ended"] is True


async def test_tokens_are_made_and_taken_back_by_the_command_line(http: httpx.AsyncClient, stack: Site) -> None:
    status, made = await ask(stack.state, "token", "create", "watcher", "--scope", "read")
    assert (status, made["scopes"]) == (0, ["read"])
    headers = {"Authorization": f"Bearer {made['token']}"}
    assert (await http.get("/v1/me", headers=headers)).json() == {"name": "watcher", "scopes": ["read"]}
    problem(await http.post("/v1/runs", json={"crawler": "gated"}, headers=headers), 403)
    status, said = await ask(stack.state, "token", "create", "watcher")
    assert (status, "already" in said) == (6, True)
    status, known = await ask(stack.state, "token", "list")
    assert {each["name"] for each in known} >= {"embedded", "watcher"}
    Tokens(stack.state / "api-tokens.json").revoke("watcher")
    problem(await http.get("/v1/me", headers=headers), 401)


async def test_no_log_knows_a_token(stack: Site, address: tuple[str, str]) -> None:
    logs = [path.read_text(errors="replace") for path in (stack.state / "logs").iterdir()]
    assert logs
    assert not any(address[1] in log for log in logs)


async def test_requests_made_from_the_document_find_no_server_error(tmp_path: Path, address: tuple[str, str]) -> None:
    """Whatever schemathesis makes of the document: valid, nearly valid, and not at all. Streams have no end, so not
    those."""
    url, token = address
    bounds = ["--max-examples", "60", "--max-time", "45", "--phases", "examples,coverage,fuzzing", "--seed", "1"]
    options = ["--checks", "not_a_server_error", "--exclude-path-regex", "/stream$|/changes$", "--no-color"]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "schemathesis.cli", "run", str(DOCUMENT), "--url", url, *bounds, *options,
        "--header", f"Authorization:Bearer {token}", "--rate-limit", "auto",
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, cwd=tmp_path,
    )  # fmt: skip
    said, _ = await process.communicate()
    assert process.returncode == 0, said.decode()[-6000:]
    assert b"Operations" in said or b"passed" in said
