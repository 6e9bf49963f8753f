"""The list of runs tells what is wrong: stopped runs apart from failures, counts, filters in the address, views."""

import asyncio
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import unquote

import pytest
from sqlalchemy import update

from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.database.schema import histories
from crawler_lifecycle.flows import Workflow, crawl
from crawler_lifecycle.model.crawl_results import CrawlResult
from crawler_lifecycle.model.manager_items import Verdict
from crawler_lifecycle.model.records import RunRecord
from crawler_lifecycle.model.requests import KeptRequest
from crawler_lifecycle.model.retries import Retries
from crawler_lifecycle.model.states import RunStatus, TaskStatus
from crawler_lifecycle.runs.http.messages import StartRequest
from crawler_lifecycle.schedules.http import ScheduleBody
from tests.browser.chromium import Page
from tests.browser.pages import IS_LIVE
from tests.browser.shelf import MARKS, Shelf
from tests.kit.data.crawl_results import end_tasks
from tests.kit.data.databases import ref_to
from tests.kit.data.flows import pushed
from tests.kit.data.managers import managed, over

pytestmark = MARKS
PAGE_FOLDER = Path(__file__).parents[2] / "crawler_lifecycle" / "web" / "page"
LARGEST_PAGE = 184_200  # bytes, before compression
FIELD = "document.querySelector('.filters input[name=%s]').%s"
WRITE = """((field) => { field.value = '%(value)s'; field.dispatchEvent(new Event('change')); })(
    document.querySelector('.filters input[name=%(name)s]'))"""
NUMBERS = "[...document.querySelectorAll('.runs tbody .id a')].map((link) => link.textContent).join()"
CHIP = "[...document.querySelectorAll('.filters .chip')].find((chip) => chip.textContent.startsWith('%s'))"

# the answers of a scheduler service, which an API on a shelf has not
CATALOGUE = """void (window.fetch = ((real) => async (path, ...rest) => {
  if (path === '/v1/crawlers/gone') return Response.json({detail: 'there is no crawler gone'}, {status: 404});
  if (path !== '/v1/crawler-runs') return real(path, ...rest);
  const {runs} = await (await real('/v1/runs?flows=true&limit=50', ...rest)).json();
  return Response.json({crawlers: ['never', 'toys'].map((crawler) => {
    const own = runs.filter((run) => run.crawler === crawler);
    return {crawler, latest: own[0] ?? null, ends: own.filter((run) => run.finished_at)};
  })});
})(window.fetch))"""
# What is started is kept, and not sent.
KEEPS_STARTS = """void (window.fetch = ((real) => (path, options) => {
  if (path !== '/v1/runs' || options.method !== 'POST') return real(path, options);
  window.sent = JSON.parse(options.body);
  return new Promise(() => {});
})(window.fetch))"""
# An answer takes longer than the page waits until it asks again.
SLOW_LISTS = """void (window.fetch = ((real) => async (path, ...rest) => {
  if (path.startsWith('/v1/runs?')) await new Promise((resume) => setTimeout(resume, 1200));
  return real(path, ...rest);
})(window.fetch))"""
AUDITS = """void (window.fetch = ((real, now) => (path, ...rest) => {
  if (path !== '/v1/audits') return real(path, ...rest);
  const at = (seconds) => new Date(now + 1000 * seconds).toISOString();
  const part = (examined, problem) => ({examined, problem});
  const finding = {kind: 'unsupervised', subject: 'u', run_id: 7, first_seen_at: at(-180_000), acted_at: at(0), acts: 3,
    message: 'it has had no workflow since 2020-01-21T06:20:00Z', action: 'started again', problem: 'refused'};
  const removed = {...finding, kind: 'leftover_job', run_id: 8, closed_at: at(0), problem: null,
    message: `a job is left, by read ${window.reads = (window.reads ?? 0) + 1}`,
    evidence: `task 3: OOMKilled\\n${'page <b>9</b> of 10 '.repeat(20)}\\nlast \\u001b[31mline`};
  return Promise.resolve(Response.json({
    audits: [{finished_at: null, parts: {}},
      {finished_at: at(-9), parts: {runs: part(12), jobs: part(30, 'the cluster does not answer')}}],
    last_complete_at: at(0), next_due: at(7300), open: {unsupervised: 1}, findings: [finding, removed]}));
})(window.fetch, Date.now()))"""
SCHEDULES = """void (window.fetch = ((real) => (path, ...rest) => path === '/v1/schedules'
    ? Promise.resolve(Response.json({schedules: [
        {schedule_id: 'nightly', crawler: 'books', cron: ['0 3 * * *'], time_zone: 'UTC',
         next_at: [new Date(Date.now() + 7_300_000).toISOString()]},
        {schedule_id: 'held', crawler: 'books', cron: [], paused: true, next_at: []},
        {schedule_id: 'past', crawler: 'books', cron: [], next_at: []},
        {schedule_id: 'other', crawler: 'toys', cron: [],
         next_at: [new Date(Date.now() + 7_300_000).toISOString()]}]})) : real(path, ...rest))(window.fetch))"""
