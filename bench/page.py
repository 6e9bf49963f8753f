"""The live page in Chromium: time until a view is drawn, and the longest task that keeps the page from answering.

The page comes from the API's own server over an SQLite database. A browser reports tasks of 50 milliseconds and more.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

from sqlalchemy import update

from bench.auditing import make_runs
from bench.table import Scale, Table
from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.database.migrate import upgrade
from crawler_lifecycle.database.schema import histories
from crawler_lifecycle.flows import Workflow, crawl
from crawler_lifecycle.http.tokens import Scope
from crawler_lifecycle.model.deployment import Crawler
from crawler_lifecycle.model.requests import RunRequest
from crawler_lifecycle.model.states import RunStatus
from crawler_lifecycle.runs.ports import NewRun
from tests.browser.chromium import Page, chromium
from tests.kit.authors.work import plain
from tests.kit.data.flows import pushed
from tests.kit.service.apis import Api, served

BESIDE = 10  # jobs of a flow's layer; of twelve that are alike, the graph would make one box
REPEATS = 3  # the page is loaded anew for each
SHORTEST_TASK = 50  # milliseconds; the browser reports no shorter task
# Before the page's own scripts: remembers the longest task, and when a view is drawn.
WATCH = """
window.longest = 0;
new PerformanceObserver((tasks) => {
  for (const task of tasks.getEntries()) longest = Math.max(longest, task.duration);
}).observe({type: "longtask", buffered: true});
window.until = (isDrawn) => new Promise((resolve) => {
  const look = () => (isDrawn() ? resolve(performance.now()) : requestAnimationFrame(look));
  look();
});
window.first = until(() => document.querySelector(".runs tbody tr"));
"""
CHANGE = """(async () => {{
  longest = 0;
  const began = performance.now();
  {change};
  return await until(() => {drawn}) - began;
}})()"""
REST = "new Promise((resume) => setTimeout(resume, 1000))"  # a task is reported some time after its end
IN_TIME = "[...document.querySelectorAll('[aria-label=Tasks] .chip')].find((it) => it.textContent === 'Gantt').click()"
WOVEN = "woven"
SHOW_WOVEN = f"location.hash = '#/flows/{WOVEN}?view=%s'"
BOX = "document.querySelector('.box')"
JOBS = "document.querySelector('.jobs button.open')"
Row = tuple[str, float, str]


def measure(scale: Scale) -> Table:
    return Table(("view", "ms until drawn", "longest task, ms"), asyncio.run(_rows(scale)))


async def _rows(scale: Scale) -> list[Row]:
    with TemporaryDirectory(prefix="bench-page-") as name:
        folder = Path(name)
        url = f"sqlite:///{folder / 'crawler.db'}"
        upgrade(url)
        database = Database(url)
        run_id, flow = _fill(database, scale)
        with served(folder, url, CRAWLER_API__REQUESTS_PER_SECOND="500") as api:
            async with _watched(folder, api) as page:
                rows = await _views(page, api, scale, run_id, flow)
                rows += await _views_on_a_phone(page, api, scale, run_id)
        database.close()
    return rows


def _fill(database: Database, scale: Scale) -> tuple[int, str]:
    """Write the runs, the run with many tasks and the flow. Return the run's RunID and the flow's id."""
    make_runs(database, scale.listed_runs)
    ended = {"status": RunStatus.COMPLETED, "reason": "all_succeeded", "finished_at": datetime.now(UTC)}
    with database.transaction() as connection:
        connection.execute(update(histories).values(ended))
    tasks, crawler = scale.tasks[-1], Crawler(name="books", command=["true"])
    new = NewRun(RunRequest(crawler="books"), crawler, tasks, f"crawl-books-{uuid4()}", str(uuid4()))
    run = SqlStore(database).runs.create(new)
    workflow = Workflow("layers", id="layers")
    for number in range(scale.fan):
        workflow.add(f"job-{number}", plain, deps=[f"job-{number - BESIDE}"] if number >= BESIDE else ())
    pushed(database, workflow)
    pushed(database, _woven(scale.large_flow))
    return run.run_id, "layers"


def _woven(jobs: int) -> Workflow:
    """Return a flow in which no two jobs of a layer are alike."""
    workflow, across = Workflow("woven", id=WOVEN), BESIDE * BESIDE
    for number in range(jobs):
        above = number - number % across - across
        deps = [f"job-{above + place % across}" for place in (number, number + 1)] if above >= 0 else ()
        workflow.add(f"job-{number}", crawl(f"shop-{number % across}"), deps=deps)
    return workflow


@asynccontextmanager
async def _watched(folder: Path, api: Api) -> AsyncIterator[Page]:
    async with chromium(folder) as page:
        await page.look_like(1280, 900)
        await page.ask("Page.addScriptToEvaluateOnNewDocument", source=WATCH)
        await page.open(f"{api.url}/#token={api.token(*Scope)}")
        await page.until("document.querySelector('.runs tbody tr')")
        yield page
        if page.errors:
            raise RuntimeError(f"the page has failed: {page.errors}")


async def _views(page: Page, api: Api, scale: Scale, run_id: int, flow: str) -> list[Row]:
    tasks = f"{scale.tasks[-1]:,} tasks"
    show_run = f"location.hash = '#/runs/{run_id}'"
    first = "document.querySelector('.tasks button.open')"
    task_is = f"parseInt({first}?.textContent) === {{}} && {first}.checkVisibility()"
    boxes = f"document.querySelectorAll('.box').length === {scale.fan}"
    sort = "[...document.querySelectorAll('th button')][0].click()"
    lists = [await _first_list(page, api) for _ in range(REPEATS)]
    return [
        _row(f"first list, {scale.listed_runs + 1:,} runs", lists),
        _row(f"a run with {tasks}", await _changes(page, show_run, task_is.format(0))),
        _row("its tasks, sorted by number downwards", [await _change(page, sort, task_is.format(scale.tasks[-1] - 1))]),
        _row("its tasks in time", [await _change(page, IN_TIME, "document.querySelector('.bars li')")]),
        _row(
            f"a flow as a graph, {scale.fan:,} boxes",
            await _changes(page, f"location.hash = '#/flows/{flow}?view=graph'", boxes),
        ),
        _row("the same as a ledger", await _changes(page, f"location.hash = '#/flows/{flow}?view=ledger'", JOBS)),
        _row(f"a flow of {scale.large_flow:,} jobs as a graph", await _changes(page, SHOW_WOVEN % "graph", BOX)),
        _row("the same as a ledger", await _changes(page, SHOW_WOVEN % "ledger", JOBS)),
    ]


async def _views_on_a_phone(page: Page, api: Api, scale: Scale, run_id: int) -> list[Row]:
    await page.look_like(390, 780, mobile=True)
    lists = [await _first_list(page, api) for _ in range(REPEATS)]
    show_run = f"location.hash = '#/runs/{run_id}'"
    task_is_seen = "document.querySelector('.tasks .open')?.checkVisibility()"
    return [
        _row("first list on a phone", lists),
        _row(f"a run with {scale.tasks[-1]:,} tasks on a phone", await _changes(page, show_run, task_is_seen)),
    ]


async def _first_list(page: Page, api: Api) -> tuple[float, float]:
    """Load the page anew. Return the milliseconds from the start of its loading until its list is drawn."""
    await page.open("about:blank")
    await page.open(f"{api.url}/#/")
    await page.until("window.first")
    drawn = float(await page.evaluate("first"))
    return drawn, await _longest(page)


async def _changes(page: Page, change: str, drawn: str) -> list[tuple[float, float]]:
    """Change from the list of runs to a view, some times."""
    measured = []
    for _ in range(REPEATS):
        await page.evaluate("location.hash = '#/'")
        await page.until("document.querySelector('.runs tbody tr')")
        measured.append(await _change(page, change, drawn))
    return measured


async def _change(page: Page, change: str, drawn: str) -> tuple[float, float]:
    taken = float(await page.evaluate(CHANGE.format(change=change, drawn=drawn)))
    return taken, await _longest(page)


async def _longest(page: Page) -> float:
    await page.evaluate(REST)
    return float(await page.evaluate("longest"))


def _row(view: str, measured: Sequence[tuple[float, float]]) -> Row:
    """Return the median time until the view is drawn, and the longest task of all repetitions."""
    times, tasks = sorted(taken for taken, _ in measured), [task for _, task in measured]
    longest = max(tasks)
    return view, times[len(times) // 2], f"{longest:.0f}" if longest else f"below {SHORTEST_TASK}"
