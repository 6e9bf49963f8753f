"""The table of a run's tasks on the page is sorted over all tasks, by mouse and by keyboard, and after a reload."""

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import update

from crawler_lifecycle.database.schema import task_histories
from crawler_lifecycle.model.records import RunRecord
from tests.browser.chromium import Page
from tests.browser.pages import tab_to
from tests.browser.shelf import MARKS, Shelf

pytestmark = MARKS
TASKS = "[...document.querySelectorAll('.tasks button.open')].map((task) => parseInt(task.textContent)).join()"
SORTED = "[...document.querySelectorAll('th')].find((head) => head.textContent === '%s').getAttribute('aria-sort')"
RANGE = "document.querySelector('.pager span').textContent"
LONGEST, NEXT, SHORTEST = 207, 3, 150
# each heading that is seen, with the edge that its words share with the words below
HEADINGS = """(() => {
    const edges = (element) => {
        const range = document.createRange();
        range.selectNodeContents(element);
        return range.getBoundingClientRect();
    };
    return [...document.querySelectorAll('.tasks th')].filter((head) => head.checkVisibility()).map((head) => {
        const [above, below] = [head, document.querySelector(`.tasks td[data-label=${head.textContent}]`)].map(edges);
        return `${head.textContent} ${['left', 'right'].find((edge) => Math.abs(above[edge] - below[edge]) < 2)}`;
    });
})()"""


@pytest.fixture
def page(shelf_page: Page) -> Page:
    return shelf_page


def run_of_many(shelf: Shelf) -> RunRecord:
    """Return a run with 250 tasks; three of them have run."""
    run, begun = shelf.begun(250), datetime.now(UTC) - timedelta(hours=2)
    with shelf.database.transaction() as connection:
        for task, minutes in {LONGEST: 60, NEXT: 30, SHORTEST: 1}.items():
            times = {"started_at": begun, "finished_at": begun + timedelta(minutes=minutes)}
            row = update(task_histories).filter_by(history_id=run.run_id, task=task)
            connection.execute(row.values(exit_code=minutes, **times))
    return run


async def test_tasks_are_sorted_over_all_pages(page: Page, shelf: Shelf) -> None:
    run = run_of_many(shelf)
    await page.evaluate(f"location.hash = '#/runs/{run.run_id}'")
    await page.until(f"{TASKS}.startsWith('0,1,2')")
    assert await page.evaluate(SORTED % "Task") == "ascending"
    await page.click("th button", "Took")
    await page.until(f"{TASKS}.startsWith('{LONGEST},{NEXT},{SHORTEST},0')")
    assert [await page.evaluate(SORTED % name) for name in ("Took", "Task")] == ["descending", "none"]
    assert await page.evaluate(RANGE) == "1\u2013100 of 250"
    await page.click(".pager button", "Next")
    await page.until(f"{RANGE} === '101\u2013200 of 250'")
    await page.reload()
    await page.until(f"{RANGE} === '101\u2013200 of 250'")
    await page.click("th button", "Took")
    await page.until(f"{TASKS}.startsWith('{SHORTEST},{NEXT},{LONGEST},0')")
    assert await page.evaluate(SORTED % "Took") == "ascending"
    assert await page.evaluate("location.hash") == f"#/runs/{run.run_id}?sort=duration"


async def test_headings_stand_over_their_columns_on_a_phone(page: Page, shelf: Shelf) -> None:
    """They stood in a line of their own, as wide as their words."""
    run = run_of_many(shelf)
    async with page.on_a_phone():
        await page.evaluate(f"location.hash = '#/runs/{run.run_id}?sort=-duration'")
        await page.until(f"{TASKS}.startsWith('{LONGEST},') && {HEADINGS}.length")
        assert await page.evaluate(HEADINGS) == ["Task left", "Status left", "Took right"]


async def test_tasks_are_sorted_with_the_keyboard(page: Page, shelf: Shelf) -> None:
    run = run_of_many(shelf)
    await page.evaluate(f"location.hash = '#/runs/{run.run_id}'")
    await page.until(f"{TASKS}.startsWith('0,1,2')")
    await tab_to(page, "focused.matches('th button') && focused.textContent === 'Exit'")
    await page.press("Enter")
    await page.until(f"{TASKS}.startsWith('{LONGEST},{NEXT},{SHORTEST},0')")
    assert await page.evaluate("document.activeElement.textContent") == "Exit"
    await page.press("Enter")
    await page.until(f"{TASKS}.startsWith('{SHORTEST},{NEXT},{LONGEST},0')")
    await page.evaluate("document.querySelector('.jump').value = '120'")
    await page.evaluate("document.querySelector('.jump').dispatchEvent(new Event('change'))")
    await page.until(f"{TASKS}.startsWith('120,121,122')")
    assert await page.evaluate(SORTED % "Task") == "ascending"


async def test_tasks_are_sorted_on_a_phone(page: Page, shelf: Shelf) -> None:
    run = run_of_many(shelf)
    async with page.on_a_phone():
        await page.evaluate(f"location.hash = '#/runs/{run.run_id}'")
        await page.until(f"{TASKS}.startsWith('0,1,2')")
        await page.click("th button", "Took")
        await page.until(f"{TASKS}.startsWith('{LONGEST},{NEXT},{SHORTEST},0')")
        assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
