"""axe-core finds no violation on any page, in light and in dark."""

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from crawler_lifecycle.contract.states import TaskStatus
from tests.browser.chromium import Page
from tests.browser.shelf import MARKS, Shelf
from tests.contracts.flows import failing
from tests.contracts.managers import item, managed
from tests.databases import missing

pytestmark = MARKS
FOLDER = Path(__file__).with_name("axe")
RULES = (
    "{resultTypes: ['violations'], runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']}"
)
VIOLATIONS = f"""axe.run(document, {RULES}).then(({{violations}}) => violations.flatMap(({{id, nodes}}) =>
    nodes.map(({{html, failureSummary}}) => `${{id}}: ${{html.slice(0, 200)}} ${{failureSummary}}`)))"""
PAGES = {
    "#/": "document.querySelector('.runs tbody tr')",
    "#/?listed=STOPPED&requested_by=nobody": "document.querySelector('.empty a')",
    "#/flows": "document.querySelector('.flows tbody tr')",
    "#/flows/broken?view=ledger&job=a": "document.querySelector('.jobs .below')",
    "#/flows/broken?view=graph": "document.querySelector('.box')",
    "#/flows/broken?view=time": "document.querySelector('.panel, .chart')",
    "#/flows/shops?view=items": "document.querySelector('.boxed tbody tr')",
    "#/crawlers/books": "document.querySelector('.columns-of i')",
    "#/schedules": "document.querySelector('h1')",
    "#/audits": "document.querySelector('h1')",
    "#/installation": "document.querySelector('.limits tbody tr')",
}


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


@pytest.fixture(scope="module")
def pages(shelf: Shelf) -> dict[str, str]:
    """Fill the shelf; return what to wait for, by address."""
    good = shelf.ended([None, None], TaskStatus.SUCCEEDED)
    bad = shelf.ended([None], TaskStatus.FAILED, "exit_2")
    shelf.stopped()
    shelf.begun(3)
    failing(shelf.database, "broken")
    managed(shelf.database, "shops").commit(item("a"), item("b"))
    over = "document.querySelector('.tasks tbody tr').checkVisibility()"
    return PAGES | {
        f"#/runs/{good.run_id}": over,
        f"#/runs/{bad.run_id}?open=0": f"{over} && document.querySelector('pre.log')",
    }


async def violations(page: Page, axe: str) -> Sequence[str]:
    if not await page.evaluate("Boolean(window.axe)"):
        await page.evaluate(axe + ";true")
    problems: Any = await page.evaluate(VIOLATIONS)
    return list(problems)


@pytest.mark.parametrize("dark", [False, True])
async def test_no_page_has_a_violation(shelf_page: Page, axe: str, pages: dict[str, str], dark: bool) -> None:
    page = shelf_page
    await page.look_like(1280, 900, dark=dark)
    problems = list[str]()
    for place, ready in pages.items():
        await page.evaluate(f"location.hash = '{place}'")
        await page.until(ready)
        if of_page := await violations(page, axe):
            problems += [f"{place} {problem}" for problem in of_page]
    await page.press("n")
    await page.until("document.querySelector('dialog[open]')")
    if of_page := await violations(page, axe):
        problems += [f"start {problem}" for problem in of_page]
    await page.press("Escape")
    assert not problems, "\n".join(problems)