# What is made, changed and deleted is kept, and not sent.
KEEPS_SCHEDULES = """void (window.sent = [], window.fetch = ((real) => async (path, options) => {
  const run = {crawler: 'books', trigger: 'scheduled', run_id: null, arguments: {depth: '3'}, priority: 5};
  const at = (hour) => `2026-11-30T0${hour}:00:00Z`;
  const start = (status, hour) => ({at: at(hour), run_id: hour, run_status: status, outcome: 'started'});
  if (!path.startsWith('/v1/schedules/')) return real(path, options);
  const {method, headers, body} = options;
  if (method !== 'GET') window.sent.push([method, path, headers['If-None-Match'] ?? '', JSON.parse(body ?? 'null')]);
  return Response.json({schedule_id: 'nightly', run, flow: null, cron: ['0 3 * * *'], every_seconds: null,
    offset_seconds: 0, time_zone: 'UTC', jitter_seconds: 60, missed_window_seconds: 3600, overlap: 'queue',
    occurrences: [start('FAILED', 3), start('COMPLETED', 2), {at: at(1), outcome: 'skipped', reason: 'overlap'}],
    other_starts: []});
})(window.fetch))"""


@pytest.fixture
def page(shelf_page: Page) -> Page:
    return shelf_page


def test_the_page_is_small() -> None:
    assert sum(path.stat().st_size for path in PAGE_FOLDER.iterdir()) < LARGEST_PAGE


async def test_a_list_tells_failures_from_stops_and_counts_both(page: Page, shelf: Shelf) -> None:
    good = shelf.ended([CrawlResult(stats={"items": 5, "pages": 200, "errors": 3})], TaskStatus.SUCCEEDED)
    bad = shelf.ended([None], TaskStatus.FAILED, "exit_2")
    stopped = shelf.stopped()
    await page.evaluate("location.hash = '#/'")
    await page.until(f"{NUMBERS}.startsWith('{stopped.run_id},{bad.run_id},{good.run_id}')")
    looks = "[...document.querySelectorAll('.runs tbody tr')].slice(0, 3).map((row) => row.dataset.look).join()"
    await page.until(f"{looks} === 'STOPPED,FAILED,COMPLETED'")  # the first reading may have come before the ends
    await page.until_text("5 items, 200 pages, 3 errors", "0.015 errors per page", "failed in 24 hours")
    await page.until(f"{CHIP % 'stopped'}.textContent === 'stopped1'")
    await page.click(".filters .chip", "stopped")
    await page.until(f"{NUMBERS} === '{stopped.run_id}' && location.hash === '#/?listed=STOPPED'")
    await page.click(".filters .chip", "failed")
    await page.until(f"{NUMBERS}.startsWith('{stopped.run_id},{bad.run_id}')")
    assert await page.evaluate("location.hash") == "#/?listed=STOPPED&listed=FAILED"
    await page.reload()
    await page.until(f"{NUMBERS}.startsWith('{stopped.run_id},{bad.run_id}')")
    assert await page.evaluate(f"{CHIP % 'failed'}.getAttribute('aria-pressed')") == "true"


async def test_the_counts_are_asked_for_once_and_after_the_list(page: Page, shelf: Shelf) -> None:
    """The API counts many runs for them, and its work beside the page's start made the page answer nobody."""
    shelf.ended([None], TaskStatus.SUCCEEDED)
    await page.reload()
    requests = "performance.getEntriesByType('resource').filter((it) => it.name.includes('%s'))"
    await page.until(f"{requests % '/v1/attention'}[0]?.responseEnd > 0 && {requests % '/v1/run-counts'}.length > 0")
    counts = f"{requests % '/v1/run-counts'}.map((it) => it.startTime)"
    assert await page.evaluate(f"{counts}.length") == 1, "for the filters"
    assert await page.evaluate(f"Math.min(...{counts}) > {requests % '/v1/runs?'}[0].responseEnd")


