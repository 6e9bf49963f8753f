"""axe-core finds no violation on any page and in any dialog, in light and in dark, on a desk and on a phone."""

import json
import shutil
import subprocess
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import pytest_asyncio

from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.http.tokens import Scope
from crawler_lifecycle.model.audits import AuditRef, Finding, FindingKind
from crawler_lifecycle.model.requests import StopRequest
from crawler_lifecycle.model.states import TaskStatus
from tests.browser.chromium import Page
from tests.browser.pages import IS_LIVE
from tests.browser.shelf import MARKS, Shelf
from tests.kit.data.databases import missing
from tests.kit.data.flows import failing
from tests.kit.data.managers import item, managed

pytestmark = MARKS
FOLDER = Path(__file__).with_name("axe")
RULES = (
    "{resultTypes: ['violations'], runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']}"
)
VIOLATIONS = f"""axe.run(document, {RULES}).then(({{violations}}) => violations.flatMap(({{id, nodes}}) =>
    nodes.map(({{html, failureSummary}}) => `${{id}}: ${{html.slice(0, 200)}} ${{failureSummary}}`)))"""
AT, LATER = "2026-11-20T09:00:00Z", "2026-11-20T09:00:07Z"
RUN_SUMMARY = {
    "run_id": 42, "run_uid": "5b0c9c6e-6f0e-4f57-9a51-0d4c2f6f3a11", "crawler": "bookshop",
    "trigger": "api", "requested_by": None, "cluster": "default",
    "status": "PROCESSING", "reason": None, "intent": "RUN", "tasks": {"RUNNING": 3, "SUCCEEDED": 1},
    "created_at": AT, "begun_at": AT, "started_at": LATER, "finished_at": None, "waiting_cause": None,
    "waiting_since": None, "waiting_message": None, "priority": 0, "admitted_at": AT, "held_by": None,
    "changed_at": LATER, "flow": None, "tags": [],
}  # fmt: skip
SCHEDULE_SUMMARY = {
    "schedule_id": "nightly", "crawler": "bookshop", "flow_id": None, "cron": ["0 3 * * *"], "every_seconds": None,
    "offset_seconds": 0, "time_zone": "Europe/Berlin", "jitter_seconds": 0, "paused": False,
    "next_at": ["2026-11-21T02:00:00Z"], "last_started_at": "2026-11-20T02:00:00Z",
}  # fmt: skip
# the catalogue's and the scheduler's answers, which the API of a shelf cannot give
ANSWERS = {
    "/v1/crawlers": {"crawlers": ["books", "never"]},
    "/v1/crawler-runs": {
        "crawlers": [
            {
                "crawler": "books",
                "latest": RUN_SUMMARY,
                "ends": [{"run_id": 41, "status": "COMPLETED", "outcome": "banned"}],
            },
            {"crawler": "never", "latest": None, "ends": []},
        ]
    },
    "/v1/schedules": {"schedules": [SCHEDULE_SUMMARY, SCHEDULE_SUMMARY | {"schedule_id": "weekly", "paused": True}]},
}
ANSWER = f"""void (window.fetch = ((real, answers) => (path, ...rest) => answers[path]
    ? Promise.resolve(Response.json(answers[path])) : real(path, ...rest))(window.fetch, {json.dumps(ANSWERS)}))"""
# without the wait for the event, the rows of the page before could pass for the rows of the next
GO = """location.hash === '%s' || new Promise((resume) => {
    addEventListener('hashchange', () => resume(true), {once: true});
    location.hash = '%s';
})"""
PAGES = {
    "#/": "document.querySelector('.runs tbody tr')",
    "#/?listed=STOPPED&requested_by=nobody": "document.querySelector('.empty a')",
    "#/flows": "document.querySelector('.flows tbody tr')",
    "#/flows/broken?view=ledger&job=a": "document.querySelector('.jobs .below')",
    "#/flows/broken?view=graph": "document.querySelector('.box')",
    "#/flows/broken?view=time": "document.querySelector('.panel, .chart')",
    "#/flows/broken?view=log": "document.querySelector('.timeline li')",
    "#/flows/shops?view=items": "document.querySelector('.boxed tbody tr')",
    "#/crawlers": "document.querySelectorAll('tbody tr').length === 2",
    "#/crawlers/books": "document.querySelector('.columns-of i')",
    "#/schedules": "document.querySelectorAll('tbody tr').length === 2",
    "#/audits": "document.querySelector('tbody tr')",
    "#/installation": "document.querySelector('.limits tbody tr')",
}
FLOWS = [address for address in PAGES if address.startswith("#/flows/")]
OVER = "document.querySelector('.tasks tbody tr').checkVisibility()"
OPEN_DIALOG = "document.querySelector('dialog[open]')"
FINDING = Finding(kind=FindingKind.UNSUPERVISED, subject="uid", run_uid="uid", run_id=1, message="its workflow is gone")
BY_ANN = StopRequest(actor="ann", reason="wrong site", door="crawlctl")


