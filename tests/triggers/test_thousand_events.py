"""A thousand events on a whole stack that is full: repeated, unmappable, and with deaths of the trigger process before
and after each of its calls. Each mapped event has started exactly one run or flow, and each other event is in the dead
letter queue.
"""

import asyncio
import json
import random
import re
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio

from crawler_lifecycle.model.reasons import STOPPED
from crawler_lifecycle.model.records import ALL_RUNS
from crawler_lifecycle.model.requests import RunRequest
from crawler_lifecycle.model.states import RunStatus
from crawler_lifecycle.stack.plan import free_ports
from tests.kit.outside.stores import CREDENTIALS, REGION
from tests.kit.service.embedded import LINK, environment, processes_of
from tests.kit.waiting import eventually
from tests.process.crawls import PATIENCE, Site, end_all_of, site
from tests.triggers.doomed import CALLS, MOMENTS, POST
from tests.triggers.queues import Queues

pytestmark = [pytest.mark.process, pytest.mark.system, pytest.mark.timeout(900)]
RULES = """
[rules.order]
pattern.source = ["shop"]
pattern.detail-type = ["Order"]
pattern.detail.number = [{ numeric = [">=", 0] }]
start_run = { crawler = "gated", tags = ["order-{$.detail.number}"], arguments = { number = "$.detail.number" } }
[rules.batch]
pattern.source = ["shop"]
pattern.detail-type = ["Batch"]
start_flow = { name = "{$.detail.name}", members = [{ path = "decide", work = { kind = "approval" } }] }
[rules.unwanted]
pattern.source = [{ prefix = "sh" }]
pattern.detail-type = ["Unwanted"]
stop_run = { run = "$.detail.run" }
"""
ORDERS, BATCHES, UNMAPPED = 240, 60, 300  # different events
MESSAGES = 1000
SEED = 52
DRAINING = 500.0


def event(kind: str, serial: int, source: str = "shop", **detail: Any) -> str:
    body = {"version": "0", "id": f"{kind.lower()}-{serial}", "source": source, "detail-type": kind, "detail": detail}
    return json.dumps(body)


