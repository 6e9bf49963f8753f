"""Script that takes the pictures of `docs/screenshots` on a stack of its own: `python -m tests.browser.screenshots`."""

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx

from crawler_lifecycle.flows import Workflow, crawl
from tests.browser.chromium import Page, chromium
from tests.browser.pages import IS_LIVE
from tests.kit.service.embedded import LINK, processes_of, up
from tests.kit.waiting import eventually
from tests.process.crawls import end_all_of

SHOPS = Path(__file__).parents[2] / "examples" / "flows" / "shops_manager.py"
FOLDER = Path(__file__).parents[2] / "docs" / "screenshots"
Size = tuple[int, int]
DESKTOP, TALL, LIST, PHONE = (1100, 760), (1100, 640), (1100, 560), (390, 780)
RUNS = "document.querySelectorAll('.runs tbody tr').length"
BOXES = "document.querySelectorAll('.box[data-status=%s]').length"
ITEMS_OVER = "document.querySelector('.waits').textContent"


class Stage:
    """A browser in front of a stack, and what is played on it. `taken`: the sizes of its pictures, by name."""

    def __init__(self, page: Page, http: httpx.AsyncClient, folder: Path) -> None:
        self.page = page
        self.taken: dict[str, Size] = {}
        self._http = http
        self._folder = folder

    async def start(self, crawler: str, tasks: int, **rest: Any) -> int:
        request = {"crawler": crawler, "tasks": tasks, "trigger": "manual", "requested_by": "ann", **rest}
        answer = (await self._http.post("/v1/runs", json=request)).raise_for_status()
        return int(answer.json()["run_id"])

    async def until(self, run: int, *statuses: str) -> None:
        while (await self._http.get(f"/v1/runs/{run}")).json()["run"]["status"] not in statuses:
            await asyncio.sleep(0.5)

    async def stop(self, run: int) -> None:
        body = {"reason": "wrong site", "actor": "ann"}
        (await self._http.post(f"/v1/runs/{run}/stop", json=body)).raise_for_status()

    async def limit(self, **values: Any) -> None:
        (await self._http.put("/v1/limits", json={"allow_unknown": True, **values})).raise_for_status()

    async def pause(self, **scope: Any) -> None:
        (await self._http.post("/v1/limits/pause", json={"allow_unknown": True, **scope})).raise_for_status()

    async def push(self, workflow: Workflow) -> None:
        (await self._http.post("/v1/flows", json=workflow.definition().model_dump(mode="json"))).raise_for_status()

    async def manage(self, manager: str, flow: str, *arguments: str) -> str:
        body = {"manager": manager, "family": flow, "arguments": arguments}
        answer = (await self._http.post("/v1/flows/managers", json=body)).raise_for_status()
        return quote(answer.json()["flow_id"], safe="")

    async def show(self, place: str, ready: str) -> None:
        await self.page.evaluate(f"location.hash = '{place}'")
        await self.page.until(ready)

    async def take(self, name: str, size: Size, *, dark: bool = False) -> None:
        await self.page.look_like(*size, dark=dark, mobile=size == PHONE)
        await self.page.until("document.querySelectorAll('.toast').length === 0")
        await self.page.evaluate("scrollTo(0, 0), document.activeElement.blur()")
        await self.page.ask("Input.dispatchMouseEvent", type="mouseMoved", x=0, y=0)  # no line is under the mouse
        await self.page.screenshot(self._folder / f"{name}.png")
        self.taken[name] = size


@asynccontextmanager
async def stage(folder: Path, pictures: Path) -> AsyncIterator[Stage]:
    """Start a stack with the catalogue of the examples. Nothing of the stack is left running."""
    try:
        async with up(folder / "state", "--flows", str(SHOPS)) as command:
            link = await command.wait_for(LINK)
            url, _, token = link.partition("/#token=")
            headers = {"Authorization": f"Bearer {token}"}
            async with (
                chromium(folder) as page,
                httpx.AsyncClient(base_url=url, headers=headers, timeout=60, trust_env=False) as http,
            ):
                await page.look_like(*DESKTOP)
                await page.open(link)
                await page.until(IS_LIVE)
                yield Stage(page, http, pictures)
    finally:
        end_all_of(folder)
        await eventually(lambda: not processes_of(folder), patience=20)


