"""The page shows how a run ended, what its crawls counted, and what they handed on."""

import pytest
from sqlalchemy import update

from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.database.schema import histories
from crawler_lifecycle.model.crawl_results import CrawlResult
from crawler_lifecycle.model.records import RunRecord
from crawler_lifecycle.model.states import RunStatus, TaskStatus
from tests.browser.chromium import Page
from tests.browser.pages import IS_LIVE
from tests.browser.shelf import MARKS, Shelf
from tests.kit.data.crawl_results import end_tasks
from tests.kit.data.databases import ref_to

pytestmark = MARKS
MAIN = CrawlResult(
    outcome="banned",
    stats={"items": 12_000, "pages": 90, "bytes": 2_500_000, "errors": 1, "retries": 4},
    result={"next": "<b>page 7</b>"},
)
CHILD = CrawlResult(stats={"items": 345, "pages": 9})
FACTS = "document.querySelector('.facts').innerText"
SLOW_COMPARISON = """void (window.fetch = ((real) => async (path, ...rest) => {
  if (path.includes('status=COMPLETED')) await new Promise((resume) => setTimeout(resume, 1500));
  return real(path, ...rest);
})(window.fetch))"""


@pytest.fixture
def page(shelf_page: Page) -> Page:
    return shelf_page


async def show(page: Page, run: RunRecord) -> None:
    await page.evaluate(f"location.hash = '#/runs/{run.run_id}'")
    await page.until_text(run.run_uid)


async def test_a_run_shows_its_outcome_its_numbers_and_its_result(page: Page, shelf: Shelf) -> None:
    run = shelf.ended([MAIN, CHILD], TaskStatus.SUCCEEDED)
    with shelf.database.transaction() as connection:
        connection.execute(update(histories).where(histories.c.id == run.run_id).values(task_seconds=5400))
    await page.evaluate("location.hash = '#/'")
    line = f"document.querySelector('.runs [data-key=\"{run.run_id}\"], .runs tbody tr').textContent"
    await page.until(f"{line}.includes('12,345 items, 99 pages, 2.5 MB, 1 error')")
    await show(page, run)
    await page.until(f"{FACTS}.includes('12,345 items, 99 pages, 2.5 MB, 1 error')")
    facts = await page.evaluate(FACTS)
    for part in ("Outcome", "banned", "retries: 4", "items: 12,345", "Task time", "1h 30m", '"next": "<b>page 7</b>"'):
        assert part in facts
    assert await page.evaluate("document.querySelector('.facts b')") is None, "the result is text"


async def test_a_task_shows_what_its_crawl_said(page: Page, shelf: Shelf) -> None:
    run = shelf.ended([MAIN, CHILD], TaskStatus.SUCCEEDED)
    await show(page, run)
    await page.click("button.open", "0 (main)")
    await page.until_text("The crawl reported: banned, 12,000 items, 90 pages, 2.5 MB, 1 error")


async def test_a_failed_run_shows_the_word_of_its_failure_and_no_empty_numbers(page: Page, shelf: Shelf) -> None:
    run = shelf.ended([None], TaskStatus.FAILED, "oom_killed")
    await show(page, run)
    await page.until(f"{FACTS}.includes('killed by oom')")
    facts = await page.evaluate(FACTS)
    assert not [name for name in ("Crawled", "Stats", "Result") if name in facts.splitlines()]


async def test_an_end_shows_while_the_run_is_watched(page: Page, shelf: Shelf) -> None:
    run = shelf.begun(1)
    await show(page, run)
    await page.until_text("0 of 1 task running")
    assert "Outcome" not in await page.evaluate(FACTS)
    end_tasks(shelf.database, run, [CHILD])
    SqlStore(shelf.database).runs.close(ref_to(run), RunStatus.COMPLETED, "all_succeeded")
    await page.until(f"{FACTS}.includes('finished') && {FACTS}.includes('345 items, 9 pages')")