async def test_a_list_of_the_latest_days_is_shown_while_much_happens(page: Page, shelf: Shelf) -> None:
    """Each event asked for the list anew, with the present moment, and made the answers under way late."""
    await page.evaluate(SLOW_LISTS)

    begun: list[RunRecord] = []

    async def begin_runs() -> None:
        while True:
            begun.append(shelf.begun(1))
            await asyncio.sleep(0.2)

    beginning = asyncio.create_task(begin_runs())
    try:
        await page.evaluate("location.hash = '#/?within=7d'")
        await page.until("document.querySelector('.runs tbody tr')", patience=20)
    finally:
        beginning.cancel()
        for run in begun:
            shelf.end(run, [None], TaskStatus.SUCCEEDED)
    await page.reload()
    await page.until(IS_LIVE)


async def test_runs_are_chosen_by_exact_times(page: Page, shelf: Shelf) -> None:
    """The fields have the page's clock, which is UTC whatever the browser's zone is."""
    now = datetime.now(UTC)
    earlier, later = (f"{now + timedelta(minutes=away):%Y-%m-%dT%H:%M}" for away in (-5, 5))
    run = shelf.begun(1)
    await page.evaluate(f"location.hash = '#/?until={earlier}Z'")
    await page.until("document.querySelector('.empty:not([hidden])')")
    assert await page.evaluate(FIELD % ("until", "value")) == earlier
    await page.evaluate(WRITE % {"name": "until", "value": later})
    await page.until(f"document.querySelector('.runs td.id')?.textContent === '{run.run_id}'")
    assert later in unquote(await page.evaluate("location.hash"))
    await page.evaluate(WRITE % {"name": "since", "value": later})
    await page.until("document.querySelector('.empty:not([hidden])')")
    await page.evaluate(WRITE % {"name": "since", "value": ""})
    await page.until("!location.hash.includes('since')")
    await page.until("document.querySelector('.runs td.id')")
    shelf.end(run, [None], TaskStatus.SUCCEEDED)


async def test_a_view_is_kept_and_forgotten(page: Page, shelf: Shelf) -> None:
    shelf.ended([None], TaskStatus.FAILED, "exit_2")
    await page.evaluate("location.hash = '#/?listed=FAILED&within=7d'")
    await page.until_text("Save this view")
    await page.evaluate("window.prompt = () => 'broken'")
    await page.click(".filters .chip", "Save this view")
    await page.until("document.querySelector('.chip.view a').textContent === 'broken'")
    await page.evaluate("location.hash = '#/'")
    await page.until("document.querySelector('.chip.view a[aria-current=false]')")
    await page.click(".chip.view a", "broken")
    await page.until("location.hash === '#/?listed=FAILED&within=7d'")
    await page.click(".chip.view button")
    await page.until("!document.querySelector('.chip.view')")


async def test_a_list_without_runs_says_so_and_leads_on(page: Page, shelf: Shelf) -> None:
    await page.evaluate("location.hash = '#/?requested_by=nobody'")
    await page.until_text("No such runs since ")
    assert await page.evaluate("document.querySelector('[name=requested_by]').checkVisibility()"), "the filter is seen"
    assert await page.evaluate("document.querySelector('[name=requested_by]').value") == "nobody"
    await page.click(".empty a", "Show all runs")
    await page.until("location.hash === '#/'")


async def test_a_run_that_ends_leaves_a_list_of_open_runs(page: Page, shelf: Shelf) -> None:
    run = shelf.begun(1)
    await page.evaluate("location.hash = '#/?listed=PROCESSING'")
    await page.until(f"{NUMBERS} === '{run.run_id}'")
    shelf.end(run, [None], TaskStatus.SUCCEEDED)
    await page.until(f"{NUMBERS} === ''")


async def test_a_crawler_has_its_history(page: Page, shelf: Shelf) -> None:
    shelf.ended([CrawlResult(stats={"items": 1234})], TaskStatus.SUCCEEDED)
    shelf.ended([None], TaskStatus.FAILED, "exit_2")
    await page.evaluate("location.hash = '#/crawlers/books'")
    await page.until_text("of the last", "runs finished.", "1,234 items", "Duration", "Items")
    columns = "[...document.querySelectorAll('.columns-of')].map((chart) => chart.children.length)"
    over = await page.evaluate("document.querySelectorAll('.boxed .pill:not([data-status=PROCESSING])').length")
    assert await page.evaluate(columns) == [over, over]


async def test_crawlers_have_their_latest_run_and_are_started(page: Page, shelf: Shelf) -> None:
    run = shelf.begun(1, "toys")
    await page.evaluate(CATALOGUE)
    await page.evaluate("location.hash = '#/crawlers'")
    await page.until("document.querySelector('[data-key=toys]').innerText.includes('processing')")
    link = "document.querySelector('[data-key=toys] [data-label=Run] a').getAttribute('href')"
    assert await page.evaluate(link) == f"#/runs/{run.run_id}"
    await page.click("[data-key=never] button", "Start")
    await page.until("document.querySelector('#start-crawler').value === 'never'")
    await page.press("Escape")
    await page.until("!document.querySelector('dialog')")
    await page.reload()
    await page.until(IS_LIVE)


