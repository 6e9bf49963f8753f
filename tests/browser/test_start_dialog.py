"""The dialog of examples/start_dialog in a real browser, against a whole stack: by server-sent events and by Pusher."""

import functools
import threading
from collections.abc import AsyncIterator, Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
import pytest_asyncio

from crawler_lifecycle.model.requests import StopRequest
from tests.browser.chromium import Page
from tests.browser.pages import address_and_token, finish, of_a_stack
from tests.browser.pusher_channels import PusherChannelsServer, pusher_channels
from tests.kit.waiting import eventually
from tests.process.crawls import Site

pytestmark = [pytest.mark.process, pytest.mark.timeout(240)]
EXAMPLE = Path(__file__).parents[2] / "examples" / "start_dialog"
IS_OPEN = "document.querySelector('dialog[open]')"
WAYS = ["events", "pusher"]


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Write nothing into the output of tests."""


@pytest.fixture(scope="module")
def origin() -> Iterator[str]:
    """The example's folder, served as the howto says."""
    with ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(EXAMPLE))) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join(10)


@pytest.fixture(scope="module")
def channels() -> Iterator[PusherChannelsServer]:
    with pusher_channels() as server:
        yield server


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def stack(
    has_chromium: None, origin: str, channels: PusherChannelsServer, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Site]:
    """A stack with room for a single job, so that a second run waits."""
    settings = {
        "CRAWLER_API__ORIGINS": origin,
        "CRAWLER_CLUSTER__CAPACITY": "1",
        "CRAWLER_NOTICES__PUSHER_APP_ID": channels.app_id,
        "CRAWLER_NOTICES__PUSHER_KEY": channels.key,
        "CRAWLER_NOTICES__PUSHER_SECRET": channels.secret,
        "CRAWLER_NOTICES__PUSHER_URL": channels.url,
    }
    async with of_a_stack(tmp_path_factory.mktemp("dialog"), {}, settings) as running:
        yield running


async def open_page(browser: Page, stack: Site, origin: str, channels: PusherChannelsServer, way: str) -> None:
    api, token = await address_and_token(stack)
    fragment = {"api": api, "token": token, "crawler": "gated"}
    if way == "pusher":
        fragment |= {"pusher": channels.address, "key": channels.key}
    await browser.open("about:blank")
    await browser.open(f"{origin}/#{urlencode(fragment)}")
    await browser.until("document.querySelector('#start')?.onclick")


async def start(browser: Page, stack: Site) -> int:
    """Click on the button; return the RunID as soon as the dialog names the run."""
    await browser.click("#start")
    await browser.until("/^Run \\d+ /.test(document.querySelector('#line').textContent)")
    run = int(str(await browser.evaluate("document.querySelector('#line').textContent")).split()[1])
    stack.asked.append(run)
    return run


@pytest.mark.parametrize("way", WAYS)
async def test_the_dialog_closes_with_the_notice_of_the_start(
    browser: Page, stack: Site, origin: str, channels: PusherChannelsServer, way: str
) -> None:
    await open_page(browser, stack, origin, channels, way)
    run = await start(browser, stack)
    await browser.until(f"!{IS_OPEN}")
    await browser.until_text(f"Run {run} has started.")
    assert (f"crawler-run-{run}" in channels.subscribed) == (way == "pusher")
    await finish(stack, run, 1)


@pytest.mark.parametrize("way", WAYS)
async def test_the_dialog_waits_through_a_break_and_says_why_a_run_never_starts(
    browser: Page, stack: Site, origin: str, channels: PusherChannelsServer, way: str
) -> None:
    first = await stack.start()
    await stack.until_running(first, 1)
    await open_page(browser, stack, origin, channels, way)
    run = await start(browser, stack)
    if way == "pusher":
        await eventually(lambda: f"crawler-run-{run}" in channels.subscribed)
        channels.cut()
        await eventually(lambda: channels.subscribed.count(f"crawler-run-{run}") == 2)
    else:
        await stack.until_replaced("api", stack.kill("api"))
    assert await browser.evaluate(f"Boolean({IS_OPEN})"), "the run waits for room, and so does the dialog"
    await stack.control.runs.stop(run, StopRequest(actor="ann", reason="wrong site"))
    await browser.until(f"!{IS_OPEN}")
    await browser.until_text(f"Run {run} never started: ", "ann")
    stack.release(first, 0)
    await stack.until_over(first)
    browser.errors[:] = [error for error in browser.errors if "ERR_" not in error]  # of the API that was away


async def test_an_api_that_refuses_is_heard(browser: Page, stack: Site, origin: str) -> None:
    api, _ = await address_and_token(stack)
    await browser.open("about:blank")
    await browser.open(f"{origin}/#{urlencode({'api': api, 'token': 'wrong', 'crawler': 'gated'})}")
    await browser.until("document.querySelector('#start')?.onclick")
    await browser.click("#start")
    await browser.until_text("a valid bearer token is needed")
    assert not await browser.evaluate(f"Boolean({IS_OPEN})")
    browser.errors[:] = [error for error in browser.errors if "401" not in error]
