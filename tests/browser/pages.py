"""The page of a running stack in a real browser, for modules with a fixture `stack`; what tests do on it again and
again."""

import json
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from uuid import uuid4

import pytest
import pytest_asyncio

from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.model.answers import Started
from crawler_lifecycle.model.deployment import Crawler
from crawler_lifecycle.model.records import RunRecord
from crawler_lifecycle.model.requests import RunRequest
from crawler_lifecycle.model.states import RunStatus
from crawler_lifecycle.runs.ports import NewRun
from tests.browser.chromium import Page, chromium, program
from tests.kit.data.databases import missing, ref_to
from tests.kit.service.embedded import LINK, processes_of
from tests.kit.waiting import eventually
from tests.process.crawls import Site, end_all_of, site

IS_LIVE = "document.querySelector('#live').dataset.state === 'live'"
DIALOG = "document.querySelector('dialog.start[open]')"
ON_A_RUN = "/^#\\/runs\\/\\d+$/.test(location.hash)"


@pytest.fixture(scope="session")
def has_chromium() -> None:
    if program() is None:
        missing("no Chromium on this machine (Debian's package is chromium)")


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def browser(has_chromium: None, stack: Site, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Page]:
    """Ends before its stack does: what it could not fetch then would be an error of the page."""
    async with chromium(tmp_path_factory.mktemp("browser")) as page:
        await page.look_like(1280, 900)
        yield page
        assert page.errors == [], "nothing went wrong in the page, and its policy had nothing to forbid"


@pytest_asyncio.fixture(loop_scope="session")
async def page(browser: Page, stack: Site) -> Page:
    """The list of runs, live."""
    link = await stack.command.wait_for(LINK)
    await browser.open("about:blank")
    await browser.open(link)
    await browser.until(IS_LIVE)
    return browser


@asynccontextmanager
async def of_a_stack(folder: Path, crawlers: Mapping[str, str], settings: Mapping[str, str]) -> AsyncIterator[Site]:
    """A stack for a module's pages; nothing of it is left running."""
    try:
        async with site(folder, crawlers, settings) as running:
            yield running
            await running.end_all()
        await eventually(lambda: not processes_of(folder), patience=20)
    finally:
        end_all_of(folder)


async def address_and_token(stack: Site) -> tuple[str, str]:
    url, _, token = (await stack.command.wait_for(LINK)).partition("/#token=")
    return url, token


@contextmanager
def unattended(stack: Site, tasks: int = 1) -> Iterator[tuple[Database, RunRecord]]:
    """A run that nobody supervises but the test; over afterwards."""
    database = Database(f"sqlite:///{stack.state / 'crawler.db'}")
    new = NewRun(RunRequest(crawler="gated"), Crawler(name="gated"), tasks, f"crawl-{uuid4()}", str(uuid4()))
    run = SqlStore(database).runs.create(new)
    try:
        yield database, run
    finally:
        SqlStore(database).tasks.cancel_queued(ref_to(run), "stopped")
        if SqlStore(database).runs.get(run.run_id).finished_at is None:
            SqlStore(database).runs.close(ref_to(run), RunStatus.FAILED, "stopped")
        database.close()


async def tab_to(page: Page, focused: str) -> None:
    """With nothing but the Tab key, to what is like this."""
    for _ in range(100):
        await page.press("Tab")
        if await page.evaluate(f"((focused) => {focused})(document.activeElement)"):
            return
    raise AssertionError(f"Tab never leads to where {focused}")


async def fill(page: Page, **fields: str) -> None:
    for name, value in fields.items():
        await page.evaluate(f"document.querySelector('#start-{name}').focus()")
        await page.type(value)


async def show(page: Page, run: Started) -> None:
    await page.evaluate(f"location.hash = '#/runs/{run.run_id}'")
    await page.until_text(f"run {run.run_id}", "Timeline")


async def until_said(page: Page, sentence: str) -> None:
    """Until the page of a run says this, and no more, of how the run ended."""
    await page.until(f"document.querySelector('.waits').textContent === {json.dumps(sentence)}")


async def until_started(page: Page) -> int:
    """The dialog has closed by itself and has left the run's page behind; its RunID."""
    await page.until(f"!document.querySelector('dialog') && {ON_A_RUN}")
    return int(str(await page.evaluate("location.hash")).rpartition("/")[2])


async def finish(stack: Site, run_id: int, tasks: int) -> None:
    run = stack.control.runs.show(run_id).run
    started = Started(run_id=run_id, run_uid=run.run_uid, workflow_id="", first_execution_run_id="")
    stack.release(started, *range(tasks))
    await stack.until_over(started)