async def test_the_latest_ends_of_a_crawler_stand_beside_it(page: Page, shelf: Shelf) -> None:
    """A crawler looked as if it had never run if its latest run was not among the latest 200 of all crawlers."""
    for result in (CrawlResult(), CrawlResult(outcome="banned")):
        shelf.end(shelf.begun(1, "toys"), [result], TaskStatus.SUCCEEDED)
    shelf.end(shelf.begun(1, "toys"), [None], TaskStatus.FAILED, "exit_2")
    await page.evaluate(CATALOGUE)
    await page.evaluate("location.hash = '#/crawlers'")
    ends = "[...document.querySelectorAll('[data-key=toys] .ends i')].map((end) => end.dataset.status).join()"
    await page.until(f"{ends}.endsWith('COMPLETED,odd,FAILED')")
    assert await page.evaluate("document.querySelector('[data-key=never]').innerText.includes('never run')")
    await page.reload()
    await page.until(IS_LIVE)


async def test_a_crawler_that_does_not_exist_has_a_clear_page(page: Page) -> None:
    """The page had a heading, empty charts and `No run of this crawler yet.`"""
    await page.evaluate(CATALOGUE)
    await page.evaluate("location.hash = '#/crawlers/gone'")
    await page.until_text("There is no crawler gone in the catalogue, and no run of it.")
    assert not await page.evaluate("document.querySelector('h1, table')")
    await page.click(".empty a", "Show all crawlers")
    await page.until("location.hash === '#/crawlers'")
    await page.reload()
    await page.until(IS_LIVE)


@pytest.mark.parametrize("address", ["#/crawlers/%zz", "#/flows/%", "#/runs/%e0", "#/nowhere"])
async def test_a_broken_address_has_a_clear_page(page: Page, address: str) -> None:
    """The page stayed blank, with an uncaught error."""
    await page.evaluate(f"location.hash = '{address}'")
    await page.until_text(f"There is no page {address[1:]}.")
    await page.click(".empty a", "Show all runs")
    await page.until("location.hash === '#/'")


@pytest.mark.parametrize("address", ["#/?status=nonsense", "#/?listed=FAILED&listed=nonsense"])
async def test_an_address_with_an_unknown_status_says_so(page: Page, address: str) -> None:
    """The page had the names of all statuses, twice introduced by a parameter, and no way out."""
    await page.evaluate(f"location.hash = '{address}'")
    await page.until_text('There is no status "nonsense".')
    await page.click(".empty a", "Show all runs")
    await page.until("location.hash === '#/'")
    await page.evaluate("location.hash = '#/flows?state=nonsense'")
    await page.until_text('There is no state "nonsense".')


async def test_an_outcome_stands_beside_the_status(page: Page, shelf: Shelf) -> None:
    """A run that ended with `banned` looked healthy: green, and without a word of its outcome."""
    banned = shelf.ended([CrawlResult(outcome="banned")], TaskStatus.SUCCEEDED)
    fine = shelf.ended([CrawlResult()], TaskStatus.SUCCEEDED)
    row = "document.querySelector(`.runs [data-key='%s'] .state`)"
    await page.evaluate("location.hash = '#/'")
    await page.until(f"{row % banned.run_id}.textContent === 'completedbanned'")
    await page.until(f"{row % fine.run_id}.textContent === 'completedfinished'")
    amber, green = "rgb(138, 90, 0)", "rgb(27, 115, 64)"
    for run, colour in ((banned, amber), (fine, green)):
        pill = f"getComputedStyle({row % run.run_id}.querySelector('.pill')).color"
        assert await page.evaluate(pill) == colour
    await page.evaluate("location.hash = '#/?outcome=banned&crawler=books'")
    await page.until(f"{NUMBERS} === '{banned.run_id}'")
    assert await page.evaluate(FIELD % ("outcome", "value")) == "banned"
    await page.evaluate(f"location.hash = '#/runs/{banned.run_id}'")
    await page.until("document.querySelector('.names .outcome')?.textContent === 'banned'")


async def test_runs_are_chosen_by_their_label(page: Page, shelf: Shelf) -> None:
    labelled = shelf.begun(1, request=KeptRequest(crawler="books", labels=["site:rare.example"]))
    await page.evaluate("location.hash = '#/?label=site%3Arare.example'")
    await page.until(f"{NUMBERS} === '{labelled.run_id}'")
    assert await page.evaluate(FIELD % ("label", "value")) == "site:rare.example"
    shelf.end(labelled, [None], TaskStatus.SUCCEEDED)


