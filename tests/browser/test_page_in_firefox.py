"""The page works in Firefox: list, run, log, start dialog, flow graph and the installation, without an error."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from crawler_lifecycle.clusters.ports import LogChunk
from crawler_lifecycle.http.tokens import Scope
from crawler_lifecycle.model.crawl_results import CrawlResult
from crawler_lifecycle.model.states import TaskStatus
from crawler_lifecycle.runs.commands.reading import RunReader
from tests.browser.firefox import Page, firefox, program
from tests.browser.flow_shapes import diamond
from tests.browser.pages import IS_LIVE
from tests.browser.shelf import MARKS, Shelf
from tests.kit.data.databases import missing
from tests.kit.data.flows import pushed
from tests.kit.waiting import eventually

pytestmark = MARKS
PRINTED = "2026-11-26 09:00:00 ERROR: banned\n"


@pytest.fixture(scope="module")
def has_firefox() -> None:
    if program() is None:
        missing("no Firefox on this machine (Debian's package is firefox-esr)")


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def page(has_firefox: None, shelf: Shelf, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Page]:
    async with firefox(tmp_path_factory.mktemp("firefox")) as page:
        await page.look_like(1280, 900)
        await page.open(f"{shelf.api.url}/#token={shelf.api.token(*Scope)}")
        await page.until(IS_LIVE)
        yield page
        assert page.errors == [], "no script failed, and the page's policy had nothing to forbid"


async def go(page: Page, place: str) -> None:
    await page.evaluate(f"void (location.hash = '{place}')")


async def test_a_run_is_opened_from_the_list_and_its_tasks_are_sorted(page: Page, shelf: Shelf) -> None:
    run = shelf.ended([CrawlResult(stats={"items": 5}), None], TaskStatus.FAILED, "exit_2")
    await go(page, "#/")
    await page.until_text("5 items", "failed in 24 hours")
    await page.click(".runs td.why")
    await page.until(f"location.hash === '#/runs/{run.run_id}'")
    await page.until_text("Timeline", "0 (main)")
    await page.click("th button", "Task")
    await page.until("document.querySelector('.tasks button.open').textContent === '1'")


async def test_a_list_changes_by_itself(page: Page, shelf: Shelf) -> None:
    await go(page, "#/?listed=PROCESSING")
    await page.until_text("No such runs.")
    run = shelf.begun(1)
    await page.until(f"document.querySelector('.runs tbody a')?.textContent === '{run.run_id}'")
    shelf.end(run, [None], TaskStatus.SUCCEEDED)
    await page.until_text("No such runs.")


async def test_a_log_has_lines_with_levels(page: Page, shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    def log(_: RunReader, run_uid: str, task: object, offset: int = 0) -> LogChunk:
        text = PRINTED if offset <= 0 else ""
        return LogChunk(text=text, offset=len(PRINTED), ended=True)

    monkeypatch.setattr(RunReader, "task_log", log)
    run = shelf.ended([None], TaskStatus.FAILED, "exit_2")
    await go(page, f"#/runs/{run.run_id}")
    await page.until_text(f"run {run.run_id}", "end of the log")  # the log that tells why it failed is open at once
    assert await page.evaluate("document.querySelector('.log div').dataset.rank") == "4"
    assert await page.evaluate("document.querySelector('.log div').textContent") == PRINTED


async def test_the_start_dialog_opens_and_closes_by_keys(page: Page) -> None:
    await go(page, "#/")
    await page.until_text("Start a run")
    await page.press("n")
    await page.until("document.querySelector('dialog.start[open]')")
    await page.type("books")
    await page.until("document.querySelector('#start-crawler').value === 'books'")
    await page.press("Escape")
    await page.until("!document.querySelector('dialog')")


async def test_a_flow_is_a_graph_whose_boxes_open(page: Page, shelf: Shelf) -> None:
    pushed(shelf.database, diamond("in firefox"))
    await go(page, "#/flows/in%20firefox")
    await page.until("document.querySelectorAll('.box').length === 4")
    assert await page.evaluate("document.querySelector('.graph path').getAttribute('d').split('M').length - 1") == 4
    await page.click(".box", "fetch")
    await page.until_text("Attempts", "none yet")


async def test_the_installation_and_the_flows_have_pages(page: Page) -> None:
    for place, text in (("#/installation", "Tasks in the cluster"), ("#/flows", "in firefox"), ("#/audits", "Audits")):
        await go(page, place)
        await page.until_text(text)


async def test_an_error_of_the_page_is_noticed(page: Page) -> None:
    """Otherwise the fixture could not tell a page without errors from a silent browser."""
    for expression in ("console.error('seen')", "document.head.append(document.createElement('style'))"):
        await page.evaluate(f"void {expression}")
        await eventually(lambda: bool(page.errors), patience=20)
        assert "seen" in page.errors[0] or "policy style-src" in page.errors[0], page.errors
        page.errors.clear()
