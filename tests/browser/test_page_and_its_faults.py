"""The page before a database that the test writes: hostile texts, mistakes, an API that hangs."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import pytest_asyncio

from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.clusters.ports import LogChunk
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.http.tokens import Scope
from crawler_lifecycle.model.deployment import Crawler
from crawler_lifecycle.model.records import RunRecord
from crawler_lifecycle.model.requests import RunRequest
from crawler_lifecycle.model.states import RunStatus
from crawler_lifecycle.runs.commands.reading import RunReader
from crawler_lifecycle.runs.ports import NewRun
from tests.browser.chromium import Page, chromium
from tests.browser.pages import IS_LIVE
from tests.kit.data.databases import copy_of, ref_to
from tests.kit.service.apis import Api, served

pytestmark = pytest.mark.timeout(240)
FIRST_ROW = "document.querySelector('.runs tbody tr')"
TURN = "\u202e"


@dataclass
class Desk:
    """An API, its token and its database."""

    api: Api
    token: str
    database: Database

    def run(self, crawler: str = "books", tasks: int = 1, **request: Any) -> RunRecord:
        new = NewRun(
            RunRequest(crawler=crawler, **request), Crawler(name=crawler), tasks, f"crawl-{uuid4()}", str(uuid4())
        )
        return SqlStore(self.database).runs.create(new)

    def end(self, run: RunRecord, reason: str = "stopped") -> None:
        SqlStore(self.database).tasks.cancel_queued(ref_to(run), reason)
        SqlStore(self.database).runs.close(ref_to(run), RunStatus.FAILED, reason)


@pytest.fixture(scope="module")
def desk(has_chromium: None, sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    folder = tmp_path_factory.mktemp("page")
    url = copy_of(sqlite_template, folder)
    database = Database(url)
    with served(folder, url, CRAWLER_API__REQUESTS_PER_SECOND="500") as api:
        yield Desk(api, api.token(*Scope), database)
    database.close()


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def browser(desk: Desk, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Page]:
    async with chromium(tmp_path_factory.mktemp("browser")) as page:
        await page.look_like(1280, 900)
        yield page
        assert page.errors == []


@pytest_asyncio.fixture(loop_scope="session")
async def page(browser: Page, desk: Desk) -> Page:
    await browser.open("about:blank")
    await browser.open(f"{desk.api.url}/#token={desk.token}")
    await browser.until(IS_LIVE)
    return browser


async def go(page: Page, place: str) -> None:
    await page.evaluate(f"location.hash = {json.dumps(place)}")


async def test_an_api_that_hangs_is_told_within_five_seconds(
    page: Page, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The badge said live for 30 s, above an empty page."""
    run = desk.run()
    await page.until(f"{FIRST_ROW}.querySelector('a').textContent === '{run.run_id}'")
    hangs, goes_on = threading.Event(), threading.Event()

    async def hang(_: Any) -> Any:
        hangs.set()
        goes_on.wait(60)  # the whole process, as SIGSTOP would
        return []

    monkeypatch.setattr(desk.api.app.state.api.change_readers, "run", hang)
    try:
        assert await asyncio.to_thread(hangs.wait, 20)
        await go(page, f"#/runs/{run.run_id}")
        await page.until("document.querySelector('.skeleton').checkVisibility()", 2)
        await page.until("document.querySelector('#live').dataset.state === 'away'", 5)
        banner = await page.evaluate("document.querySelector('#banner').textContent")
        assert "No answer since" in banner
        assert "the API is silent. What is shown may be old." in banner
        assert await page.evaluate("document.querySelector('#live').textContent") == "not live"
    finally:
        monkeypatch.undo()
        goes_on.set()
    await page.until(f"{IS_LIVE} && !document.querySelector('.skeleton').checkVisibility()")
    await page.until_text("Timeline")


async def test_an_error_in_the_list_stays(page: Page, desk: Desk) -> None:
    """As soon as a run changed it became "No such runs."."""
    await go(page, "#/?trigger=NOPE")
    await page.until_text("trigger: expected ")
    await page.evaluate("window.seen = 0; import('/live.js').then(({listen}) =>"
                        " listen(({kind}) => { seen += kind === 'run' }, new AbortController().signal))")  # fmt: skip
    desk.run()
    await page.until("seen > 0")
    assert "trigger: expected " in await page.text()
    await go(page, "#/")
    await page.until(FIRST_ROW)
    assert "trigger: expected" not in await page.text()