@pytest.fixture(scope="module")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    npm = shutil.which("npm")
    if npm is None:
        missing("npm is not installed")
    folder = tmp_path_factory.mktemp("axe")
    shutil.copytree(FOLDER, folder, dirs_exist_ok=True)
    words = [str(npm), "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
    built = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=200, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    return (folder / "node_modules" / "axe-core" / "axe.min.js").read_text()


@dataclass(frozen=True)
class Filled:
    """The shelf with something for every page. `ready`: what to wait for, by address."""

    token: str
    ready: dict[str, str]
    open_run: int
    stopping_run: int


@pytest.fixture(scope="module")
def filled(shelf: Shelf) -> Filled:
    good = shelf.ended([None, None], TaskStatus.SUCCEEDED)
    bad = shelf.ended([None], TaskStatus.FAILED, "exit_2")
    shelf.stopped()
    begun, stopping = shelf.begun(3), shelf.begun(2)
    store, now = SqlStore(shelf.database), datetime.now(UTC)
    store.runs.request_stop(stopping.run_id, BY_ANN, now)
    store.findings.report(AuditRef(audit_uid=str(uuid4()), began_at=now, repair=True), [FINDING])
    failing(shelf.database, "broken")
    managed(shelf.database, "shops").commit(item("a"), item("b"))
    runs = {
        f"#/runs/{good.run_id}": OVER,
        f"#/runs/{bad.run_id}?open=0": f"{OVER} && document.querySelector('pre.log')",
        f"#/runs/{stopping.run_id}": "document.querySelector('.phases [data-state=now]')",
    }
    return Filled(shelf.api.token(*Scope), PAGES | runs, begun.run_id, stopping.run_id)


@dataclass
class Inspection:
    """The page under axe, and the violations so far."""

    page: Page
    axe: str
    filled: Filled
    problems: list[str] = field(default_factory=list)

    async def show(self, place: str) -> None:
        await self.page.evaluate(GO % (place, place))
        await self.page.until(self.filled.ready.get(place, OVER))

    async def inspect(self, name: str) -> None:
        if not await self.page.evaluate("Boolean(window.axe)"):
            await self.page.evaluate(self.axe + ";true")
        violations: Any = await self.page.evaluate(VIOLATIONS)
        self.problems += [f"{name}: {violation}" for violation in violations]

    async def inspect_pages(self, *places: str) -> None:
        for place in places:
            await self.show(place)
            await self.inspect(place)

    async def inspect_dialog(self, name: str) -> None:
        await self.page.until(OPEN_DIALOG)
        await self.inspect(name)
        await self.page.press("Escape")
        await self.page.until("!document.querySelector('dialog')")  # a closed dialog may still have the focus

    def end(self) -> None:
        assert not self.problems, "\n".join(self.problems)


@pytest.fixture(params=[False, True], ids=["light", "dark"])
def dark(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest_asyncio.fixture(loop_scope="session")
async def inspection(shelf_page: Page, axe: str, filled: Filled, dark: bool) -> Inspection:
    await shelf_page.look_like(1280, 900, dark=dark)
    await shelf_page.evaluate(ANSWER)
    return Inspection(shelf_page, axe, filled)


async def test_no_page_has_a_violation(inspection: Inspection) -> None:
    await inspection.inspect_pages(*inspection.filled.ready)
    inspection.end()


async def test_no_dialog_has_a_violation(inspection: Inspection) -> None:
    page = inspection.page
    await inspection.show("#/")
    for key, name in {"n": "start", "?": "keys"}.items():
        await page.press(key)
        await inspection.inspect_dialog(name)
    await inspection.show(f"#/runs/{inspection.filled.open_run}")
    for button in ("Stop", "Kill now"):
        await page.click(".head button", button)
        await inspection.inspect_dialog(button)
    await inspection.show("#/installation")
    for button in ("Set a limit", "Pause"):
        await page.click(".actions.right button", button)
        await inspection.inspect_dialog(button)
    inspection.end()


async def test_neither_chosen_runs_nor_tasks_in_time_have_a_violation(inspection: Inspection) -> None:
    page, filled = inspection.page, inspection.filled
    await inspection.show("#/")
    for run in (filled.open_run, filled.stopping_run):
        await page.click(f".runs [data-key='{run}'] input.choice")
    await page.until("document.querySelector('.bulk').innerText.includes('2 selected')")
    await inspection.inspect("chosen runs")
    await page.click(".bulk button", "Stop")
    await inspection.inspect_dialog("stop of chosen runs")
    await inspection.show(f"#/runs/{filled.open_run}")
    await page.click("section .chip", "Gantt")
    await page.until("document.querySelector('.chart:not([hidden])').children.length > 0")
    await inspection.inspect("tasks in time")
    inspection.end()


async def test_the_token_form_has_no_violation(inspection: Inspection) -> None:
    page = inspection.page
    await page.evaluate("void document.dispatchEvent(new Event('token-needed'))")
    await page.until("document.querySelector('#token')")
    await inspection.inspect("token")
    await page.evaluate(f"location.hash = '#token={inspection.filled.token}'")
    await page.until(IS_LIVE)
    inspection.end()


async def test_no_page_has_a_violation_on_a_phone(inspection: Inspection, dark: bool) -> None:
    await inspection.page.look_like(390, 780, dark=dark, mobile=True)
    runs = [place for place in inspection.filled.ready if place.startswith("#/runs/")]
    await inspection.inspect_pages("#/", *runs, *FLOWS)
    inspection.end()