async def test_errors_are_no_percentage(page: Page, shelf: Shelf) -> None:
    """140 errors on 108 pages were `130 % errors`."""
    run = shelf.ended([CrawlResult(stats={"pages": 108, "errors": 140})], TaskStatus.SUCCEEDED)
    await page.evaluate("location.hash = '#/'")
    await page.until(
        f"document.querySelector(`.runs [data-key='{run.run_id}']`).innerText.includes('1.3 errors per page')"
    )
    assert "% errors" not in await page.text()


async def test_a_crawler_that_reports_no_items_has_no_chart_of_them(page: Page, shelf: Shelf) -> None:
    """The chart said `at most 1`."""
    shelf.end(shelf.begun(1, "mute"), [None], TaskStatus.SUCCEEDED)
    await page.evaluate("location.hash = '#/crawlers/mute'")
    await page.until_text("No items reported.", "1 of the last 1 run finished.")
    assert "at most" not in await page.text()
    assert await page.evaluate("document.querySelectorAll('.columns-of').length") == 1


async def test_bars_fill_from_the_left(page: Page, shelf: Shelf) -> None:
    """Succeeded tasks stood at the right end, and a waiting run had a full bar."""
    run = shelf.begun(4)
    end_tasks(shelf.database, run, [None])
    parts = f"[...document.querySelectorAll(`.runs [data-key='{run.run_id}'] .meter i`)]"
    await page.evaluate("location.hash = '#/'")
    await page.until(f"{parts}.map((part) => part.dataset.status).join() === 'SUCCEEDED,'")
    widths = f"{parts}.map((part) => part.style.flexGrow).join()"
    assert await page.evaluate(widths) == "1,3"
    assert await page.evaluate(f"getComputedStyle({parts}[1]).backgroundColor") == "rgba(0, 0, 0, 0)"
    SqlStore(shelf.database).tasks.cancel_queued(ref_to(run), "stopped")
    SqlStore(shelf.database).runs.close(ref_to(run), RunStatus.FAILED, "stopped")


@pytest.mark.parametrize("width", [390, 720, 768, 820, 920, 1024, 1440, 1920])
async def test_no_list_is_wider_than_its_window(page: Page, shelf: Shelf, width: int) -> None:
    """Between 721 and 920 pixels, the list of runs was cut off, and so was the menu."""
    long = CrawlResult(stats={"items": 123_456, "pages": 587, "errors": 703})
    shelf.end(shelf.begun(1, "books-of-the-world-to-scrape"), [long], TaskStatus.FAILED, "exit_2")
    shelf.ended([None], TaskStatus.SUCCEEDED)
    asks = pushed(shelf.database, Workflow("books", id=f"books-of-the-world/{width}").add_approval("publish prices"))
    asks.go_on()
    try:
        await page.look_like(width, 900)
        for place, ready in (
            ("#/", ".runs tbody tr"),
            ("#/flows", ".flows tbody tr"),
            ("#/crawlers/books", ".boxed tbody tr"),
            ("#/installation", ".limits tbody tr"),
        ):
            await page.evaluate(f"location.hash = '{place}'")
            await page.until(f"document.querySelector('{ready}')")
            assert await page.evaluate("document.documentElement.scrollWidth") <= width, place
        assert await page.evaluate(
            "(({scrollWidth, clientWidth}) => scrollWidth <= clientWidth)(document.querySelector('#places'))"
        )
    finally:
        asks.cancel()
        asks.go_on()
        await page.look_like(1280, 900)


async def test_the_view_does_not_move_when_its_strip_is_filled(page: Page) -> None:
    """A click on a button met nothing, because the strip appeared above the view at that moment."""
    await page.reload()
    await page.until("/needs attention/i.test(document.querySelector('#needs').innerText)")
    moved = await page.evaluate("""new Promise((done) => {
        const moved = [];
        new PerformanceObserver((list) => moved.push(...list.getEntries().flatMap((each) => each.sources)))
            .observe({ type: "layout-shift", buffered: true });
        const shown = ({ node, previousRect: then, currentRect: now }) => [node?.id, Math.round(now.top - then.top)];
        requestAnimationFrame(() => requestAnimationFrame(() => done(moved.map(shown))));
    })""")
    height = await page.evaluate("document.querySelector('#needs').offsetHeight")
    assert ["main", height] not in moved


