"""A task's log on the page has colours and levels, is sieved, goes further back, and is saved as a file."""

import asyncio
from pathlib import Path

import pytest

from crawler_lifecycle.clusters.ports import LogChunk
from crawler_lifecycle.runs.commands.reading import RunReader
from tests.browser.chromium import Page
from tests.browser.shelf import MARKS, Shelf

pytestmark = MARKS
LOG = "document.querySelector('pre.log')"
SEEN = f"[...{LOG}.children].filter((line) => !line.hidden).map((line) => line.textContent.trim()).join('|')"
SCRAPY = "\n".join([
    "2026-11-26 09:00:00 [scrapy.core] DEBUG: Crawled (200)",
    "\x1b[32m2026-11-26 09:00:01\x1b[0m [books] INFO: \x1b[1;34mpage\x1b[0m 7",
    "2026-11-26 09:00:02 [books] WARNING: slow",
    "2026-11-26 09:00:03 [books] ERROR: no price",
    "Traceback (most recent call last):",
    "2026-11-26 09:00:04 [scrapy.core] INFO: Closing spider",
    "",
])  # fmt: skip


@pytest.fixture
def page(shelf_page: Page) -> Page:
    return shelf_page


async def show_log(page: Page, shelf: Shelf, monkeypatch: pytest.MonkeyPatch, whole: str) -> list[int]:
    """Open the log of a run's only task; return the list that gets the byte of each read."""
    content, reads = whole.encode(), list[int]()

    def log(_: RunReader, run_uid: str, task: object, offset: int = 0) -> LogChunk:
        reads.append(offset)
        begin = max(0, len(content) + offset) if offset < 0 else offset
        return LogChunk(text=content[begin:].decode(), offset=len(content), ended=begin >= len(content))

    monkeypatch.setattr(RunReader, "task_log", log)
    run = shelf.begun(1)
    await page.evaluate(f"location.hash = '#/runs/{run.run_id}?open=0'")
    await page.until_text("end of the log")
    return reads


async def test_lines_have_colours_and_levels(page: Page, shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    await show_log(page, shelf, monkeypatch, SCRAPY)
    ranks = f"[...{LOG}.children].map((line) => line.dataset.rank).join('')"
    assert await page.evaluate(ranks) == "123442", "a line without a level belongs to the line before"
    assert await page.evaluate(f'{LOG}.querySelector(\'[data-ink="4"][data-bold="1"]\').textContent') == "page"
    assert await page.evaluate(f"{LOG}.querySelector('[data-ink=\"2\"]').textContent") == "2026-11-26 09:00:01"
    green = f"getComputedStyle({LOG}.querySelector('[data-ink=\"2\"]')).color !== getComputedStyle({LOG}).color"
    assert await page.evaluate(green)


async def test_a_log_is_sieved_by_level_and_by_text(page: Page, shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    await show_log(page, shelf, monkeypatch, SCRAPY)
    level = "document.querySelector('.logs select')"
    await page.evaluate(f"{level}.value = '4', {level}.dispatchEvent(new Event('change'))")
    assert await page.evaluate(SEEN) == "2026-11-26 09:00:03 [books] ERROR: no price|Traceback (most recent call last):"
    await page.until_text("2 of 6 lines")
    await page.evaluate("document.querySelector('.logs input').focus()")
    await page.type("TRACE")
    await page.until(f"{SEEN} === 'Traceback (most recent call last):'")
    await page.evaluate(f"{level}.value = '0', {level}.dispatchEvent(new Event('change'))")
    await page.until_text("1 of 6 lines")


async def test_what_is_further_back_comes_when_asked_for(
    page: Page, shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = await show_log(page, shelf, monkeypatch, "".join(f"line {number:05}\n" for number in range(12_000)))
    await page.until_text("Earlier lines are not shown.")
    assert reads[0] == -65_536
    before = await page.evaluate(f"{LOG}.children.length")
    await page.click(".omitted button", "Show more of them")
    await page.until(f"{LOG}.firstChild.textContent === 'line 00000\\n' && {LOG}.children.length === 12000")
    assert before < 6000
    assert not await page.evaluate("document.querySelector('.omitted').checkVisibility()")


async def test_a_long_line_wraps_or_not(page: Page, shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    await show_log(page, shelf, monkeypatch, "word " * 2000)
    assert await page.evaluate(f"{LOG}.scrollWidth <= {LOG}.clientWidth")
    await page.click(".logs .chip", "Wrap")
    assert await page.evaluate(f"{LOG}.scrollWidth > {LOG}.clientWidth")


async def test_a_log_is_a_file(page: Page, shelf: Shelf, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    await show_log(page, shelf, monkeypatch, SCRAPY)
    await page.ask("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    await page.click(".logs .chip", "Download")
    async with asyncio.timeout(30):
        while not (tmp_path / "task-0.log").exists():
            await asyncio.sleep(0.05)
    assert (tmp_path / "task-0.log").read_text() == SCRAPY
