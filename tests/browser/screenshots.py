"""Takes the pictures of `docs/screenshots` anew: `python -m tests.browser.screenshots LINK`.

LINK is what `crawlctl up` prints on a state folder with nothing in it.
"""

import asyncio
import sys
import tempfile
from pathlib import Path
from typing import Any

import httpx

from tests.browser.chromium import Page, chromium
from tests.browser.pages import IS_LIVE

FOLDER = Path(__file__).parents[2] / "docs" / "screenshots"
DESKTOP, LIST, PHONE = (1100, 760), (1100, 400), (390, 780)
RUNS = "document.querySelectorAll('.runs tbody tr').length"


class Stage:
    """A browser in front of a stack, and what is played on it."""

    def __init__(self, page: Page, http: httpx.AsyncClient) -> None:
        self.page = page
        self._http = http

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
        (await self._http.put("/v1/limits", json=values)).raise_for_status()

    async def pause(self, **scope: Any) -> None:
        (await self._http.post("/v1/limits/pause", json=scope)).raise_for_status()

    async def show(self, place: str, ready: str) -> None:
        await self.page.evaluate(f"location.hash = '{place}'")
        await self.page.until(ready)

    async def take(self, name: str, size: tuple[int, int], *, dark: bool = False) -> None:
        await self.page.look_like(*size, dark=dark, mobile=size == PHONE)
        await self.page.until("document.querySelectorAll('.toast').length === 0")
        await self.page.evaluate("scrollTo(0, 0), document.activeElement.blur()")
        await self.page.screenshot(FOLDER / f"{name}.png")


async def play(stage: Stage) -> None:
    before = [
        await stage.start("sleeper", 4, arguments={"seconds": "3"}),
        await stage.start("failing", 1),
        await stage.start("sleeper", 12, arguments={"seconds": "9"}, max_parallel=3),
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
        f"#/runs/{stubborn}", "document.querySelector('.phases [data-state=now]').textContent.includes('Proved')"
    )
    await stage.take("stop-dark", DESKTOP, dark=True)
    await stage.show("#/", f"{RUNS} === 5")
    await stage.take("runs-dark", LIST, dark=True)
    await stage.take("runs-light", LIST)
    await stage.take("runs-phone", PHONE)
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
    await stage.take("limits-light", LIST)


async def main(link: str) -> None:
    url, _, token = link.partition("/#token=")
    headers = {"Authorization": f"Bearer {token}"}
    with tempfile.TemporaryDirectory() as folder:
        async with (
            chromium(Path(folder)) as page,
            httpx.AsyncClient(base_url=url, headers=headers, timeout=60, trust_env=False) as http,
        ):
            await page.look_like(*DESKTOP)
            await page.open(link)
            await page.until(IS_LIVE)
            await play(Stage(page, http))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