async def test_what_needs_a_person_is_told_on_every_view(page: Page, shelf: Shelf) -> None:
    """Only the list of runs told it, and neither approvals, nor flows without a host, nor runs without capacity."""
    shelf.ended([None], TaskStatus.FAILED, "exit_2")
    pushed(shelf.database, Workflow("asks", id="asks").add_approval("check")).go_on()
    shops = managed(shelf.database, "shops")
    shops.offer("a")
    shops.ended_run(shops.started())
    shops.react(shops.ended()[0], Verdict.BAD)
    over(shops, "finished_with_failures")
    stuck = shelf.begun(1)
    with shelf.database.transaction() as connection:
        row = update(histories).where(histories.c.id == stuck.run_id)
        connection.execute(row.values(waiting_cause="quota", waiting_since=datetime.now(UTC) - timedelta(minutes=9)))
    strip = "document.querySelector('#needs').innerText"
    counts = (
        "failed in 24 hours",
        "1 flow with failed items",
        "1 run stuck without capacity",
        "1 flow awaiting approval",
    )
    for place in ("#/", f"#/runs/{stuck.run_id}", "#/flows", "#/crawlers/books", "#/audits", "#/installation"):
        await page.evaluate(f"location.hash = '{place}'")
        await page.reload()
        for words in ("Needs attention", *counts):
            await page.until(f"{strip}.includes('{words}')")
    await page.click("#needs a", "awaiting approval")
    await page.until("location.hash.startsWith('#/flows/asks')")
    await page.click("#needs a", "with failed items")
    await page.until("location.hash.startsWith('#/flows/shops')")
    await page.until("document.title === 'completed, 1 failed \u00b7 shops'")
    pushed(shelf.database, Workflow("calm", id="calm").add("later", crawl("books")))
    listed = "[...document.querySelectorAll('.flows tbody tr a')].map((link) => link.textContent).join()"
    await page.evaluate("location.hash = '#/flows'")
    await page.until(f"{listed}.startsWith('calm,shops,asks')")
    amber = "[...document.querySelectorAll('.flows .pill[data-status=odd]')].map((pill) => pill.innerText).join()"
    assert await page.evaluate(amber) == "completed, 1 failed"
    asks = "[...document.querySelectorAll('.flows tbody tr')].find((row) => row.innerText.startsWith('asks'))"
    bar = f"[...{asks}.querySelectorAll('.meter i')].map((part) => part.dataset.status).join()"
    await page.until(f"{asks}.innerText.includes('0/1')")
    assert await page.evaluate(f"{asks}.querySelectorAll('.meter i').length") == 1
    assert await page.evaluate(bar) == "", "what waits leaves the bar empty"
    rows = "[...document.querySelectorAll('.flows tbody tr')]"
    pill = f"{rows}.find((row) => row.innerText.includes('shops')).querySelector('.pill')"
    assert await page.evaluate(f"getComputedStyle({pill}).color") == "rgb(138, 90, 0)"  # amber
    await page.click(".chip", "needs attention")
    await page.until(f"location.hash === '#/flows?attention=true' && {listed} === 'shops,asks'")
    await page.evaluate("location.hash = '#/flows?search=SHO'")
    await page.until(f"{listed} === 'shops'")
    shelf.end(stuck, [None], TaskStatus.SUCCEEDED)


async def test_crawlers_say_when_they_start_next_and_their_defaults(page: Page) -> None:
    await page.evaluate(CATALOGUE)
    await page.evaluate(SCHEDULES)
    await page.evaluate("""void (window.fetch = ((real) => async (path, ...rest) => path === '/v1/crawlers/toys'
        ? Response.json({processes: 12, max_duration_seconds: 600}) : real(path, ...rest))(window.fetch))""")
    await page.evaluate("location.hash = '#/crawlers'")
    await page.until("document.querySelector('[data-key=toys] [data-label=Next]').textContent === 'in 2 h'")
    assert await page.evaluate("document.querySelector('[data-key=never] [data-label=Next]').textContent") == ""
    await page.click("[data-key=toys] button", "Start")
    hints = "['tasks', 'max_parallel', 'max_duration_seconds'].map((name) => document.getElementById(`start-${name}`))"
    await page.until(f"{hints}.map((field) => field.placeholder).join() === '12,default,600'")
    await page.press("Escape")
    await page.reload()
    await page.until(IS_LIVE)


async def test_a_start_outside_of_its_schedule_asks(page: Page) -> None:
    await page.evaluate(SCHEDULES)
    await page.evaluate("location.hash = '#/schedules'")
    await page.click("[data-key=nightly] button", "Start now")
    await page.until_text("Start nightly now?")
    assert not await page.evaluate("performance.getEntriesByType('resource').some((it) => it.name.includes('trigger'))")
    await page.press("Escape")
    await page.until("!document.querySelector('dialog')")
    await page.reload()
    await page.until(IS_LIVE)


