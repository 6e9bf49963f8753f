"""The live page when answers are lost, late or do not come, with many tabs, and for whoever uses no mouse."""

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, closing
from datetime import UTC, datetime

import pytest
import pytest_asyncio

from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.model.records import ALL_RUNS
from crawler_lifecycle.model.states import Intent, RunStatus
from crawler_lifecycle.retention.store import RetentionStore
from tests.browser.chromium import OTHER_NAME, Page
from tests.browser.pages import (
    DIALOG,
    IS_LIVE,
    address_and_token,
    fill,
    of_a_stack,
    show,
    tab_to,
    unattended,
    until_said,
    until_started,
)
from tests.kit.data.databases import maker_of_runs, ref_to
from tests.kit.service.embedded import LINK
from tests.kit.waiting import eventually
from tests.process.crawls import Site
from tests.retention.old_runs import CUTOFF, old_runs

pytestmark = [pytest.mark.process, pytest.mark.timeout(240)]
TALKS = {"talks": "echo so much for that\n"}
TABS = 7  # and the first; six connections are what a browser opens to one address
# In the place of the browser's own: what becomes of a request, by what it would have been answered. Gone at a reload.
FETCH = """
const real = window.fetch;
window.fetch = async (path, options) => {
  const asked = `${options.method ?? "GET"} ${path}`;
  %s
  return real(path, options);
};
"""
STARTS_THAT_ARE_LOST = """
  if (asked === "POST /v1/runs" && (window.starts = (window.starts ?? 0) + 1) < 4) {
    await real(path, options);
    const breaks = new ReadableStream({start: (told) => told.error(new TypeError("cut off"))});
    return [new Response("<h1>Bad Gateway</h1>", {status: 502}), new Response(breaks, {status: 201}),
            new Response("{}", {status: 401})][starts - 1];
  }
"""
STARTS_THAT_ARE_REFUSED = """
  if (asked === "POST /v1/runs" && (window.starts = (window.starts ?? 0) + 1) < 3) {
    if (starts === 1) await real(path, options);
    const detail = starts === 1 ? "Bad Gateway" : "not with this token";
    return new Response(JSON.stringify({detail}), {status: [502, 403][starts - 1]});
  }
"""
NO_LOG = """
  if (asked.includes("/logs/stream")) {
    window.asked = (window.asked ?? 0) + 1;
    return new Response('{"detail": "there is no such log"}', {status: 404});
  }
"""
SILENT_STOP = """
  if (asked.startsWith("POST") && !window.stops) {
    window.stops = 1;
    return new Promise((_, refuse) => options.signal?.addEventListener("abort", () => refuse(options.signal.reason)));
  }
"""
BUSY_AT_THE_END = """
  if (asked === "GET /v1/runs/%s" && !window.busy) {
    const answer = await real(path, options);
    if ((await answer.clone().json()).run.status !== "FAILED") return answer;
    window.busy = 1;
    return new Response("{}", {status: 503});
  }
"""
BUSY_ONCE_EACH = """
  const about = asked.replace(/\\/[0-9]+/g, "/N").split("?")[0];
  window.asked = {...window.asked, [about]: (window.asked?.[about] ?? 0) + 1};
  if (window.asked[about] === 1) return new Response("{}", {status: 429});
"""
CUT_LOG = """
  if (asked.includes("/logs/stream") && !window.cut) {
    window.cut = 1;
    throw new TypeError("cut off");
  }
"""
BUSY_DOOR = """
  if (asked === "GET /v1/me" && (window.refused = (window.refused ?? 0) + 1) < 3) {
    return new Response("{}", {status: 503});
  }
"""
LATE_TASKS = """
  if (asked.includes("/tasks?limit=") && !window.release) {
    await new Promise((release) => { window.release = release; });
  }
"""
# Of each element with a text of its own: how much it differs from what is behind it, as the WCAG counts.
FAINT = """
(() => {
  const pen = new OffscreenCanvas(1, 1).getContext("2d", {willReadFrequently: true});
  const rgba = (color) => {
    pen.clearRect(0, 0, 1, 1);
    pen.fillStyle = color;
    pen.fillRect(0, 0, 1, 1);
    return [...pen.getImageData(0, 0, 1, 1).data];
  };
  const light = (color) => {
    const [red, green, blue] = rgba(color).slice(0, 3).map((part) => part / 255)
      .map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const ground = (element) => {
    const color = getComputedStyle(element).backgroundColor;
    return rgba(color)[3] === 255 ? color : ground(element.parentElement);
  };
  const differ = (element) => {
    const both = [light(getComputedStyle(element).color), light(ground(element))];
    const [dark, bright] = both.sort((one, two) => one - two);
    return (bright + 0.05) / (dark + 0.05);
  };
  const has_text = (element) => [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
  return [...document.body.querySelectorAll("*")]
    .filter((each) => each.checkVisibility() && has_text(each))
    .filter((each) => differ(each) < 4.5)
    .map((each) => `${each.className || each.localName}: ${each.textContent}: ${differ(each).toFixed(2)}`);
})()
"""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def stack(has_chromium: None, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    async with of_a_stack(tmp_path_factory.mktemp("trouble"), TALKS, {}) as running:
        yield running


async def test_a_start_whose_answers_are_lost_is_one_run(page: Page, stack: Site) -> None:
    """A proxy in front says 502 or breaks off; then the token is refused, and another one entered."""
    _, token = await address_and_token(stack)
    known = {run.run_id for run in stack.control.runs.select(ALL_RUNS, limit=100)}
    await page.evaluate(FETCH % STARTS_THAT_ARE_LOST)
    await page.press("n")
    await page.until(DIALOG)
    await fill(page, crawler="gated")
    await page.press("Enter")
    await page.until_text("Sign in with a token")
    await page.type(token)
    await page.press("Enter")
    run_id = await until_started(page)
    assert await page.evaluate("starts") == 4
    assert {run.run_id for run in stack.control.runs.select(ALL_RUNS, limit=100)} - known == {run_id}


async def test_a_start_that_is_refused_after_an_answer_was_lost_is_one_run(page: Page, stack: Site) -> None:
    """The token may not start runs any more, or a proxy says so: that says nothing of the try before."""
    known = {run.run_id for run in stack.control.runs.select(ALL_RUNS, limit=100)}
    await page.evaluate(FETCH % STARTS_THAT_ARE_REFUSED)
    await page.press("n")
    await page.until(DIALOG)
    await fill(page, crawler="gated")
    await page.press("Enter")
    await page.until_text("not with this token")
    await page.press("Enter")
    run_id = await until_started(page)
    assert await page.evaluate("starts") == 3
    assert {run.run_id for run in stack.control.runs.select(ALL_RUNS, limit=100)} - known == {run_id}


async def test_a_removed_run_is_answered_with_the_day_of_its_removal(page: Page, stack: Site) -> None:
    with closing(Database(f"sqlite:///{stack.state / 'crawler.db'}")) as database:
        run = old_runs(database, maker_of_runs(database))()
        assert RetentionStore(database).remove([run.run_id], CUTOFF) == [run.run_uid]
    for key, name in ((run.run_id, str(run.run_id)), (run.run_uid, f"{run.run_id} ({run.run_uid})")):
        await page.evaluate(f"location.hash = '#/runs/{key}'")
        await page.until_text(f"run {name} was removed by retention on {datetime.now(UTC).date()}")


async def test_a_log_that_is_not_there_is_asked_for_once(page: Page, stack: Site) -> None:
    with unattended(stack) as (_, run):
        await page.evaluate(FETCH % NO_LOG)
        await page.evaluate(f"location.hash = '#/runs/{run.run_id}'")
        await page.until_text(f"run {run.run_id}", "Timeline")
        await page.click("button.open", "0 (main)")
        await page.until_text("there is no such log")
        await page.evaluate("new Promise((resume) => setTimeout(resume, 1500))")  # it asked again after 500
        assert await page.evaluate("asked") == 1


async def test_a_log_that_is_followed_again_is_not_called_away(page: Page, stack: Site) -> None:
    """Until the task printed something it said that the API does not answer, which it had done long since."""
    with unattended(stack) as (_, run):
        await page.evaluate(FETCH % CUT_LOG)
        await page.evaluate(f"location.hash = '#/runs/{run.run_id}'")
        await page.until_text(f"run {run.run_id}", "Timeline")
        await page.click("button.open", "0 (main)")
        await page.until("cut && document.querySelector('.logs .tools .quiet').textContent !== 'following'")
        await page.until("document.querySelector('.logs .tools .quiet').textContent === 'following'")


async def test_what_is_typed_stays_while_nobody_says_what_the_token_may(page: Page, stack: Site) -> None:
    """The whole page was made anew every two seconds."""
    _, token = await address_and_token(stack)
    await page.evaluate(FETCH % BUSY_DOOR)
    await page.evaluate(f"location.hash = '#token={token}'")
    await page.until("window.refused === 1")
    await page.evaluate("window.field = document.querySelector('input[type=search]'); field.focus()")
    await page.type("gat")
    await page.until("window.refused === 3")
    assert await page.evaluate("[field.isConnected, document.activeElement === field, field.value]") == [
        True,
        True,
        "gat",
    ]


async def test_a_stop_from_one_of_many_tabs_is_sent(page: Page, stack: Site) -> None:
    run = await stack.start()
    await stack.until_running(run, 1)
    await show(page, run)
    link = await stack.command.wait_for(LINK)
    async with AsyncExitStack() as tabs:
        for _ in range(TABS):
            await tabs.enter_async_context(page.tab_in_front(link, IS_LIVE))
        await page.ask("Page.bringToFront")
        await page.click("button", "Stop")
        await page.until("document.querySelector('dialog[open]')")
        await page.press("Enter")
        await eventually(lambda: stack.details(run).run.intent is Intent.STOP, patience=20)


async def test_what_changes_while_a_tab_is_hidden_is_there_when_it_is_shown(page: Page, stack: Site) -> None:
    with unattended(stack) as (database, run):
        await page.evaluate(f"location.hash = '#/runs/{run.run_id}'")
        await page.until_text("Waiting for the main job to be deployed")
        async with page.tab_in_front("about:blank", "true"):
            await page.until("document.hidden")
            SqlStore(database).tasks.cancel_queued(ref_to(run), "stopped")  # the dispatcher would deploy it
            SqlStore(database).runs.mark_started(ref_to(run))
        await page.ask("Page.bringToFront")
        await page.until_text("Waiting for the last check")


async def test_a_stop_that_is_not_answered_is_given_up_and_can_be_sent_again(page: Page, stack: Site) -> None:
    run = await stack.start()
    await stack.until_running(run, 1)
    await page.evaluate("const limit = AbortSignal.timeout; AbortSignal.timeout = () => limit.call(AbortSignal, 3000)")
    await show(page, run)
    await page.evaluate(FETCH % SILENT_STOP)
    await page.click("button", "Stop")
    await page.until("document.querySelector('dialog[open]')")
    await page.press("Enter")
    await page.until_text("the API does not answer")
    await page.press("Enter")
    await eventually(lambda: stack.details(run).run.intent is Intent.STOP, patience=20)


async def test_the_last_change_is_drawn_although_the_api_was_busy(page: Page, stack: Site) -> None:
    with unattended(stack) as (database, run):
        await page.evaluate(f"location.hash = '#/runs/{run.run_id}'")
        SqlStore(database).tasks.cancel_queued(ref_to(run), "stopped")
        await page.until("document.querySelector('[aria-label=\"Task status\"]').textContent === 'all1stopped1'")
        await page.evaluate(FETCH % (BUSY_AT_THE_END % run.run_id))
        SqlStore(database).runs.close(ref_to(run), RunStatus.FAILED, "stopped")
        await page.until("window.busy")
        await until_said(page, "Stopped.")


async def test_whatever_could_not_be_read_is_read_again(page: Page, stack: Site) -> None:
    """Of a run of which nothing changes that would have it read."""
    with unattended(stack) as (_, run):
        await page.evaluate(FETCH % BUSY_ONCE_EACH)
        await page.evaluate("location.hash = '#/?status=INITIALIZING'")
        await page.until("asked['GET /v1/runs'] > 1")
        await page.until(f"document.querySelector('.runs tbody a').textContent === '{run.run_id}'")
        await page.click(".runs tbody a")
        await page.until_text(f"run {run.run_id}", "Timeline")
        await page.click("button.open", "0 (main)")
        await page.until("asked['GET /v1/runs/N/tasks/N'] > 1")
        assert await page.evaluate("asked['GET /v1/runs/N'] > 1 && asked['GET /v1/runs/N/tasks'] > 1")


async def test_an_answer_that_comes_late_is_not_drawn(page: Page, stack: Site) -> None:
    """Of the tasks from the first on, after those from another on were asked for."""
    with unattended(stack, tasks=3) as (_, run):
        await page.evaluate(FETCH % LATE_TASKS)
        await page.evaluate(f"location.hash = '#/runs/{run.run_id}'")
        await page.until("window.release")
        await _jump(page, 2, rows=1)
        await page.evaluate(
            "window.drawn = []; const tasks = document.querySelector('.tasks tbody');"
            "new MutationObserver(() => drawn.push(tasks.children.length)).observe(tasks, {childList: true}); release()"
        )
        await _jump(page, 1, rows=2)
        assert await page.evaluate("drawn.at(-1)") == 2
        assert 3 not in await page.evaluate("drawn")


async def _jump(page: Page, task: int, *, rows: int) -> None:
    await page.evaluate(
        f"(() => {{ const jump = document.querySelector('.jump'); jump.value = {task};"
        " jump.dispatchEvent(new Event('change')) })()"
    )
    await page.until(f"document.querySelectorAll('.tasks tbody tr').length === {rows}")


async def test_the_first_link_leads_to_the_content_and_nowhere_else(page: Page, stack: Site) -> None:
    with unattended(stack) as (_, run):
        await page.evaluate(f"location.hash = '#/runs/{run.run_id}'")
        await page.reload()
        await page.until_text(f"run {run.run_id}", "Timeline")
        await tab_to(page, "focused.matches('.skip')")
        await page.press("Enter")
        await page.until("document.activeElement.id === 'main'")
        assert await page.evaluate("location.hash") == f"#/runs/{run.run_id}"
        await page.until_text("Timeline")


async def test_a_run_is_started_over_plain_http_from_another_machine(page: Page, stack: Site) -> None:
    url, token = await address_and_token(stack)
    await page.open(f"{url.replace('127.0.0.1', OTHER_NAME)}/#token={token}")
    await page.until(IS_LIVE)
    assert await page.evaluate("isSecureContext") is False
    await page.press("n")
    await page.until(DIALOG)
    await fill(page, crawler="gated")
    await page.press("Enter")
    await until_started(page)


async def test_a_link_that_was_cut_asks_for_a_token(page: Page, stack: Site) -> None:
    url, _ = await address_and_token(stack)
    await page.open("about:blank")
    await page.open(f"{url}/#token=%")
    await page.until_text("Sign in with a token")


async def test_log_and_stop_without_a_mouse(page: Page, stack: Site) -> None:
    run = await stack.start("talks", tasks=2)
    await stack.until_running(run, 2)
    await show(page, run)
    await page.until("document.querySelectorAll('.tasks .pill[data-status=RUNNING]').length === 2")
    await tab_to(page, "focused.matches('button.open') && focused.textContent === '1'")
    await page.press("Enter")
    await page.until("document.activeElement.getAttribute('aria-expanded') === 'true'")
    await page.until_text("so much for that")
    await tab_to(page, "focused.matches('.log')")
    await page.evaluate("location.hash = '#/'")
    await show(page, run)
    await tab_to(page, "focused.textContent === 'Stop'")
    await page.press("Enter")
    await page.until("document.activeElement.id === 'reason'")
    await page.type("wrong site")
    await page.press("Enter")
    await page.until_text("wrong site \u2014 token embedded, api")


async def test_everything_can_be_read_in_dark_and_in_light(page: Page, stack: Site) -> None:
    run = await stack.start()
    await stack.until_running(run, 1)
    grounds = []
    for dark in (True, False):
        await page.look_like(1280, 900, dark=dark)
        for place in ("#/", f"#/runs/{run.run_id}"):
            await page.evaluate(f"location.hash = {json.dumps(place)}")
            await page.until("document.querySelector('table.list tbody tr')")
            assert await page.evaluate(FAINT) == [], "dark" if dark else "light"
        grounds.append(await page.evaluate("getComputedStyle(document.documentElement).backgroundColor"))
    assert grounds[0] != grounds[1]