async def test_the_start_dialog_promises_no_absence_of_limits(page: Page) -> None:
    await page.click("button", "Start a run")
    await page.until("document.querySelector('dialog.start[open]')")
    hints = await page.evaluate("[...document.querySelectorAll('dialog input')].map((each) => each.placeholder)")
    assert not [hint for hint in hints if "no limit" in hint]
    await page.press("Escape")


async def test_a_wrong_token_is_called_wrong(page: Page, desk: Desk) -> None:
    token = desk.api.tokens.make(f"guest-{uuid4()}", [])
    await page.evaluate(f"sessionStorage.setItem('token', '{token}x')")
    await page.reload()
    await page.until_text("Sign in with a token", "The token is not valid")
    assert "Trying again" not in await page.text()
    await page.evaluate("new Promise((resume) => setTimeout(resume, 1500))")
    assert "Trying again" not in await page.text()
    await page.evaluate("document.querySelector('#token').focus()")
    await page.type(desk.token)
    await page.press("Enter")
    await page.until(IS_LIVE)


async def test_hostile_texts_are_seen_as_they_are(page: Page, desk: Desk) -> None:
    run = desk.run(
        arguments={"rtl": f"user{TURN}txt.exe", "bell": "a\x07b"}, requested_by=f"eve{TURN}</b>"
    )  # fmt: skip
    await go(page, f"#/runs/{run.run_id}")
    await page.until_text("rtl=user[U+202E]txt.exe", "bell=a\u2407b", "eve[U+202E]</b>")
    assert TURN not in await page.text()