async def test_schedules_are_made_changed_and_deleted_on_their_page(page: Page) -> None:
    await page.evaluate(SCHEDULES)
    await page.evaluate(KEEPS_SCHEDULES)
    await page.evaluate("location.hash = '#/schedules'")
    ends = "[...document.querySelectorAll('[data-key=nightly] .ends i')].map((end) => end.title).join('; ')"
    await page.until(f"{ends} === '2026-11-30T01:00:00Z: skipped, overlap; run 2: completed; run 3: failed'")
    await page.click("[data-key=nightly] button", "Change")
    await page.until("document.querySelector('dialog [name=cron]').value === '0 3 * * *'")
    await page.evaluate("document.querySelector('dialog [name=cron]').value = '0 4 * * *\\n@weekly'")
    await page.click("dialog button", "Save")
    await page.until("window.sent.length === 1 && !document.querySelector('dialog')")
    run = {"crawler": "books", "arguments": {"depth": "3"}, "priority": 5}
    rules = {
        "jitter_seconds": 60,
        "offset_seconds": 0,
        "missed_window_seconds": 3600,
        "overlap": "queue",
        "time_zone": "UTC",
    }
    changed = {**rules, "cron": ["0 4 * * *", "@weekly"], "run": run}
    await page.click(".tools button", "Make a schedule")
    for name, value in {"name": "hourly", "crawler": "toys", "every_seconds": "3600"}.items():
        await page.evaluate(f"document.querySelector('dialog [name={name}]').value = '{value}'")
    await page.click("dialog button", "Make")
    await page.until("window.sent.length === 2 && !document.querySelector('dialog')")
    created = {"cron": [], "every_seconds": 3600, "overlap": "skip", "run": {"crawler": "toys", "arguments": {}}}
    await page.click("[data-key=nightly] button", "Change")
    await page.click("dialog button", "Delete")
    await page.until_text("Delete nightly?", "Runs under way continue")
    await page.click("dialog button", "Delete")
    await page.until("window.sent.length === 3")
    assert await page.evaluate("window.sent") == [
        ["PUT", "/v1/schedules/nightly", "", changed],
        ["PUT", "/v1/schedules/hourly", "*", created],
        ["DELETE", "/v1/schedules/nightly", "", None],
    ]
    assert [ScheduleBody.model_validate(body).overlap for body in (changed, created)] == ["queue", "skip"]
    await page.reload()
    await page.until(IS_LIVE)


async def test_the_log_of_the_task_that_failed_a_run_is_open(page: Page, shelf: Shelf) -> None:
    run = shelf.ended([None], TaskStatus.FAILED, "exit_2")
    await page.evaluate(f"location.hash = '#/runs/{run.run_id}'")
    await page.until("document.querySelector('.tasks .below .logs h3')?.textContent === 'Log of task 0'")
    await page.click("button.open", "0 (main)")
    await page.until("!document.querySelector('.tasks .below')")


async def test_audits_and_schedules_have_pages(page: Page) -> None:
    await page.evaluate("location.hash = '#/audits'")
    await page.until_text("nothing that disagrees.", "none planned", "none yet", "Temporal does not answer")
    await page.click(".tools button", "Audit now")
    await page.until_text("Audit now?", "it ends leftover jobs, for example.")
    await page.press("Escape")
    await page.until("!document.querySelector('dialog')")
    await page.evaluate("location.hash = '#/schedules'")
    await page.until("document.querySelector('h1').textContent === 'Schedules'")
    await page.until("!document.querySelector('.empty').hidden")  # Temporal is away here


async def test_audits_say_when_the_next_is_due_and_what_they_found(page: Page) -> None:
    await page.evaluate(AUDITS)
    await page.evaluate("location.hash = '#/audits'")
    tiles = "[...document.querySelectorAll('.tiles dd')].map((each) => each.innerText).join('; ')"
    await page.until(f"{tiles} === 'in 2 h; now; 12 runs, 30 jobs; 1'")
    assert await page.evaluate("document.querySelector('.problem').innerText") == "Jobs: the cluster does not answer"
    row = (
        "[...document.querySelector('tbody tr').cells].map((cell) => cell.innerText.replace(/\\s+/g, ' ')).join(' | ')"
    )
    words = (
        "No workflow The run has had no workflow since 21 Jan, 06:20 | 7 | Started again now, 3 times Refused | 2 d ago"
    )
    assert await page.evaluate(row) == f"{words} | open"
    await page.click("summary", "Last lines")
    lines = await page.evaluate("[...document.querySelectorAll('.below pre.log')].map((each) => each.innerText)")
    assert [(text[:23], text[-14:]) for text in lines] == [("task 3: OOMKilled\npage ", "last \u241b[31mline")]
    reads = await page.evaluate("document.dispatchEvent(new Event('visibilitychange')), window.reads")
    await page.until(f"+/by read (\\d+)/.exec(document.body.innerText)[1] >= {reads}")
    assert await page.evaluate("document.querySelector('.below details').open")
    await page.reload()
    await page.until(IS_LIVE)


