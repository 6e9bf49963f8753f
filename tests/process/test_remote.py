"""`crawlctl --api` against a whole running stack: start, watch, stop with its proof, logs, fetch, resume, audit."""

import asyncio
import json
import re
import signal
import time
import zipfile
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.kit.service.embedded import CRAWLCTL, LINK, crawlctl, environment, processes_of
from tests.kit.waiting import eventually
from tests.process.crawls import PATIENCE, Site, end_all_of, site

pytestmark = [pytest.mark.process, pytest.mark.system, pytest.mark.timeout(240)]


@dataclass(frozen=True)
class Ended:
    status: int
    stdout: str
    stderr: str

    @property
    def last(self) -> Any:
        return json.loads(self.stdout.splitlines()[-1])


@dataclass(frozen=True)
class Caller:
    """A user on another machine: an address and a token, without a state folder, a database or a Temporal server."""

    home: Path
    url: str
    token: str

    @property
    def settings(self) -> Mapping[str, str]:
        (self.home / "token").write_text(self.token)
        return {"CRAWLER_REMOTE__TOKEN_FILE": str(self.home / "token"), "CRAWLER_REMOTE__URL": self.url}

    async def __call__(self, *words: str) -> Ended:
        process = await asyncio.create_subprocess_exec(
            *CRAWLCTL,
            *words,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=environment(self.home, self.settings),
            cwd=self.home,
        )
        async with asyncio.timeout(PATIENCE):
            stdout, stderr = await process.communicate()
        assert process.returncode is not None
        return Ended(process.returncode, stdout.decode(), stderr.decode())


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def stack(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    folder = tmp_path_factory.mktemp("remote")
    try:
        async with site(folder, {"talker": 'for n in 1 2 3; do echo "line $n"; done; exit 0;'}) as running:
            await running.command.wait_for(LINK)
            yield running
            await running.end_all()
        await eventually(lambda: not processes_of(folder), patience=20)
    finally:
        end_all_of(folder)


@pytest.fixture
def caller(stack: Site, tmp_path: Path) -> Caller:
    link = re.search(LINK, stack.command.output)
    assert link, stack.command.output
    return Caller(tmp_path, link[1], link[2])


async def test_a_run_is_started_watched_read_and_fetched(caller: Caller) -> None:
    done = await caller("run", "talker", "--json")
    assert done.status == 0, done.stderr
    run = done.last["run"]["run_id"]
    assert (done.last["run"]["status"], done.last["run"]["trigger"]) == ("COMPLETED", "manual")
    assert {export["state"] for export in done.last["exports"]} == {"done"}
    assert (await caller("logs", str(run), "--task", "0")).stdout == "line 1\nline 2\nline 3\n"
    assert f"run {run} ended COMPLETED" in (await caller("watch", str(run))).stdout
    fetched = await caller("fetch", str(run), "--output", "run.zip", "--json")
    assert fetched.status == 0, fetched.stderr
    with zipfile.ZipFile(caller.home / "run.zip") as archive:
        assert "files/logs/0-1.log" in archive.namelist()
    refused = await caller("resume", str(run))
    assert (refused.status, "there is nothing to resume" in refused.stderr) == (6, True)


async def test_a_stop_is_waited_for_until_its_proof(caller: Caller, stack: Site) -> None:
    started = await caller("run", "gated", "--tasks", "2", "--detach", "--json")
    assert started.status == 0, started.stderr
    run = started.last["run_id"]
    stopped = await caller("stop", str(run), "--force", "--reason", "wrong site", "--actor", "ann", "--wait", "--json")
    assert stopped.status == 0, stopped.stderr
    stopping, details = (json.loads(line) for line in stopped.stdout.splitlines())
    assert (stopping["run_id"], stopping["intent"], stopping["told"]) == (run, "FORCE", "signal")
    assert (details["run"]["status"], details["run"]["reason"]) == ("FAILED", "stopped_forced")
    (stop,) = [line for line in details["log"] if line["event"] == "force stop"]
    assert (stop["actor"], stop["door"], stop["message"]) == ("ann (token embedded)", "api", "wrong site")
    again = await caller("stop", str(run))
    assert (again.status, "is over" in again.stderr) == (6, True)


async def test_ctrl_c_ends_a_watch_and_the_run_goes_on(caller: Caller, stack: Site) -> None:
    run = (await caller("run", "gated", "--detach", "--json")).last["run_id"]
    async with crawlctl(caller.home, "watch", str(run), settings=caller.settings) as watch:
        await watch.wait_for(rf"run {run} ")
        began = time.monotonic()
        assert await watch.end(signal.SIGINT) == 130
        assert time.monotonic() - began < 20
    assert f"run {run} continues: `crawlctl " in watch.output
    assert (await caller("show", str(run), "--json")).last["run"]["status"] in ("INITIALIZING", "PROCESSING")


async def test_a_watch_lives_through_the_death_of_the_api(caller: Caller, stack: Site) -> None:
    started = await stack.start()
    await stack.until_running(started, 1)
    async with crawlctl(caller.home, "watch", str(started.run_id), settings=caller.settings) as watch:
        await watch.wait_for("PROCESSING")
        await stack.until_replaced("api", stack.kill("api"))
        stack.release(started, 0)
        assert await watch.end() == 0
    assert f"run {started.run_id} ended COMPLETED" in watch.output


async def test_schedules_limits_and_audits_are_read_and_changed(caller: Caller) -> None:
    created = await caller("schedule", "create", "nightly", "gated", "--cron", "0 3 * * *", "--paused", "--json")
    assert (created.status, created.last["paused"]) == (0, True), created.stderr
    taken = await caller("schedule", "create", "nightly", "gated", "--cron", "0 4 * * *")
    assert (taken.status, "nightly" in taken.stderr) == (6, True)
    moved = await caller("schedule", "create", "nightly", "gated", "--cron", "0 4 * * *", "--replace", "--json")
    assert moved.last["cron"] == ["0 4 * * *"], moved.stderr
    assert (await caller("schedule", "show", "nightly", "--last", "0", "--json")).last["schedule_id"] == "nightly"
    assert (await caller("schedule", "delete", "nightly")).status == 0
    assert (await caller("schedule", "show", "nightly")).status == 3
    audit = await caller("audit", "--dry-run", "--json")
    assert audit.status in (0, 7), audit.stderr
    assert audit.last["audit"]["repair"] is False
    assert (await caller("limits", "--json")).last[0]["scope"] == "installation"
    assert {"gated", "talker"} <= {crawler["name"] for crawler in (await caller("crawlers", "--json")).last}