async def play(stage: Stage) -> None:
    before = [
        await stage.start("sleeper", 4, arguments={"seconds": "3"}),
        await stage.start("failing", 1),
        await stage.start("sleeper", 12, arguments={"seconds": "3"}, max_parallel=3),
    ]
    for run in before:
        await stage.until(run, "COMPLETED", "FAILED")
    stubborn = await stage.start("stubborn", 1, grace_seconds=300)
    sleeper = await stage.start("sleeper", 5, arguments={"seconds": "300"})
    for run in (stubborn, sleeper):
        await stage.until(run, "PROCESSING")
    await stage.show(f"#/runs/{sleeper}", "document.querySelectorAll('.tasks .pill[data-status=RUNNING]').length === 5")
    await stage.page.click("button.open", "0 (main)")
    await stage.page.until("document.querySelector('pre.log').textContent.split('\\n').length > 12")
    await stage.take("run-light", DESKTOP)
    await stage.take("run-phone", PHONE)
    await stage.stop(stubborn)
    await stage.show(
        f"#/runs/{stubborn}",
        "document.querySelector('.phases [data-state=now]').textContent.includes('Confirmed stopped')",
    )
    await stage.take("stop-dark", DESKTOP, dark=True)
    await stage.show("#/", f"{RUNS} === 5")
    await stage.take("runs-dark", LIST, dark=True)
    await stage.take("runs-light", LIST)
    await stage.take("runs-phone", PHONE)
    await play_flows(stage)
    await stage.limit(runs=50, tasks=500)
    await stage.limit(label="site:books.example", runs=1)
    await stage.limit(label="tenant:acme", weight=3)
    first, _ = [
        await stage.start("sleeper", 1, arguments={"seconds": "300"}, labels=["site:books.example", "tenant:acme"])
        for _ in range(2)
    ]
    await stage.until(first, "PROCESSING")
    await stage.pause(crawler="failing", reason="the site is being rebuilt")
    await stage.show("#/installation", "document.querySelector('.limits').textContent.includes('rebuilt')")
    await stage.take("limits-light", TALL)


async def play_flows(stage: Stage) -> None:
    await stage.push(bookshop())
    shops = await stage.manage("shops", "november", "--strict", "shop-02")
    states = {"completed": 2, "discarded": 1, "cancelled": 1}
    ready = [f"{BOXES % state} === {number}" for state, number in states.items()]
    await stage.show("#/flows/bookshop%2Fnovember?view=graph", " && ".join(ready))
    await stage.take("flow-light", TALL)
    await stage.show("#/flows/bookshop%2Fnovember?view=ledger", "document.querySelector('.jobs tbody tr')")
    await stage.take("flow-phone", PHONE)
    await stage.show(f"#/flows/{shops}", f"{ITEMS_OVER}.includes(', 1 failed')")
    await stage.page.until(f"parseInt({ITEMS_OVER}) >= 9 && document.querySelector('td .pill[data-status=failed]')")
    await stage.take("items-dark", DESKTOP, dark=True)
    await stage.show("#/crawlers/shop", "document.querySelectorAll('.columns-of i').length > 18")
    await stage.take("crawler-light", TALL)


def bookshop() -> Workflow:
    """Return a flow whose jobs differ in their states: one crawl fails, another goes on, an approval waits."""
    short, long = (crawl("sleeper", arguments={"seconds": seconds}) for seconds in ("1", "300"))
    return (
        Workflow("bookshop", id="bookshop/november")
        .add("categories", short)
        .add("novels", short, deps="categories")
        .add("travel", long, deps="categories")
        .add("poetry", crawl("failing"), deps="categories")
        .add("prices", crawl("shop"), deps="poetry")
        .add_approval("review", note="Are the prices right?", deps="novels")
        .add("merge", short, deps=["novels", "travel"])
        .add("publish", short, deps=["review", "merge"])
    )


async def main() -> None:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        async with stage(Path(folder), FOLDER) as playing:
            await play(playing)


if __name__ == "__main__":
    asyncio.run(main())