async def test_a_run_is_started_again_with_what_it_had(page: Page, shelf: Shelf) -> None:
    request = KeptRequest(
        crawler="books",
        tasks=1,
        max_parallel=4,
        arguments={"text": " two\nlines "},
        tags=["nightly"],
        retries=Retries(infrastructure=5),
        grace_seconds=7,
        left_open=["tasks"],
    )
    run = shelf.end(shelf.begun(1, request=request), [None], TaskStatus.FAILED, "exit_2")
    await page.evaluate(f"location.hash = '#/runs/{run.run_id}'")
    await page.click(".head button", "Run again")
    await page.until("document.querySelector('#start-crawler').value === 'books'")
    await page.evaluate(KEEPS_STARTS)
    await page.click("dialog button", "Start")
    await page.until("window.sent")
    sent = await page.evaluate("sent")
    accepted = StartRequest.model_validate_json(json.dumps(sent))
    assert accepted.retries
    assert accepted.retries.infrastructure == 5
    assert sent["arguments"] == request.arguments
    assert (sent["tags"], sent["grace_seconds"], sent["max_parallel"]) == (["nightly"], 7, 4)
    assert "tasks" not in sent, "the crawler's own number is the crawler's to say"
    await page.press("Escape")
    await page.until("!document.querySelector('dialog')")
    await page.reload()
    await page.until(IS_LIVE)


async def test_a_crawler_tells_its_schedules(page: Page, shelf: Shelf) -> None:
    shelf.ended([None], TaskStatus.SUCCEEDED)
    await page.evaluate(SCHEDULES)
    await page.evaluate("location.hash = '#/crawlers/books'")
    await page.until_text("Schedule nightly: in 2 h.", "Schedule held: paused.", "Schedule past: no further start.")
    assert "other" not in await page.evaluate("document.querySelector('main').innerText")
    await page.reload()
    await page.until(IS_LIVE)


async def test_the_list_is_walked_with_keys(page: Page, shelf: Shelf) -> None:
    first, second = (shelf.stopped() for _ in range(2))
    await page.evaluate("location.hash = '#/?listed=STOPPED'")
    await page.until(f"{NUMBERS}.startsWith('{second.run_id},{first.run_id}')")
    for key, run in (("j", second), ("j", first), ("k", second)):
        await page.press(key)
        await page.until(f"document.activeElement.textContent === '{run.run_id}'")
    await page.press("?")
    await page.until_text("Next and previous line")
    await page.press("Escape")
    await page.until("!document.querySelector('dialog')")


async def test_a_click_is_meant_for_the_line_that_was_pressed(page: Page, shelf: Shelf) -> None:
    """Every line moves down when a run begins between press and release."""
    first, second = (shelf.stopped() for _ in range(2))
    await page.evaluate("location.hash = '#/?listed=STOPPED'")
    await page.until(f"{NUMBERS}.startsWith('{second.run_id},{first.run_id}')")
    await page.press_mouse(f".runs [data-key='{second.run_id}'] a")
    third = shelf.stopped()
    await page.until(f"{NUMBERS}.startsWith('{third.run_id},{second.run_id}')")
    await page.release_mouse()
    await page.until(f"location.hash === '#/runs/{second.run_id}'")


async def test_a_line_stays_in_place_when_one_above_leaves(page: Page, shelf: Shelf) -> None:
    """Lines were put in again where they already were, and lost their focus."""
    lower, upper = (shelf.begun(1) for _ in range(2))
    await page.evaluate("location.hash = '#/?listed=PROCESSING'")
    await page.until(f"{NUMBERS}.startsWith('{upper.run_id},{lower.run_id}')")
    await page.evaluate(f"document.querySelector(\".runs [data-key='{lower.run_id}'] a\").focus()")
    shelf.end(upper, [None], TaskStatus.SUCCEEDED)
    await page.until(f"{NUMBERS}.startsWith('{lower.run_id}')")
    assert await page.evaluate("document.activeElement.textContent") == str(lower.run_id)
    shelf.end(lower, [None], TaskStatus.SUCCEEDED)
