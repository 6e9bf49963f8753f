"""The modules of examples/start_dialog in Node, against a real API: by server-sent events and by Pusher's protocol."""

import asyncio
import json
import shutil
from pathlib import Path

import pytest

from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.http.tokens import Scope
from crawler_lifecycle.model.notices import NoticeKind
from tests.browser.pusher_channels import pusher_channels
from tests.kit.data.databases import MakeRun, copy_of, missing, ref_to
from tests.kit.outside.messages import a_notice
from tests.kit.service.apis import Api
from tests.kit.waiting import eventually

EXAMPLE = Path(__file__).parents[2] / "examples" / "start_dialog"
NOTICE = "5d0b4a0e-6f55-5c4c-9d5e-0d2f1e3a7b11"
PROGRAM = """
const [folder, way, api, token, run, server, key] = process.argv.slice(2);
const { firstNotice } = await import(`${folder}/notices.js`);
const { byEvents } = await import(`${folder}/by_events.js`);
const { byPusher } = await import(`${folder}/by_pusher.js`);
const headers = { Authorization: `Bearer ${token}` };
const read = async () => {
  const { notices } = await (await fetch(`${api}/v1/runs/${run}`, { headers })).json();
  console.log(`read ${notices.length}`);
  return notices;
};
const subscribe = way === "pusher" ? byPusher({ server, key, run }) : byEvents({ api, token, run });
const { signal } = new AbortController();
const first = await firstNotice({ subscribe, read, signal }).catch((error) => ({ kind: error.message, run_id: "" }));
console.log(`end ${first.kind} ${first.run_id}`);
process.exit();
"""


@pytest.fixture
def database_url(sqlite_template: Path, tmp_path: Path) -> str:
    return copy_of(sqlite_template, tmp_path)


async def node(folder: Path, *words: str) -> asyncio.subprocess.Process:
    program = shutil.which("node")
    if program is None:
        missing("no Node on this machine")
    file = folder / "program.mjs"
    file.write_text(PROGRAM)
    words = ("--experimental-websocket", str(file), str(EXAMPLE), *words)
    return await asyncio.create_subprocess_exec(str(program), *words, stdout=asyncio.subprocess.PIPE)


@pytest.mark.parametrize("way", ["events", "pusher"])
@pytest.mark.parametrize("is_early", [True, False], ids=["sent before", "sent later"])
@pytest.mark.long
async def test_the_first_notice_comes_whenever_it_was_sent(
    api: Api, database: Database, make_run: MakeRun, tmp_path: Path, way: str, is_early: bool
) -> None:
    run, token = make_run(), api.token(Scope.READ)
    place = {"run_id": run.run_id, "run_uid": run.run_uid, "kind": NoticeKind.STARTED}
    notice = a_notice(NOTICE).model_copy(update=place)
    with pusher_channels() as channels:

        def send() -> None:
            SqlStore(database).runs.keep_notice(ref_to(run), notice)
            for browser in channels.browsers[f"crawler-run-{run.run_id}"]:
                browser.send(json.dumps({"event": "run-started", "data": notice.model_dump_json()}))

        if is_early:
            send()
        process = await node(tmp_path, way, api.url, token, str(run.run_id), channels.address, channels.key)
        assert process.stdout is not None
        async with asyncio.timeout(60):
            assert await process.stdout.readline() == f"read {int(is_early)}\n".encode()
            if not is_early:
                send()
            lines = (await process.stdout.read()).decode().splitlines()
            await process.wait()
        assert lines[-1] == f"end started {run.run_id}"
        if way == "pusher":
            await eventually(lambda: channels.subscribed == [f"crawler-run-{run.run_id}"])


async def test_a_stream_that_is_refused_ends_the_wait(api: Api, tmp_path: Path) -> None:
    process = await node(tmp_path, "events", api.url, "wrong", "7", "", "")
    assert process.stdout is not None
    async with asyncio.timeout(60):
        assert (await process.stdout.read()).decode() == "end a valid bearer token is needed \n"