async def test_tasks_are_seen_in_time(page: Page, shelf: Shelf) -> None:
    run = shelf.ended([MAIN, CHILD], TaskStatus.SUCCEEDED)
    await show(page, run)
    await page.click("[aria-label=Tasks] .chip", "Gantt")
    await page.until("document.querySelectorAll('.bars li').length === 2")
    parts = "[...document.querySelector('.bars li').querySelectorAll('i')].map((part) => part.dataset.status).join()"
    assert await page.evaluate(parts) == "QUEUED,PENDING", "no start is on record"
    assert not await page.evaluate("document.querySelector('table.tasks').checkVisibility()")
    await page.click("[aria-label=Tasks] .chip", "Gantt")
    await page.until("document.querySelector('table.tasks').checkVisibility()")


async def test_a_run_is_compared_with_the_last_good_one_before(page: Page, shelf: Shelf) -> None:
    good = shelf.ended([CrawlResult(stats={"items": 200})], TaskStatus.SUCCEEDED)
    bad = shelf.ended([CrawlResult(stats={"items": 50})], TaskStatus.FAILED, "exit_2")
    later = shelf.ended([CrawlResult(stats={"items": 1})], TaskStatus.SUCCEEDED)
    await show(page, bad)
    await page.until_text(f"Compared with run {good.run_id}", "200 items)", "75 % fewer items.")
    await page.click(".run a", f"run {good.run_id}")
    await page.until_text(f"run {good.run_id}", "Timeline")
    await show(page, later)
    await page.until_text(f"Compared with run {good.run_id}", "99 % fewer items.")


async def test_nothing_moves_when_the_last_good_run_is_known(page: Page, shelf: Shelf) -> None:
    """The line pushed the tasks down some moments after they were shown, and a click at that moment missed its row."""
    good, run = (shelf.ended([MAIN], TaskStatus.SUCCEEDED) for _ in range(2))
    await page.evaluate(SLOW_COMPARISON)
    await show(page, run)
    place = "document.querySelector('.tasks .open').getBoundingClientRect().top"
    await page.until(f"{place} > 0")
    at_first = await page.evaluate(place)
    assert "Compared with" not in await page.text()
    await page.until_text(f"Compared with run {good.run_id}")
    assert await page.evaluate(place) == at_first
    await page.reload()
    await page.until(IS_LIVE)


async def test_a_run_without_a_good_run_before_has_no_line_for_it(page: Page, shelf: Shelf) -> None:
    """The head had an empty line."""
    run = shelf.begun(1, "toys")
    await show(page, run)
    await page.until("!document.querySelector('.beside').checkVisibility()")


async def test_a_stop_comes_before_a_force_that_loses_data(page: Page, shelf: Shelf) -> None:
    run = shelf.begun(1)
    await show(page, run)
    buttons = "[...document.querySelectorAll('.head button')].filter((it) => it.checkVisibility())"
    await page.until(f"{buttons}.length === 2")
    assert await page.evaluate(f"{buttons}.map((it) => `${{it.textContent}} ${{it.className}}`).join()") == (
        "Stop danger,Kill now link bad"
    )
    end_tasks(shelf.database, run, [None])
    SqlStore(shelf.database).runs.close(ref_to(run), RunStatus.COMPLETED, "all_succeeded")


async def test_a_phone_has_few_controls_above_a_log(page: Page, shelf: Shelf) -> None:
    run = shelf.ended([MAIN], TaskStatus.SUCCEEDED)
    async with page.on_a_phone():
        await show(page, run)
        await page.click("button.open", "0 (main)")
        controls = "[...document.querySelectorAll('.logs .tools :is(input, select, button)')]"
        await page.until(f"{controls}.length === 4")
        names = f"{controls}.filter((it) => it.checkVisibility()).map((it) => it.placeholder || it.textContent).join()"
        assert await page.evaluate(names) == "all levelsinfo and abovewarningserrors,Find lines,Download"
