"""The page's view of limits, and a run in line, before a database that the test writes."""

import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import pytest_asyncio
from sqlalchemy import update

from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.database.schema import histories
from crawler_lifecycle.http.tokens import Scope
from crawler_lifecycle.model.deployment import Crawler
from crawler_lifecycle.model.limits import LimitRecord
from crawler_lifecycle.model.records import RunRecord
from crawler_lifecycle.model.requests import RunRequest
from crawler_lifecycle.model.states import RunStatus, TaskStatus
from crawler_lifecycle.model.task_changes import TaskChange
from crawler_lifecycle.runs.ports import NewRun, SupervisorExecution
from tests.browser.chromium import Page, chromium
from tests.browser.pages import IS_LIVE
from tests.kit.data.databases import copy_of, ref_to
from tests.kit.service.apis import Api, served

pytestmark = pytest.mark.timeout(240)
SITE = "label:site:example.com"
LINES_OF_NUMBERS = """Math.max(...[...document.querySelectorAll('.limits :is([data-label=Runs], [data-label=Tasks])')]
    .map((cell) => {
        const range = document.createRange();
        range.selectNodeContents(cell.firstChild);
        return range.getClientRects().length;
    }))"""
BUTTONS = "[...document.querySelectorAll('main button')].filter((it) => it.offsetParent).map((it) => it.textContent)"


@dataclass
class Desk:
    """An API, its tokens and its database, with room for one run of a site."""

    api: Api
    database: Database

    @property
    def store(self) -> SqlStore:
        return SqlStore(self.database)

    def begin(self, **request: Any) -> RunRecord:
        """Return a run of the site after its request for a permit."""
        run_request = RunRequest(crawler="books", labels=["site:example.com"], **request)
        entry = Crawler(name="books", labels=["site:example.com"])
        new = NewRun(run_request, entry, 1, f"crawl-{uuid4()}", str(uuid4()))
        run = self.store.runs.create(new)
        self.store.claims.claim_main(ref_to(run), "test", timedelta(seconds=60))
        return run

    def reopened(self) -> RunRecord:
        """Return a run that was reopened after its main job had succeeded."""
        entry, store = Crawler(name="toys", command=["true"]), self.store
        new = NewRun(RunRequest(crawler="toys"), entry, 2, f"crawl-{uuid4()}", str(uuid4()))
        run = store.runs.create(new)
        store.claims.claim_main(ref_to(run), "test", timedelta(seconds=60))
        store.runs.mark_started(ref_to(run))
        for task, status in enumerate((TaskStatus.SUCCEEDED, TaskStatus.FAILED)):
            (row,) = store.tasks.rows(run.run_id, [task])
            change = TaskChange(task=task, attempt=1, version=row.version, status=status, job_uid=f"job-{task}")
            store.tasks.sync(ref_to(run), [change])
        store.runs.close(ref_to(run), RunStatus.FAILED, "a test")
        return store.runs.reopen(run.run_id, SupervisorExecution(run.workflow_id, "next", datetime.now(UTC)))

    def limits(self) -> dict[str, LimitRecord]:
        return {record.scope: record for record in self.store.limits.all()}


