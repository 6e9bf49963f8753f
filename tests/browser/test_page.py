"""The live page in a real browser against a whole running stack, with room for two jobs at a time."""

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import pytest
import pytest_asyncio
from sqlalchemy import insert, select, update

from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.database.schema import histories
from crawler_lifecycle.model.deployment import Crawler
from crawler_lifecycle.model.notices import NoticeKind
from crawler_lifecycle.model.records import ALL_RUNS, RunFilter
from crawler_lifecycle.model.requests import RunRequest
from crawler_lifecycle.model.states import ExportState, RunStatus
from crawler_lifecycle.runs.ports import NewRun
from tests.browser.chromium import Page
from tests.browser.pages import DIALOG, IS_LIVE, fill, finish, of_a_stack, show, unattended, until_said, until_started
from tests.kit.data.databases import ref_to
from tests.kit.outside.messages import a_notice
from tests.process.crawls import Site

pytestmark = [pytest.mark.process, pytest.mark.timeout(240)]
ROOM_FOR_TWO = {"CRAWLER_CLUSTER__CAPACITY": "2"}
FIRST_RUN = "document.querySelector('.runs tbody a').textContent"
STUBBORN = {"stubborn": "trap '' TERM\n"}


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def stack(has_chromium: None, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    async with of_a_stack(tmp_path_factory.mktemp("page"), STUBBORN, ROOM_FOR_TWO) as running:
        yield running


async def test_the_link_lets_in_and_leaves_no_token_in_the_address(page: Page) -> None:
    assert await page.evaluate("location.hash") == "#/"
    assert await page.evaluate("history.length") <= 4
    await page.evaluate("sessionStorage.clear()")
    await page.reload()
    await page.until_text("Sign in with a token")
    await page.type("wrong")
    await page.press("Enter")
    await page.until("document.querySelector('#token')?.value === ''")


async def test_a_run_is_started_with_the_keyboard_and_watched_to_its_end(page: Page, stack: Site) -> None:
    await page.press("n")
    await page.until(DIALOG)
    await page.type("gated")
    await fill(page, arguments="site=https://books.example", settings="DOWNLOAD_DELAY=2", tasks="2")
    await page.press("Tab")
    await fill(page, max_duration_seconds="600")
    await page.press("Enter")
    run_id = await until_started(page)
    stack.asked.append(run_id)
    await page.until("document.querySelectorAll('.tasks .pill[data-status=RUNNING]').length === 2")
    await page.until_text("2 of 2 tasks running", "site=https://books.example", "DOWNLOAD_DELAY=2", "10m 00s in all")
    await finish(stack, run_id, 2)
    await page.until_text("Completed. 2 succeeded.")
    await page.click("button.open", "0 (main)")
    await page.until_text("nothing was printed")
    request = stack.control.runs.show(run_id).run.request
    assert (request.trigger, request.tasks, request.max_duration_seconds) == ("manual", 2, 600)
    assert (request.arguments, request.settings) == ({"site": "https://books.example"}, {"DOWNLOAD_DELAY": "2"})


async def test_the_dialog_tells_what_it_waits_for_through_a_reload_and_an_outage(page: Page, stack: Site) -> None:
    before = await stack.start(tasks=2)
    await stack.until_running(before, 2)
    known = {run.run_id for run in stack.control.runs.select(ALL_RUNS, limit=100)}
    await page.click("#start")
    await page.until(DIALOG)
    await fill(page, crawler="gated")
    await page.press("Enter")
    await page.until_text("Waiting for capacity")
    await page.reload()
    await page.until(f"{DIALOG} && {IS_LIVE}")
    await page.until_text("Waiting for capacity")

    await page.evaluate(
        "window.told = []; new MutationObserver(() => told.push(document.querySelector('#banner').textContent))"
        ".observe(document.querySelector('#banner'), {childList: true, characterData: true, subtree: true})"
    )
    killed = stack.kill("api")
    await stack.until_replaced("api", killed)
    await page.until(f"told.some((text) => text.includes('may be old')) && {IS_LIVE}")

    stack.release(before, 0, 1)
    run_id = await until_started(page)
    assert {run.run_id for run in stack.control.runs.select(ALL_RUNS, limit=100)} - known == {run_id}, (
        "one run, however often asked"
    )
    await finish(stack, run_id, 1)
    await until_said(page, "Completed.")


async def test_the_dialog_closes_by_the_notice_and_by_nothing_else(page: Page, stack: Site) -> None:
    with unattended(stack) as (database, run):
        starting = {"key": str(uuid4()), "request": {"crawler": "gated"}, "run": run.run_id}
        await page.evaluate(f"sessionStorage.setItem('starting', {json.dumps(json.dumps(starting))})")
        await page.reload()
        await page.until(f"{DIALOG} && {IS_LIVE}")
        await page.until_text("Waiting for the main job to be deployed")
        SqlStore(database).runs.mark_started(ref_to(run))
        await page.until_text("Running. Waiting for the notice of its start")
        told = {"run_id": run.run_id, "run_uid": run.run_uid, "kind": NoticeKind.STARTED}
        SqlStore(database).runs.keep_notice(ref_to(run), a_notice(str(uuid4())).model_copy(update=told))
        assert await until_started(page) == run.run_id


async def test_the_dialog_says_why_a_run_never_starts(page: Page, stack: Site) -> None:
    before = await stack.start(tasks=2)
    await stack.until_running(before, 2)
    await page.press("n")
    await page.until(DIALOG)
    await fill(page, crawler="no such crawler")
    await page.press("Enter")
    await page.until_text("there is no crawler 'no such crawler'")
    await page.evaluate("document.querySelector('#start-crawler').value = ''")
    await fill(page, crawler="gated", start_limit_seconds="1")
    await page.press("Enter")
    await page.until_text("It never started: never started.")
    await page.press("Escape")
    await page.until("!document.querySelector('dialog')")
    stack.release(before, 0, 1)
    await stack.until_over(before)


async def test_a_stop_shows_each_phase_until_the_proof(page: Page, stack: Site) -> None:
    run = await stack.start()
    await stack.until_running(run, 1)
    await show(page, run)
    await page.click("button", "Stop")
    await page.until("document.querySelector('dialog[open]')")
    await page.type("wrong site")
    await page.press("Enter")
    await page.until_text(
        "Stop requested",
        "wrong site \u2014 token embedded, api",
        "Queue emptied",
        "Jobs asked to end",
        "Confirmed stopped",
    )
    await page.until("[...document.querySelectorAll('.phases li')].every((each) => each.dataset.state === 'done')")
    await until_said(page, "Stopped by token embedded (api): wrong site.")


async def test_several_runs_are_chosen_and_stopped_at_once(page: Page, stack: Site) -> None:
    runs = [await stack.start() for _ in range(2)]
    for run in runs:
        await stack.until_running(run, 1)
        await page.click(f".runs [data-key='{run.run_id}'] .pick input")
    await page.until_text("2 selected")
    await page.click(".bulk button", "Stop")
    await page.until("document.querySelector('dialog[open]').textContent.includes('Stop 2 runs')")
    await page.press("Enter")
    for run in runs:
        await page.until(f"document.querySelector(\".runs [data-key='{run.run_id}']\").dataset.look === 'STOPPED'")


async def test_a_stop_that_is_not_obeyed_is_forced_after_a_reload(page: Page, stack: Site) -> None:
    run = await stack.start("stubborn", grace_seconds=600)
    await stack.until_running(run, 1)
    await show(page, run)
    await page.click("button", "Stop")
    await page.until("document.querySelector('dialog[open]').textContent.includes('stubborn: 1 running')")
    await page.until("document.querySelector('dialog[open]').textContent.includes('Jobs get 10m 00s to finish, then')")
    await page.press("Enter")
    await page.until("document.querySelector('.phases [data-state=now]').textContent.includes('Confirmed stopped')")
    await page.until_text("waiting for 1 job; will be killed in 9 min")
    await page.reload()
    await page.until("document.querySelector('.phases [data-state=now]').textContent.includes('Confirmed stopped')")
    await page.click("button", "Kill now")
    await page.until("document.querySelector('dialog[open]')")
    await page.press("Enter")
    await page.until_text("Kill requested", "Jobs killed", "Stopped")
    await page.until("!document.querySelector('.phases [data-state=now]')")


async def test_ten_thousand_runs_and_tasks(page: Page, stack: Site) -> None:
    run_id = _make_many(stack.state / "crawler.db")
    await page.reload()
    await page.until(f"{IS_LIVE} && document.querySelectorAll('.runs tbody tr').length === 50")
    first = await page.evaluate("document.querySelector('.runs tbody a').textContent")
    await page.click("button", "Older")
    await page.until(f"document.querySelector('.runs tbody a').textContent === String({first} - 50)")
    await page.evaluate("location.hash = '#/?status=COMPLETED&crawler=mass'")
    await page.until_text("page 1")
    assert await page.evaluate("document.querySelectorAll('.runs tbody tr').length") == 50
    await page.evaluate(f"location.hash = '#/runs/{run_id}'")
    await page.until_text("0\u201399 of 10,000")
    await page.until("document.querySelector('[aria-label=\"Task status\"] .chip').textContent === 'all10,000'")
    await page.evaluate("document.querySelector('.jump').focus()")
    await page.type("9950")
    await page.press("Enter")
    await page.until_text("9,950\u20139,999 of 10,000")
    assert await page.evaluate("document.querySelectorAll('.tasks tbody tr').length") == 50
    await page.click("button", "Previous")
    await page.until_text("0\u201399 of 10,000")


async def test_no_run_is_left_out_between_two_pages(page: Page, stack: Site) -> None:
    """With Older, runs that newer ones had pushed off the first page meanwhile were on none."""
    _make_runs(stack.state / "crawler.db", 60)
    await page.reload()
    await page.until(f"{IS_LIVE} && document.querySelectorAll('.runs tbody tr').length === 50")
    newest = _make_runs(stack.state / "crawler.db", 7)
    await page.until(f"{FIRST_RUN} === '{newest}'")
    await page.click("button", "Older")
    await page.until(f"{FIRST_RUN} !== '{newest}'")
    assert await page.evaluate(FIRST_RUN) == str(newest - 50)


async def test_a_page_that_runs_leave_is_filled_up(page: Page, stack: Site) -> None:
    """Of runs in one state, those that went on to another left an empty page, with more of them on the next."""
    newest = _make_runs(stack.state / "crawler.db", 60)
    await page.evaluate("location.hash = '#/?status=INITIALIZING&crawler=mass'")
    await page.until(f"document.querySelectorAll('.runs tbody tr').length === 50 && {FIRST_RUN} === '{newest}'")
    database = Database(f"sqlite:///{stack.state / 'crawler.db'}")
    with database.transaction() as connection:
        ended = {"status": RunStatus.COMPLETED, "changed_at": datetime.now(UTC)}
        connection.execute(update(histories).where(histories.c.id > newest - 5).values(**ended))
    database.close()
    await page.until(f"{FIRST_RUN} === '{newest - 5}'")
    await page.until("document.querySelectorAll('.runs tbody tr').length === 50")


async def test_the_filter_that_was_chosen_is_the_one_that_is_marked(page: Page, stack: Site) -> None:
    """Of a run of which nothing changes it stayed the one before."""
    with unattended(stack) as (_, run):
        await page.evaluate(f"location.hash = '#/runs/{run.run_id}'")
        chip = "[...document.querySelectorAll('.chips button')].find((each) => each.textContent === 'queued1')"
        await page.until(chip)
        assert await page.evaluate(f"{chip}.click(), {chip}.getAttribute('aria-pressed')") == "true"


async def test_nothing_is_cut_off_on_a_phone(page: Page, stack: Site) -> None:
    await page.look_like(360, 740, mobile=True)
    run_id = stack.control.runs.select(RunFilter(crawler="gated"), limit=1)[0].run_id
    for place in ("#/", f"#/runs/{run_id}"):
        await page.evaluate(f"location.hash = {json.dumps(place)}")
        await page.until("document.querySelector('table.list tbody tr')")
        assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    await page.look_like(1280, 900)


def _make_runs(path: Path, number: int) -> int:
    """So many that nobody supervises; the last one's RunID."""
    database = Database(f"sqlite:///{path}")
    for _ in range(number):
        new = NewRun(RunRequest(crawler="mass"), Crawler(name="mass"), 1, f"crawl-{uuid4()}", str(uuid4()))
        run_id = SqlStore(database).runs.create(new).run_id
    database.close()
    return run_id


def _make_many(path: Path) -> int:
    """Ten thousand runs that ended a while ago, and before them one of ten thousand tasks."""
    database = Database(f"sqlite:///{path}")
    new = NewRun(RunRequest(crawler="mass"), Crawler(name="mass"), 10_000, f"crawl-{uuid4()}", str(uuid4()))
    run_id = SqlStore(database).runs.create(new).run_id
    with database.transaction() as connection:
        like = dict(connection.execute(select(histories).where(histories.c.id == run_id)).mappings().one())
        del like["id"]
        ended = datetime.now(UTC) - timedelta(hours=1)
        over = {"status": RunStatus.COMPLETED, "export_state": ExportState.DONE, "changed_at": ended, "end_number": 1}
        rows = [
            like | over | {"run_uid": str(uuid4()), "workflow_id": f"crawl-{number}", "finished_at": ended}
            for number in range(10_000)
        ]
        connection.execute(insert(histories), rows)
    database.close()
    return run_id
