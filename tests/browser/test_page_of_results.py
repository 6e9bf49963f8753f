"""The page shows how a run ended, what its crawls counted, and what they handed on."""

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pytest
import pytest_asyncio

from crawler_lifecycle.adapters.sql.database import Database
from crawler_lifecycle.adapters.sql.store import SqlStore
from crawler_lifecycle.contract.crawl_result import CrawlResult
from crawler_lifecycle.contract.deployment import Crawler
from crawler_lifecycle.contract.records import RunRecord
from crawler_lifecycle.contract.requests import RunRequest
from crawler_lifecycle.contract.states import RunStatus, TaskStatus
from crawler_lifecycle.ports import NewRun
from crawler_lifecycle.services.api.tokens import Scope
from tests.apis import Api, served
from tests.browser.chromium import Page, chromium
from tests.browser.pages import IS_LIVE
from tests.crawl_results import end_tasks
from tests.databases import copy_of, ref_to

pytestmark = [pytest.mark.system, pytest.mark.timeout(240)]
MAIN = CrawlResult(
    outcome="banned",
    stats={"items": 12_000, "pages": 90, "bytes": 2_500_000, "errors": 1, "retries": 4},
    result={"next": "<b>page 7</b>"},
)
CHILD = CrawlResult(stats={"items": 345, "pages": 9})
FACTS = "document.querySelector('.facts').innerText"


@dataclass
class Shelf:
    """An API and its database with runs that are over."""

    api: Api
    database: Database

    def ended(self, results: list[CrawlResult | None], status: TaskStatus, reason: str | None = None) -> RunRecord:
        run, runs = self.begun(len(results)), SqlStore(self.database).runs
        end_tasks(self.database, run, results, status, reason)
        is_completed = status is TaskStatus.SUCCEEDED
        run_status, run_reason = (
            (RunStatus.COMPLETED, "all_succeeded") if is_completed else (RunStatus.FAILED, "main_job_failed")
        )
        return runs.close(ref_to(run), run_status, run_reason)

    def begun(self, tasks: int) -> RunRecord:
        runs, entry = SqlStore(self.database).runs, Crawler(name="books", command=["true"])
        run = runs.create(NewRun(RunRequest(crawler="books"), entry, tasks, f"crawl-{uuid4()}", str(uuid4())))
        return runs.mark_started(ref_to(run))


@pytest.fixture(scope="module")
def shelf(has_chromium: None, sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shelf]:
    folder = tmp_path_factory.mktemp("page")
    url = copy_of(sqlite_template, folder)
    database = Database(url)
    with served(folder, url, CRAWLER_API__REQUESTS_PER_SECOND="500") as api:
        yield Shelf(api, database)
    database.close()


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def page(shelf: Shelf, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Page]:
    async with chromium(tmp_path_factory.mktemp("browser")) as page:
        await page.look_like(1280, 900)
        await page.open(f"{shelf.api.url}/#token={shelf.api.token(*Scope)}")
        await page.until(IS_LIVE)
        yield page
        assert page.errors == []


async def show(page: Page, run: RunRecord) -> None:
    await page.evaluate(f"location.hash = '#/runs/{run.run_id}'")
    await page.until_text(run.run_uid)


async def test_a_run_shows_its_outcome_its_numbers_and_its_result(page: Page, shelf: Shelf) -> None:
    run = shelf.ended([MAIN, CHILD], TaskStatus.SUCCEEDED)
    await page.evaluate("location.hash = '#/'")
    line = f"document.querySelector('.runs [data-key=\"{run.run_id}\"], .runs tbody tr').textContent"
    await page.until(f"{line}.includes('12,345 items, 99 pages, 2.5 MB, 1 error')")
    await show(page, run)
    await page.until(f"{FACTS}.includes('12,345 items, 99 pages, 2.5 MB, 1 error')")
    facts = await page.evaluate(FACTS)
    for part in ("Outcome", "banned", "retries: 4", "items: 12,345", '"next": "<b>page 7</b>"'):
        assert part in facts
    assert await page.evaluate("document.querySelector('.facts b')") is None, "the result is text"


async def test_a_task_shows_what_its_crawl_said(page: Page, shelf: Shelf) -> None:
    run = shelf.ended([MAIN, CHILD], TaskStatus.SUCCEEDED)
    await show(page, run)
    await page.click("button.open", "0 (main)")
    await page.until_text("The crawl said: banned, 12,000 items, 90 pages, 2.5 MB, 1 error")


async def test_a_failed_run_shows_the_word_of_its_failure_and_no_empty_numbers(page: Page, shelf: Shelf) -> None:
    run = shelf.ended([None], TaskStatus.FAILED, "oom_killed")
    await show(page, run)
    await page.until(f"{FACTS}.includes('killed by oom')")
    facts = await page.evaluate(FACTS)
    assert not [name for name in ("Crawled", "Stats", "Result") if name in facts.splitlines()]


async def test_an_end_shows_while_the_run_is_watched(page: Page, shelf: Shelf) -> None:
    run = shelf.begun(1)
    await show(page, run)
    await page.until_text("Waits for 1 task")
    assert "Outcome" not in await page.evaluate(FACTS)
    end_tasks(shelf.database, run, [CHILD])
    SqlStore(shelf.database).runs.close(ref_to(run), RunStatus.COMPLETED, "all_succeeded")
    await page.until(f"{FACTS}.includes('finished') && {FACTS}.includes('345 items, 9 pages')")