def unmapped(number: int) -> str:
    """Return an event of one of the kinds that have no effect."""
    return (
        event("Order", number, source="another-shop", number=number),
        event("Order", 10_000 + number, number=-1),
        event("Unwanted", number),  # names no run
        event("Unwanted", 10_000 + number, run=10**8 + number),
        f'{{"not": "an event {number}"}}',
        f"not even JSON {number}",
    )[number % 6]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def stack(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    folder = tmp_path_factory.mktemp("events")
    mapping = folder / "events.toml"
    mapping.write_text(RULES)
    settings = {"CRAWLER_TRIGGERS__MAPPING": str(mapping), "CRAWLER_LIMITS__TASKS_IN_CLUSTER": "2"}
    try:
        async with site(folder, settings=settings) as running:
            await running.command.wait_for(LINK)
            yield running
    finally:
        end_all_of(folder)
    await eventually(lambda: not processes_of(folder), patience=20)


@asynccontextmanager
async def trigger_process(
    home: Path, settings: Mapping[str, str], *module: str
) -> AsyncIterator[asyncio.subprocess.Process]:
    with (home / "triggers.log").open("ab") as log:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", *(module or ("workers.triggers",)),
            stdout=log, stderr=log, env=environment(home, settings), cwd=Path(__file__).parents[2],
        )  # fmt: skip
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def test_each_event_acts_once_or_is_given_up(stack: Site, moto: str, credentials: None, tmp_path: Path) -> None:
    queues = Queues(moto)
    link = re.search(LINK, stack.command.output)
    assert link
    settings = CREDENTIALS | {
        "AWS_DEFAULT_REGION": REGION,
        "CRAWLER_REMOTE__URL": link[1],
        "CRAWLER_REMOTE__TOKEN": link[2],
        "CRAWLER_TRIGGERS__QUEUE_URL": queues.events,
        "CRAWLER_TRIGGERS__DEAD_LETTER_URL": queues.dead,
        "CRAWLER_TRIGGERS__ENDPOINT_URL": moto,
        "CRAWLER_TRIGGERS__VISIBILITY_SECONDS": "10",
        "CRAWLER_TRIGGERS__LONGEST_PAUSE_SECONDS": "10",
    }
    doomed = await stack.control.runs.start(RunRequest(crawler="gated"))
    unwanted = event("Unwanted", -1, run=doomed.run_id)
    orders = [event("Order", number, number=number) for number in range(ORDERS)]
    batches = [event("Batch", number, name=f"batch {number}") for number in range(BATCHES)]
    lost = [unmapped(number) for number in range(UNMAPPED)]
    chance = random.Random(SEED)
    bodies = [unwanted, *orders, *batches, *lost]
    bodies += chance.choices([unwanted, *orders, *batches], k=MESSAGES - len(bodies))
    chance.shuffle(bodies)
    assert (len(bodies), len(set(bodies))) == (MESSAGES, 1 + ORDERS + BATCHES + UNMAPPED)
    await asyncio.to_thread(queues.send, *bodies)

    for call in CALLS:
        for number, moment in enumerate(MOMENTS, 2):
            # a pause is needed only after a failure, so these processes find no API
            extra = {"CRAWLER_REMOTE__URL": "http://127.0.0.1:1"} if call == "ChangeMessageVisibility" else {}
            words = ("tests.triggers.doomed", call, moment, str(number))
            async with trigger_process(tmp_path, settings | extra, *words) as process, asyncio.timeout(PATIENCE):
                assert await process.wait() == -signal.SIGKILL, (tmp_path / "triggers.log").read_text()[-3000:]
        if call == POST:
            killed = stack.kill("api")
            await stack.until_replaced("api", killed)

    (port,) = free_ports(1)
    async with (
        trigger_process(tmp_path, settings | {"CRAWLER_HEALTH__PORT": str(port)}) as first,
        trigger_process(tmp_path, settings) as second,
    ):
        await eventually(lambda: sum(queues.counts()) == 0, patience=DRAINING, pause=0.5, seen=queues.counts)
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False) as health:
            ready, metrics = await health.get("/readyz"), (await health.get("/metrics")).text
        assert ready.status_code == 200, ready.text
        for outcome in ("started", "repeated", "dead_letter"):
            assert re.search(rf'crawler_trigger_messages_total{{outcome="{outcome}"}} [1-9]', metrics), metrics
        for process in (first, second):
            process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(PATIENCE):
            assert (await first.wait(), await second.wait()) == (0, 0)

    runs = list(stack.control.runs.select(ALL_RUNS, limit=ORDERS + 100))
    by_tag = Counter(tag for run in runs for tag in run.tags)
    assert by_tag == {f"order-{number}": 1 for number in range(ORDERS)}
    assert len(runs) == ORDERS + 1, "and the run to be stopped"
    by_rule = [run for run in runs if run.run_id != doomed.run_id]
    assert {(run.trigger, run.requested_by) for run in by_rule} == {("api", "rule order (token embedded)")}
    waiting = [run for run in by_rule if run.waiting_cause == "admission"]
    assert len(waiting) >= ORDERS - 2, "the installation is full"
    over = await eventually(lambda: _when_over(stack, doomed.run_id), patience=PATIENCE)
    assert (over.status, over.reason) == (RunStatus.FAILED, STOPPED)

    flows = stack.control.flows.list(limit=BATCHES + 10)
    assert Counter(flow.id for flow in flows) == {f"shop:batch-{number}": 1 for number in range(BATCHES)}
    given_up = dict(await asyncio.to_thread(queues.given_up))
    assert set(given_up) == set(lost)
    assert all(given_up.values()), "each has its reason"


def _when_over(stack: Site, run_id: int) -> Any:
    run = stack.control.runs.overview(run_id).run
    return run if run.status.is_over else None