@pytest.fixture(scope="module")
def desk(has_chromium: None, sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    folder = tmp_path_factory.mktemp("page")
    url = copy_of(sqlite_template, folder)
    database = Database(url)
    with served(folder, url, CRAWLER_API__REQUESTS_PER_SECOND="500") as api:
        desk = Desk(api, database)
        desk.store.limits.change(SITE, {"runs": 1}, "ann")
        yield desk
    database.close()


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def browser(desk: Desk, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Page]:
    async with chromium(tmp_path_factory.mktemp("browser")) as page:
        await page.look_like(1280, 900)
        yield page
        assert page.errors == []


async def open_with(browser: Page, desk: Desk, *scopes: Scope) -> Page:
    token = desk.api.token(*scopes)
    await browser.open("about:blank")
    await browser.open(f"{desk.api.url}/#token={token}")
    await browser.until(IS_LIVE)
    return browser


@pytest_asyncio.fixture(loop_scope="session")
async def page(browser: Page, desk: Desk) -> Page:
    return await open_with(browser, desk, *Scope)


async def show_limits(page: Page) -> None:
    await page.click("#places a", "Installation")
    await page.until_text("Limits", "installation")


async def fill(page: Page, **fields: str) -> None:
    for name, value in fields.items():
        await page.evaluate(f"document.querySelector('#limit-{name}').value = ''")
        await page.evaluate(f"document.querySelector('#limit-{name}').focus()")
        await page.type(value)


async def press_in_row(page: Page, scope: str, button: str) -> None:
    row = f"document.querySelector('.limits [data-key={json.dumps(scope)}]')"
    wanted = f"(it) => it.textContent === '{button}' && it.offsetParent"
    first = f"[...{row}.querySelectorAll('button')].find({wanted})"
    await page.until(first)
    await page.evaluate(f"{first}.click()")


async def test_limits_are_set_and_taken_away(page: Page, desk: Desk) -> None:
    await show_limits(page)
    await page.click("main button", "Set a limit")
    await page.until("document.querySelector('dialog[open]')")
    await fill(page, scope="label:tenant:acme", weight="3", runs="0")
    await page.press("Enter")
    beside = "document.querySelector('#limit-%s').closest('.field').innerText"
    await page.until(f"{beside % 'runs'}.includes('expected at least 1, not 0')")
    await fill(page, runs="1234")
    await page.press("Enter")
    await page.until(f"{beside % 'scope'}.includes(\"no run or limit has the label 'tenant:acme'\")")
    assert "allow_unknown" not in await page.text()
    await page.evaluate("document.querySelector('[name=allow_unknown]').click()")
    await page.evaluate("document.querySelector('#limit-runs').focus()")
    await page.press("Enter")
    await page.until("!document.querySelector('dialog')")
    await page.until_text("label tenant:acme", "0 of 1,234")
    acme = desk.limits()["label:tenant:acme"]
    assert (acme.runs, acme.tasks, acme.weight) == (1234, None, 3)
    await press_in_row(page, "label:tenant:acme", "Change")
    await page.until("document.querySelector('#limit-runs').value === '1234'")
    await page.evaluate("document.querySelector('#limit-runs').value = ''")
    await page.press("Enter")
    await page.until("!document.querySelector('dialog')")
    acme = desk.limits()["label:tenant:acme"]
    assert (acme.runs, acme.weight) == (None, 3)


async def test_a_scope_is_paused_and_resumed(page: Page, desk: Desk, tmp_path: Path) -> None:
    await show_limits(page)
    await press_in_row(page, SITE, "Pause")
    await page.until_text("Pause label site:example.com?")
    await page.type("the site is being rebuilt")
    await page.press("Enter")
    await page.until("!document.querySelector('dialog')")
    await page.until("document.querySelector('.limits').textContent.includes('the site is being rebuilt')")
    await page.look_like(800, 900)
    assert await page.evaluate(LINES_OF_NUMBERS) == 1
    await page.look_like(1280, 900)
    paused = desk.limits()[SITE]
    assert (paused.paused_reason, bool(paused.paused_by)) == ("the site is being rebuilt", True)
    assert desk.limits()["installation"].paused_at is None
    await page.screenshot(tmp_path / "limits.png")
    await press_in_row(page, SITE, "Resume")
    await page.until_text("Resumed: label site:example.com.")
    assert desk.limits()[SITE].paused_at is None


async def test_the_installation_is_paused_only_by_its_name(page: Page, desk: Desk) -> None:
    """A scope that is left empty or cut short must not mean everything."""
    await show_limits(page)
    await page.evaluate(
        "[...document.querySelectorAll('.tools button')].find((it) => it.textContent === 'Pause').click()"
    )
    await page.until_text("Pause a scope")
    for scope in ("", "label", "label:"):
        await fill(page, scope=scope, reason="moved")
        await page.press("Enter")
        await page.until("document.querySelector('dialog[open] :invalid')")
    assert desk.limits()["installation"].paused_at is None
    await fill(page, scope="installation")
    await page.click("dialog button", "Pause")
    await page.until("!document.querySelector('dialog')")
    assert desk.limits()["installation"].paused_reason == "moved"
    await press_in_row(page, "installation", "Resume")
    await page.until_text("Resumed: the installation.")


async def test_a_run_in_line_shows_its_scope_and_place(page: Page, desk: Desk, tmp_path: Path) -> None:
    _, second, third = desk.begin(), desk.begin(), desk.begin(priority=5)
    await page.evaluate(f"location.hash = '#/runs/{second.run_id}'")
    await page.until_text("Queued: label site:example.com is at its limit of 1 run, place 2 of 2, since")
    await page.until("document.querySelector('.facts').textContent.includes('site:example.com')")
    await page.screenshot(tmp_path / "run.png")
    await page.evaluate(f"location.hash = '#/runs/{third.run_id}'")
    await page.until_text("place 1 of 2", "Priority")
    await page.evaluate("location.hash = '#/'")
    await page.until_text("queued: label site:example.com is at its limit")
    await show_limits(page)
    await page.until("document.querySelector('.limits').textContent.includes('1 of 1')")


async def test_a_reopened_run_in_line_shows_its_scope_and_place(page: Page, desk: Desk) -> None:
    """Its main job succeeded before, so it is PROCESSING. The page showed its tasks, and neither scope nor place."""
    run = desk.reopened()
    desk.store.limits.pause("crawler:toys", "wrong prices", "ann")
    assert desk.store.claims.claim_tasks("dispatcher", timedelta(seconds=60), 1) == []
    await page.evaluate(f"location.hash = '#/runs/{run.run_id}'")
    await page.until_text(
        "Queued: crawler toys is paused: wrong prices, place 1 of 1, since",
    )
    assert "Child tasks are held" not in await page.evaluate("document.querySelector('main').innerText")


async def test_dialogs_say_what_a_change_does_now(page: Page, desk: Desk) -> None:
    """The dialogs said neither the present use of a scope, nor what a lower limit or a pause does to it."""
    use = next(record for record in desk.store.limits.all("crawler:books") if record.scope == "crawler:books")
    begun, queued = f"{use.runs_begun} run now", f"{desk.limits()[SITE].runs_held} runs queued for it."
    await show_limits(page)
    await press_in_row(page, SITE, "Change")
    await page.until_text(
        f"{begun}. Nothing is stopped: 1 must end before the next starts.", "1 task now, no limit.", queued
    )
    await fill(page, runs="3")
    await page.until_text(f"{begun}, room for 2 more.")
    await page.press("Escape")
    await press_in_row(page, SITE, "Pause")
    await page.until_text(f"{begun}, with 1 task in the cluster. They continue; nothing more is deployed.", queued)
    await page.press("Escape")
    await page.click("main button", "Set a limit")
    weight = "document.querySelector('#limit-weight')?.checkVisibility()"
    await fill(page, scope=SITE, runs="3")
    await page.until_text(f"{begun}, room for 2 more.")
    await page.until(f"{weight} === true")
    await fill(page, scope="crawler:books", runs="")
    await page.until_text(f"{begun}, no limit.")
    await page.until(f"{weight} === false")
    await page.press("Escape")
    await page.until("!document.querySelector('dialog')")


async def test_who_may_read_sees_no_form(browser: Page, desk: Desk) -> None:
    page = await open_with(browser, desk, Scope.READ)
    await page.until("sessionStorage.getItem('scopes') === 'read'")
    await show_limits(page)
    await page.until("document.querySelector('.limits tbody tr')")
    assert await page.evaluate(BUTTONS) == []


async def test_nothing_is_cut_off_on_a_phone(page: Page, tmp_path: Path) -> None:
    await page.look_like(360, 740, mobile=True)
    await show_limits(page)
    await page.until("document.querySelector('.limits tbody tr')")
    await page.screenshot(tmp_path / "phone.png")
    assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    await page.look_like(1280, 900)


async def test_the_installation_tells_how_full_it_is_and_what_waits_for_room(page: Page, desk: Desk) -> None:
    run = desk.begin()
    since = datetime.now(UTC) - timedelta(minutes=20)
    with desk.database.transaction() as connection:
        row = update(histories).where(histories.c.id == run.run_id)
        connection.execute(row.values(waiting_cause="quota", waiting_since=since, waiting_message="pods", held_by=None))
    await page.evaluate("location.hash = '#/'")
    await show_limits(page)
    tiles = "Object.fromEntries([...document.querySelectorAll('.tiles div')].map((tile) => [...tile.children]" \
        ".map((part) => part.textContent)))"  # fmt: skip
    await page.until(f"Number(({tiles})['Stuck for over 5 min']) === 1")
    shown, present = await page.evaluate(tiles), desk.limits()["installation"]
    assert shown["Tasks in the cluster"] == f"{present.tasks_in_cluster} of {present.tasks:,}"
    assert shown["Running"] == str(present.runs_begun)
    assert shown["Queued"] == str(sum(limit.runs_held for limit in desk.limits().values()))
    await page.until_text(f"run {run.run_id} books: waiting for quota in the cluster: pods, since 20 min ago")
    await page.click(".events a", f"run {run.run_id}")
    await page.until(f"location.hash === '#/runs/{run.run_id}'")
    await page.until_text("Timeline")
    assert await page.evaluate("[...document.querySelectorAll('.back a')].at(-1).hidden"), (
        "no setting for Temporal's UI"
    )


async def test_the_installation_shows_the_health_of_its_parts(page: Page) -> None:
    await show_limits(page)
    pills = "[...document.querySelectorAll('.health .pill')].filter((pill) => pill.dataset.status === '%s')"
    await page.until(f"{pills % 'COMPLETED'}.some((pill) => pill.textContent === 'database')")
    await page.until(f"{pills % 'FAILED'}.some((pill) => pill.textContent === 'temporal')")
    await page.until_text("temporal: Temporal does not answer")
    assert "worker:" not in await page.evaluate("document.querySelector('.health').innerText"), "follows from Temporal"
