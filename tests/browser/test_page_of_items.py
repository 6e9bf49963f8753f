"""The page shows a crawl manager's items, retries those that failed, and tells why a manager is paused."""

import pytest

from crawler_lifecycle.flows.model.definition import MemberDefinition, Need, StepWork
from crawler_lifecycle.flows.model.turns import FILTERED_PROBLEM
from crawler_lifecycle.managers.store import finding
from crawler_lifecycle.model.manager_items import CodeProblem, Item, Verdict
from crawler_lifecycle.model.states import RunStatus
from tests.browser.chromium import Page
from tests.browser.shelf import MARKS, Shelf
from tests.kit.data.managers import Managed, item, managed

pytestmark = MARKS
FAILURE = CodeProblem(phase="bad_outcome_hook", job="key", error="Traceback\nKeyError: 'shop'", failures=5)
ITEMS = "[...document.querySelectorAll('.boxed tbody tr')].map((row) => row.children[0].textContent).join()"

BUTTONS = """[...document.querySelectorAll('.boxed tbody tr')].map((row) =>
    [...row.querySelectorAll('button')].map((button) => button.textContent).join(', '))"""


@pytest.fixture
def page(shelf_page: Page) -> Page:
    return shelf_page


def forty(shelf: Shelf, name: str) -> Managed:
    """Return a manager with forty items: of the first nine, the third and the seventh have failed."""
    flow = managed(shelf.database, name)
    flow.commit(*(item(f"shop-{number}") for number in range(1, 41)))
    for number in range(1, 10):
        is_bad = number in (3, 7)
        flow.ended_run(flow.started(number), RunStatus.FAILED if is_bad else RunStatus.COMPLETED)
        flow.react(flow.ended()[0], Verdict.BAD if is_bad else Verdict.OK)
    return flow


async def test_the_few_that_failed_are_named_and_retried_in_place(page: Page, shelf: Shelf) -> None:
    flow = forty(shelf, "shops/november")
    await page.evaluate("location.hash = '#/flows'")
    await page.until_text("7 items so far", "2 failed")
    await page.click(".flows a", "shops/november")
    await page.until(f"{ITEMS}.startsWith('1,2,3,4')")
    await page.until("document.querySelector('.waits').textContent.startsWith('9 of 40 items so far, 2 failed')")
    parts = "[...document.querySelectorAll('.meter.wide i')].map((part) => part.dataset.status).join()"
    meter = "getComputedStyle(document.querySelector('.meter.wide')).display"
    assert await page.evaluate(meter) == "none", "more items may come: there is no total"
    flow.offer(is_exhausted=True)
    await page.until("document.querySelector('.waits').textContent.startsWith('9 of 40 items over (22 %), 2 failed')")
    assert await page.evaluate(meter) == "flex"
    assert await page.evaluate(parts) == "completed,failed,"
    await page.click(".ledger .chip", "failed")
    await page.until(f"{ITEMS} === '3,7'")
    assert await page.evaluate("location.hash") == "#/flows/shops%2Fnovember?item=failed"
    run = await page.evaluate("document.querySelector('.boxed td[data-label=Run] a').getAttribute('href')")
    assert str(run).startswith("#/runs/")
    await page.click(".boxed [data-key='3'] button", "Retry")
    await page.until(f"{ITEMS} === '7'")
    assert [entry.number for entry in flow.waiting(100)][:1] == [3]
    await page.click(".ledger button", "Retry all that failed")
    await page.click("dialog button", "Retry 1 item")
    await page.until_text("No such items.")
    await page.click(".ledger .chip", "waiting")
    await page.until(f"{ITEMS}.startsWith('3,7,10')")
    await page.click(".boxed [data-key='10'] button", "Cancel")
    await page.until_text("Cancel 1 item?", "What is cancelled is never crawled, unless somebody retries it.")
    assert 10 in [entry.number for entry in flow.waiting(100)]
    await page.click("dialog button", "Cancel 1 item")
    await page.until(f"{ITEMS}.startsWith('3,7,11')")


async def test_the_picture_of_a_graph_shows_the_items_of_its_manager(page: Page, shelf: Shelf) -> None:
    work = StepWork(function="m:deliver")
    deliver = MemberDefinition(path="deliver", work=work, needs=(Need(on=("manager",)),))
    flow = managed(shelf.database, "shops/graph", dependents=(deliver,))
    flow.commit(item("north"), item("south"))
    await page.evaluate("location.hash = '#/flows/shops%2Fgraph?view=graph'")
    box = "[...document.querySelectorAll('.box')].find((box) => box.title.startsWith('manager')).textContent"
    await page.until(f"{box}.includes('0 of 2 items')")
    assert await page.evaluate("document.querySelectorAll('.box').length") == 2
    flow.ended_run(flow.started(1), RunStatus.COMPLETED)
    flow.react(flow.ended()[0])
    await page.until(f"{box}.includes('1 of 2 items')")
    await page.click(".chip", "Items")
    await page.until_text("1 of 2 items so far, 0 failed")


