"""The page shows how a run ended, what its crawls counted, and what they handed on."""

import pytest

from crawler_lifecycle.adapters.sql.store import SqlStore
from crawler_lifecycle.contract.crawl_result import CrawlResult
from crawler_lifecycle.contract.records import RunRecord
from crawler_lifecycle.contract.states import RunStatus, TaskStatus
from tests.browser.chromium import Page
from tests.browser.shelf import MARKS, Shelf
from tests.crawl_results import end_tasks
from tests.databases import ref_to

pytestmark = MARKS
MAIN = CrawlResult(
    outcome="banned",
    stats={"items": 12_000, "pages": 90, "bytes": 2_500_000, "errors": 1, "retries": 4},
    result={"next": "<b>page 7</b>"},
)
CHILD = CrawlResult(stats={"items": 345, "pages": 9})
FACTS = "document.querySelector('.facts').innerText"


@pytest.fixture
def page(shelf_page: Page) -> Page:
    return shelf_page


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


async def test_tasks_are_seen_in_time(page: Page, shelf: Shelf) -> None:
    run = shelf.ended([MAIN, CHILD], TaskStatus.SUCCEEDED)
    await show(page, run)
    await page.click("[aria-label=Tasks] .chip", "In time")
    await page.until("document.querySelectorAll('.bars li').length === 2")
    parts = "[...document.querySelector('.bars li').querySelectorAll('i')].map((part) => part.dataset.status).join()"
    assert await page.evaluate(parts) == "QUEUED,PENDING", "no start is on record"
    assert not await page.evaluate("document.querySelector('table.tasks').checkVisibility()")
    await page.click("[aria-label=Tasks] .chip", "In time")
    await page.until("document.querySelector('table.tasks').checkVisibility()")