async def test_a_log_is_shown_without_the_codes_of_a_terminal(
    page: Page, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = ["\x1b[31mred\x1b[0m one\r\ntwo \x1b[1", f";32mgreen\x1b[0m\x00 {TURN}turned\n"]
    printed = iter(parts)

    def log(_: RunReader, run_uid: str, task: object, offset: int = 0) -> LogChunk:
        text = next(printed, "")
        return LogChunk(text=text, offset=max(offset, 0) + len(text.encode()), ended=not text)

    monkeypatch.setattr(RunReader, "task_log", log)
    run = desk.run()
    await go(page, f"#/runs/{run.run_id}")
    await page.click("button.open", "0 (main)")
    await page.until_text("end of the log")
    shown = await page.evaluate("document.querySelector('pre.log').textContent")
    assert shown == "red one\ntwo green\u2400 [U+202E]turned\n"
    assert not await page.evaluate("document.querySelector('.logs .omitted').checkVisibility()")


async def test_a_long_log_begins_at_a_line(page: Page, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "he middle of a line\nwhole line\n"

    def log(_: RunReader, run_uid: str, task: object, offset: int = 0) -> LogChunk:
        return LogChunk(text=text if offset < 0 else "", offset=900_000, ended=offset >= 0)

    monkeypatch.setattr(RunReader, "task_log", log)
    run = desk.run()
    await go(page, f"#/runs/{run.run_id}")
    await page.click("button.open", "0 (main)")
    await page.until_text("whole line", "Earlier lines are not shown.")
    assert await page.evaluate("document.querySelector('pre.log').textContent") == "whole line\n"


@pytest.mark.parametrize("phone", [False, True])
async def test_numbers_do_not_touch_the_bar(page: Page, desk: Desk, phone: bool) -> None:
    run = desk.run(tasks=10_000)
    await page.look_like(*((390, 780) if phone else (1280, 900)), mobile=phone)
    await page.until(f"{FIRST_ROW}.querySelector('a').textContent === '{run.run_id}'")
    assert "0/10,000" in await page.evaluate(f"{FIRST_ROW}.innerText")
    gap = await page.evaluate(
        "(() => { const range = document.createRange(); const row = document.querySelector('.runs tbody tr');"
        " range.selectNodeContents(row.querySelector('.tasks .num'));"
        " return row.querySelector('.meter').getBoundingClientRect().top - range.getBoundingClientRect().bottom })()"
    )
    bars = "new Set([...document.querySelectorAll('.runs .meter')].map((bar) => bar.getBoundingClientRect().left)).size"
    assert gap >= 1
    assert await page.evaluate(bars) == 1, "in one line"
    assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    await page.look_like(1280, 900)


async def test_there_is_one_clock_and_it_has_a_name(page: Page, desk: Desk) -> None:
    """In Tokyo the timeline was in local time, and details and evidence were not."""
    await page.ask("Emulation.setTimezoneOverride", timezoneId="Asia/Tokyo")
    try:
        run = desk.run()
        created = run.created_at.strftime("%H:%M:%S")
        await page.reload()
        await go(page, f"#/runs/{run.run_id}")
        await page.until(f"document.querySelector('.timeline time').textContent === '{created}'")
        assert f"{created} UTC" in await page.evaluate("document.querySelector('.facts').innerText")
        assert "GMT+0900" in await page.evaluate("document.querySelector('.timeline time').title")
        assert "times in UTC" in await page.text()
    finally:
        await page.ask("Emulation.setTimezoneOverride", timezoneId="")


async def test_a_row_is_a_link_and_the_way_back_keeps_the_filters(page: Page, desk: Desk) -> None:
    run = desk.run("The-Mixer")
    await go(page, "#/?status=INITIALIZING")
    await page.until(f"{FIRST_ROW}.querySelector('a').textContent === '{run.run_id}'")
    await page.evaluate("document.querySelector('input[type=search]').focus()")
    await page.type("mix")
    await page.press("Enter")
    await page.until("location.hash.includes('search=mix') && document.querySelectorAll('.runs tbody tr').length === 1")
    await page.click(".runs td.why")
    await page.until(f"location.hash === '#/runs/{run.run_id}'")
    await page.click(".back a")
    await page.until("location.hash.includes('status=INITIALIZING') && location.hash.includes('search=mix')")
    await page.until("document.querySelectorAll('.runs tbody tr').length === 1")


async def test_an_address_that_is_none_says_so(page: Page) -> None:
    await go(page, "#/nowhere")
    await page.until_text("There is no page /nowhere.")


async def test_a_reload_shows_the_same_tasks(page: Page, desk: Desk) -> None:
    run = desk.run(tasks=250)
    await go(page, f"#/runs/{run.run_id}")
    await page.click("button.chip", "queued250")
    await page.click(".pager button", "Next")
    await page.until_text("100\u2013199 of 250")
    await page.click("button.open", "120")
    await page.until("document.querySelector('.below')")
    await page.reload()
    await page.until_text("100\u2013199 of 250")
    await page.until("document.querySelector('.below') && document.querySelector('.chip[aria-pressed=true]')")
    assert await page.evaluate("document.querySelector('.chip[aria-pressed=true]').textContent") == "queued250"


async def test_the_next_page_of_tasks_begins_in_sight(page: Page, desk: Desk) -> None:
    run = desk.run(tasks=250)
    async with page.on_a_phone():
        await go(page, f"#/runs/{run.run_id}")
        await page.click(".pager button", "Next")
        await page.until_text("100\u2013199 of 250")
        await page.until("document.querySelector('.tasks tbody tr').getBoundingClientRect().top < innerHeight")
        assert await page.evaluate("document.querySelector('.tasks tbody tr').getBoundingClientRect().top > 0")


async def test_back_closes_a_dialog(page: Page, desk: Desk) -> None:
    run = desk.run()
    await go(page, f"#/runs/{run.run_id}")
    await page.until_text("Timeline")
    await page.press("n")
    await page.until("document.querySelector('dialog.start[open]')")
    await page.evaluate("history.back()")
    await page.until("!document.querySelector('dialog') && location.hash === '#/'")


async def test_a_stop_that_comes_too_late_is_not_offered_again(page: Page, desk: Desk) -> None:
    run = desk.run()
    await go(page, f"#/runs/{run.run_id}")
    await page.click("button", "Kill now")
    await page.until_text("Jobs are killed at once")
    assert "without asking" not in await page.text()
    desk.end(run)
    await page.until_text("The run is over: stopped.")
    assert not await page.evaluate("document.querySelector('dialog [type=submit]').checkVisibility()")
    await page.click("dialog button", "Close")


async def test_a_run_that_was_stopped_is_no_failure_to_look_for(page: Page, desk: Desk) -> None:
    stopped, failed = desk.run(), desk.run()
    desk.end(stopped)
    desk.end(failed, "main_job_failed")
    status = "(id) => document.querySelector(`.runs tr[data-key='${id}'] .pill`).dataset.status"
    await page.until(f"({status})('{failed.run_id}') === 'FAILED'")
    assert await page.evaluate(f"({status})('{stopped.run_id}')") == "STOPPED"