async def test_refused_items_are_dismissed_and_corrected_unless_the_managers_filter_refused_them(
    page: Page, shelf: Shelf
) -> None:
    """A cancel and a retry of items that the filter had refused led nowhere."""
    flow = managed(shelf.database, "shops/refused")
    nameless = [{"spider": "", "spider_args": {"shop": shop}} for shop in ("a", "b")]
    flow.commit(
        *(Item(override=override, problem="the parameters name no spider") for override in nameless),
        Item(override={"spider": "books"}, problem=FILTERED_PROBLEM, is_filtered=True),
    )
    await page.evaluate("location.hash = '#/flows/shops%2Frefused?item=refused'")
    await page.until(f"{ITEMS} === '1,2,3'")
    both = "Correct \u2026, Dismiss"
    assert await page.evaluate(BUTTONS) == [both, both, ""]
    await page.click(".boxed [data-key='1'] button", "Dismiss")
    await page.until(f"{ITEMS} === '2,3'")
    await page.click(".boxed [data-key='2'] button", "Correct")
    await page.until("document.querySelector('#correct-arguments').value === 'shop=b'")
    await page.type("books")
    await page.press("Enter")
    await page.until(f"{ITEMS} === '3' && !document.querySelector('dialog')")
    (again,) = flow.waiting()
    assert (again.number, again.request.crawler, again.request.arguments) == (2, "books", {"shop": "b"})
    await page.click(".ledger .chip", "cancelled")
    await page.until(f"{ITEMS} === '1'")
    assert await page.evaluate(BUTTONS) == ["Correct \u2026"], "there is nothing that could be tried again"


async def test_a_cancel_of_all_that_wait_asks(page: Page, shelf: Shelf) -> None:
    """A click cancelled thousands of items, and nothing could take it back."""
    flow = forty(shelf, "shops/many")
    await page.evaluate("location.hash = '#/flows/shops%2Fmany?item=waiting'")
    await page.evaluate("performance.clearResourceTimings()")  # an earlier test has cancelled an item
    await page.click(".ledger button", "Cancel all that wait")
    await page.until_text("Cancel 31 items?", "never crawled, unless somebody retries it. Running items continue.")
    assert not await page.evaluate(
        "performance.getEntriesByType('resource').some((it) => it.name.includes('cancel-items'))"
    )
    await page.press("Escape")
    await page.until("!document.querySelector('dialog')")
    assert len(flow.waiting(100)) == 31
    await page.click(".ledger button", "Cancel all that wait")
    await page.click("dialog button", "Cancel 31 items")
    await page.until_text("No such items.")
    assert flow.waiting(100) == []


async def test_items_are_found_by_label_and_outcome(page: Page, shelf: Shelf) -> None:
    forty(shelf, "shops/labels")
    await page.evaluate("location.hash = '#/flows/shops%2Flabels?tag=north'")
    await page.until_text("No such items.")
    await page.evaluate("location.hash = '#/flows/shops%2Flabels?outcome=failed'")
    await page.until(f"{ITEMS} === '3,7'")


async def test_a_paused_manager_shows_its_traceback_and_goes_on(page: Page, shelf: Shelf) -> None:
    flow = forty(shelf, "shops/paused")
    flow.managers.pause(flow.mine, FAILURE)
    await page.evaluate("location.hash = '#/flows/shops%2Fpaused'")
    await page.until_text("The manager is paused", "KeyError: 'shop'")
    await page.click(".ledger button", "Resume")
    await page.until("!document.querySelector('main').innerText.includes('KeyError')")
    assert flow.managers.problem(flow.mine) is None


async def test_items_are_searched_page_after_page(page: Page, shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finding, "MOST_READ", 3)
    flow = forty(shelf, "shops/search")
    rare = item("rare")
    assert rare.request is not None
    flow.commit(rare.model_copy(update={"request": rare.request.model_copy(update={"tags": ["rare"]})}), call="rare")
    await page.evaluate("location.hash = '#/flows/shops%2Fsearch?tag=rare'")
    await page.until_text("None so far.")
    await page.click(".pager button", "Next")
    await page.until(f"{ITEMS} === '41'")
