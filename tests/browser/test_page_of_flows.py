"""Flows on the page: progress, a live graph with boxes of many, and the ledger that names what failed."""

from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import pytest
from sqlalchemy import select, update

from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.database.flow_schema import flow_members, flows
from crawler_lifecycle.flows import Workflow, crawl
from crawler_lifecycle.flows.authors.building import fragment_of
from crawler_lifecycle.flows.model.definition import FlowDefinition, GroupDefinition, Need
from crawler_lifecycle.flows.model.requests import GraftMembers, PushFlow
from tests.browser.chromium import Page
from tests.browser.flow_shapes import diamond
from tests.browser.shelf import MARKS, TEMPORAL_UI, Shelf
from tests.kit.authors.work import plain
from tests.kit.data.flows import failing, pushed
from tests.kit.waiting import eventually

pytestmark = MARKS
BOX = "[...document.querySelectorAll('.box')].find((box) => box.title.startsWith('%s'))"
ACROSS = "(%s).getBoundingClientRect().left"
LINES = "document.querySelector('.graph path').getAttribute('d').split('M').length - 1"
JOBS = "[...document.querySelectorAll('.jobs button.open')].map((job) => job.textContent).join()"
WIDE = 1000
LAYERS, ACROSS_A_LAYER = 13, 80
DEEP = 40  # layers
LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def page(shelf_page: Page) -> Page:
    return shelf_page


def write(shelf: Shelf, flow: str, names: list[str], **values: Any) -> None:
    member = flow_members.c
    numbers = SqlStore(shelf.database).flow_records.numbers(flow, names).values()
    with shelf.database.transaction() as connection:
        owner = connection.scalar(select(flows.c.id).where(flows.c.flow_id == flow))
        chosen = update(flow_members).where(member.flow == owner, member.number.in_(numbers))
        connection.execute(chosen.values(**values))


def wide(name: str) -> Workflow:
    flow = Workflow("wide", id=name).add("list", plain)
    for number in range(WIDE):
        flow.add(f"site-{number}", plain, deps="list")
    return flow.add("merge", plain, deps=[f"site-{number}" for number in range(WIDE)])


def woven(name: str) -> Workflow:
    """Return a flow in which no two jobs of a layer are alike."""
    flow = Workflow("woven", id=name)
    for layer in range(LAYERS):
        for place in range(ACROSS_A_LAYER):
            before = [f"job {layer - 1} {near % ACROSS_A_LAYER}" for near in (place, place + 1)] if layer else None
            flow.add(f"job {layer} {place}", crawl(f"shop-{place}"), deps=before)
    return flow


async def test_a_flow_is_drawn_and_redrawn_as_it_goes_on(page: Page, shelf: Shelf) -> None:
    pushed(shelf.database, diamond("shop/diamond one"))
    await page.evaluate("location.hash = '#/flows'")
    await page.until_text("0/4", "1 available, 3 suspended")
    await page.click(".flows a", "shop/diamond one")
    await page.until("document.querySelectorAll('.box').length === 4")
    assert await page.evaluate(LINES) == 4
    places = [await page.evaluate(ACROSS % (BOX % name)) for name in ("fetch", "left", "join")]
    assert places == sorted(places)
    assert len(set(places)) == 3, "a layer for each step"
    write(shelf, "shop/diamond one", ["fetch"], state="executing")
    await page.until(f"({BOX % 'fetch'}).dataset.status === 'executing'")
    await page.evaluate(f"({BOX % 'fetch'}).focus()")
    write(shelf, "shop/diamond one", ["left"], state="executing")
    await page.until(f"({BOX % 'left'}).dataset.status === 'executing'")
    assert await page.evaluate(f"document.activeElement === {BOX % 'fetch'}"), "the focus survives the drawing"
    await page.press("Enter")
    await page.until_text("Attempts", "none yet")
    assert await page.evaluate("location.hash") == "#/flows/shop%2Fdiamond%20one?view=ledger&job=fetch"


async def test_groups_that_need_each_other_are_drawn_side_by_side(page: Page, shelf: Shelf) -> None:
    """A column without a box gave the picture no height."""
    (job,) = Workflow("circle").add("job", plain).definition().members
    needs = {"one/a": (), "two/b": ("one/a",), "one/c": ("two/b",)}
    members = tuple(
        job.model_copy(update={"path": path, "needs": tuple(Need(on=(on,)) for on in needed)})
        for path, needed in needs.items()
    )
    groups = (GroupDefinition(path="one"), GroupDefinition(path="two"))
    definition = FlowDefinition(id="circle", groups=groups, members=members)
    SqlStore(shelf.database).flow_doors.push(PushFlow(definition=definition))
    await page.evaluate("location.hash = '#/flows/circle?view=graph'")
    await page.until("document.querySelectorAll('.box').length === 2")
    assert "NaN" not in await page.evaluate("document.querySelector('.graph').outerHTML")


async def test_sub_workflows_and_collections_stand_between_what_they_need_and_what_needs_them(
    page: Page, shelf: Shelf
) -> None:
    inner = Workflow().add("one", plain).add("two", plain, deps="one").add_many("more", [plain] * 2, deps="two")
    flow = Workflow(id="nested").add("first", plain).add_workflow("inner", inner, deps="first")
    pushed(shelf.database, flow.add("last", plain, deps="inner"))
    await page.evaluate("location.hash = '#/flows/nested?view=graph'")
    await page.until("document.querySelectorAll('.box').length === 3")
    assert await in_columns(page, "first", "inner", "last") == 3
    assert await page.evaluate(LINES) == 2
    await page.evaluate(f"({BOX % 'inner'}).click()")
    await page.until("document.querySelectorAll('.box').length === 5")
    assert await in_columns(page, "first", "inner/one", "inner/two", "inner/more", "last") == 5
    assert await page.evaluate(LINES) == 4, "only the last boxes of the sub-workflow lead to its dependent"


async def test_a_graft_stands_behind_its_grafter(page: Page, shelf: Shelf) -> None:
    graph = Workflow(id="grafted").add("seed", plain).add_graft("parts", plain, deps="seed")
    flow = pushed(shelf.database, graph.add("merge", plain, deps="parts"))
    flow.go_on()
    flow.end(flow.last("seed"))
    flow.go_on()
    fragment = fragment_of(Workflow().add("a", plain).add("b", plain))
    flow.store.flow_doors.graft(
        flow.uid, GraftMembers(grafter="parts", generation=1, attempt=1, fragment=fragment, context={})
    )
    await page.evaluate("location.hash = '#/flows/grafted?view=graph'")
    await page.until("document.querySelectorAll('.box').length === 4")
    assert await in_columns(page, "seed", "parts plain", "parts:", "merge") == 4
    assert await page.evaluate(LINES) == 3


async def in_columns(page: Page, *boxes: str) -> int:
    """Return the number of columns with these boxes. Raise AssertionError unless they stand from left to right."""
    places = [await page.evaluate(ACROSS % (BOX % name)) for name in boxes]
    assert places == sorted(places), places
    return len(set(places))


async def test_many_alike_are_one_box_and_the_ledger_names_the_few_that_failed(page: Page, shelf: Shelf) -> None:
    pushed(shelf.database, wide("wide"))
    failed = [f"site-{number}" for number in (7, 70, 700, 77, 770, 777, 999)]
    write(shelf, "wide", failed, state="discarded", reason="exit 3: banned")
    await page.evaluate("location.hash = '#/flows/wide?view=graph'")
    await page.until("document.querySelectorAll('.box').length === 3")
    assert await page.evaluate("document.querySelectorAll('.box')[1].title") == ("plain: 7 failed, 993 suspended")
    await page.click("[aria-label=View] .chip", "Jobs")
    await page.click(".ledger .chip", "failed")
    await page.until(f"{JOBS} === 'site-7,site-70,site-77,site-700,site-770,site-777,site-999'")
    await page.until_text("exit 3: banned")
    await page.evaluate("document.querySelector('.ledger input[type=search]').focus()")
    await page.type("77")
    await page.until(f"{JOBS} === 'site-77,site-770,site-777'")
    await page.reload()
    await page.until(f"{JOBS} === 'site-77,site-770,site-777'")


async def test_jobs_are_found_by_their_label(page: Page, shelf: Shelf) -> None:
    flow = Workflow(id="labelled").add("north", crawl("toys", label="site:north.example"))
    pushed(shelf.database, flow.add("south", crawl("toys", label="site:south.example")).add("end", plain))
    await page.evaluate("location.hash = '#/flows/labelled?view=ledger'")
    await page.until(f"{JOBS} === 'north,south,end'")
    await page.until_text("site:north.example")
    await page.evaluate("document.querySelector('.ledger input[type=search]').focus()")
    await page.type("SITE:SOUTH")
    await page.until(f"{JOBS} === 'south'")


async def test_a_deep_graph_is_drawn(page: Page, shelf: Shelf) -> None:
    """The key of jobs that are alike grew twofold with each layer: forty layers of two jobs were never drawn."""
    flow = Workflow("ladder", id="ladder")
    for layer in range(DEEP):
        before = [f"{side} {layer - 1}" for side in ("left", "right")] if layer else None
        for side in ("left", "right"):
            flow.add(f"{side} {layer}", crawl(side), deps=before)
    pushed(shelf.database, flow)
    await page.evaluate("location.hash = '#/flows/ladder?view=graph'")
    await page.until(f"document.querySelectorAll('.box').length === {2 * DEEP}", patience=20)


async def test_jobs_of_a_layer_are_a_box_where_no_two_jobs_are_alike(page: Page, shelf: Shelf) -> None:
    pushed(shelf.database, woven("woven"))
    write(shelf, "woven", ["job 3 7"], state="discarded")
    await page.evaluate("location.hash = '#/flows/woven'")
    await page.until(f"document.querySelectorAll('.box').length === {LAYERS}")
    fourth = BOX % "jobs in layer 4:"
    assert await page.evaluate(f"({fourth}).title") == f"jobs in layer 4: 1 failed, {ACROSS_A_LAYER - 1} suspended"
    assert await page.evaluate(f"({fourth}).dataset.status") == "discarded"
    assert await page.evaluate(LINES) == LAYERS - 1
    await page.evaluate(f"({fourth}).click()")
    await page.until(f"document.querySelectorAll('.box').length === {LAYERS - 1 + ACROSS_A_LAYER}")
    await page.evaluate(f"({BOX % 'job 3 7 '}).click()")
    await page.until("location.hash === '#/flows/woven?view=ledger&job=job+3+7'")


async def test_a_job_is_retried_where_it_stands(page: Page, shelf: Shelf) -> None:
    failing(shelf.database, "nightly")
    await page.evaluate("location.hash = '#/flows/nightly?view=ledger&job=a'")
    await page.until_text("no such table", "attempt 1")
    await page.click("tr[data-key=a] .act button", "Retry")
    await page.until("document.querySelector('tr[data-key=a] .pill').textContent === 'available'")
    await page.click("button", "Pause")
    await page.until("document.querySelector('.head .pill').textContent === 'paused'")


async def test_an_approval_is_given_where_it_stands(page: Page, shelf: Shelf) -> None:
    pushed(shelf.database, Workflow("asks", id="asks").add_approval("go", note="may we?").add("work", plain, deps="go"))
    await page.evaluate("location.hash = '#/flows/asks?view=ledger'")
    await page.click("tr[data-key=go] .act button", "Approve")
    await page.click("[aria-label=View] .chip", "Events")
    await page.until("document.querySelector('.timeline').textContent.includes('approved')")


async def test_an_approval_is_given_in_its_box(page: Page, shelf: Shelf) -> None:
    pushed(shelf.database, Workflow("box", id="box").add_approval("go").add("work", plain, deps="go")).go_on()
    await page.evaluate("location.hash = '#/flows/box?view=graph'")
    await page.click(".box.decide button", "Approve")
    records = SqlStore(shelf.database).flow_records
    await eventually(
        lambda: next(job for job in records.kept("box").ledger.members.values() if job.kind == "approval").decision
    )


async def test_a_graph_is_drawn_larger_smaller_and_to_fit(page: Page, shelf: Shelf) -> None:
    pushed(shelf.database, diamond("zoomed"))
    await page.evaluate("location.hash = '#/flows/zoomed?view=graph'")
    await page.until("document.querySelectorAll('.box').length === 4")
    width = "Math.round(document.querySelector('.box').getBoundingClientRect().width)"
    before = await page.evaluate(width)
    await page.click("[aria-label='Zoom in']", "+")
    assert await page.evaluate(width) == pytest.approx(1.25 * before, abs=1)
    await page.click(".chip", "Fit")
    assert await page.evaluate(width) == before, "all of it is in sight, and no larger than before"


async def test_an_approval_is_asked_for_at_the_top_and_in_the_list(page: Page, shelf: Shelf) -> None:
    sub = Workflow().add_approval("go").add("work", plain, deps="go")
    pushed(shelf.database, Workflow("person", id="person").add_workflow("release", sub))
    await page.evaluate("location.hash = '#/flows'")
    await page.until_text("a decision about release/go")
    await page.evaluate("location.hash = '#/flows/person'")
    await page.until("document.querySelectorAll('.box').length === 1")
    await page.until("document.querySelector('.asks').textContent.includes('release/go waits for a decision')")
    await page.click(".asks button", "Approve")
    records = SqlStore(shelf.database).flow_records
    await eventually(lambda: records.kept("person").ledger.members[0].decision is True)


@pytest.mark.parametrize("width", [390, 720, 721, 768, 940, 1024])
async def test_the_list_of_flows_fits_its_window(page: Page, shelf: Shelf, width: int) -> None:
    """Between 721 and 800 pixels, the list was cut off, and the words about its jobs had no room."""
    asks = Workflow("asks for long", id=f"a-flow-that-is-waiting-for-a-decision-at-the-width-of-{width}")
    approval = "release-of-all-the-books-of-the-world"
    pushed(shelf.database, asks.add_approval(approval).add("work", plain, deps=approval))
    try:
        await page.look_like(width, 900)
        await page.evaluate("location.hash = '#/flows'")
        await page.until(f"document.querySelector('.flows a[href*=\"{asks.id}\"]')")
        assert await page.evaluate("document.documentElement.scrollWidth") <= width
        assert await page.evaluate("document.querySelector('.flows').scrollWidth") <= width
        assert int(str(await page.evaluate("document.querySelector('.flows td.why').clientWidth"))) > 100
        name = "document.querySelector('.flows td').clientWidth"
        assert width != 390 or int(str(await page.evaluate(name))) > 220, "beside the state, as wide as there is room"
    finally:
        await page.look_like(1280, 900)


async def test_a_flow_without_a_worker_says_so_at_the_top(page: Page, shelf: Shelf) -> None:
    pushed(shelf.database, Workflow("still", id="still").add("a", plain).add("b", plain, deps="a"))
    write(shelf, "still", ["a"], state="completed")
    write(shelf, "still", ["b"], since=LONG_AGO)
    await page.evaluate("location.hash = '#/flows/still'")
    await page.until("document.querySelector('.asks').textContent.includes('no worker continues the flow')")


async def test_a_chain_fits_the_page_and_a_longer_one_shows_that_it_goes_on(page: Page, shelf: Shelf) -> None:
    frame = "document.querySelector('[aria-label=Graph]')"
    for length, is_cut in ((7, False), (12, True)):
        chain = Workflow("chain", id=f"chain of {length}").add("0", plain)
        for number in range(1, length):
            chain.add(str(number), plain, deps=str(number - 1))
        pushed(shelf.database, chain)
        await page.evaluate(f"location.hash = '#/flows/{quote(chain.id)}'")
        await page.until(f"document.querySelectorAll('.box').length === {length}")
        assert await page.evaluate(f"{frame}.scrollWidth > {frame}.clientWidth") is is_cut
        assert await page.evaluate(f"{frame}.classList.contains('more')") is is_cut


async def test_a_line_over_two_layers_passes_beside_the_box_between(page: Page, shelf: Shelf) -> None:
    flow = Workflow("over", id="over").add("books", plain).add("shops", plain, deps="books")
    pushed(shelf.database, flow.add("count", plain, deps=["books", "shops"]))
    await page.evaluate("location.hash = '#/flows/over'")
    await page.until("document.querySelectorAll('.box').length === 3")
    assert await page.evaluate(LINES) == 3
    lines = str(await page.evaluate("document.querySelector('.graph path').getAttribute('d')")).split("M")[1:]
    (beside,) = (line for line in lines if "H" in line)
    passes_at = float(beside.partition("H")[0].split()[-1])
    middle = "(({top, height}) => top + height / 2)(%s.getBoundingClientRect())"
    svg = await page.evaluate("document.querySelector('.graph svg').getBoundingClientRect().top")
    shops = float(str(await page.evaluate(middle % f"({BOX % 'shops'})"))) - float(str(svg))
    assert abs(passes_at - shops) > 21, "half a box"


async def test_the_box_of_a_failed_job_says_why(page: Page, shelf: Shelf) -> None:
    failing(shelf.database, "red")
    await page.evaluate("location.hash = '#/flows/red?view=graph'")
    await page.until(f"({BOX % 'a'})?.textContent.includes('no such table')")
    assert await page.evaluate("document.title") == "failed \u00b7 red"
    await page.evaluate("location.hash = '#/flows/red?view=ledger&job=c'")
    await page.until("document.querySelector('.below .events').textContent.includes('a failed: no such table')")
    await page.evaluate("location.hash = '#/flows/red?view=time'")
    await page.until("document.querySelector('.track [data-status=discarded]')?.title.startsWith('a failed: ')")


async def test_a_cancel_and_a_rejection_are_confirmed(page: Page, shelf: Shelf) -> None:
    """A click ended a crawl, or cancelled all jobs that needed an approval."""
    flow = Workflow("ends", id="ends").add("a", plain).add_approval("go").add_approval("no").add("b", plain, deps="no")
    pushed(shelf.database, flow)
    write(shelf, "ends", ["a"], state="executing")
    records = SqlStore(shelf.database).flow_records

    def ended_jobs() -> set[str]:
        ledger = records.kept("ends").ledger
        named = {path: ledger.members[number] for path, number in ledger.paths_of_members().items()}
        return {path for path, member in named.items() if member.state == "cancelled" or member.decision is False}

    await page.evaluate("location.hash = '#/flows/ends?view=ledger'")
    await page.click("tr[data-key=a] .act button", "Cancel")
    await page.until_text(
        "Cancel a?", "It is asked to end, also a crawl under way. Jobs that need it are cancelled, too."
    )
    await page.press("Escape")
    await page.until("!document.querySelector('dialog')")
    await page.click("tr[data-key=no] .act button", "Reject")
    await page.until_text("Reject no?", "Jobs that need its approval are cancelled.")
    assert ended_jobs() == set()
    await page.click("dialog button", "Reject")
    await eventually(lambda: ended_jobs() == {"no"})
    await page.click(".asks button", "Reject")
    await page.until_text("Reject go?")
    await page.click("dialog button", "Reject")
    await eventually(lambda: ended_jobs() == {"no", "go"})
    await page.click("tr[data-key=a] .act button", "Cancel")
    await page.click("dialog button", "Cancel the job")
    await eventually(lambda: ended_jobs() == {"no", "go", "a"})


async def test_a_completed_job_with_another_outcome_is_amber(page: Page, shelf: Shelf) -> None:
    """A crawl that was banned had a check mark and a green pill."""
    pushed(shelf.database, Workflow("ban", id="banned").add("a", crawl("books")).add("b", crawl("shops"), deps="a"))
    write(shelf, "banned", ["a"], state="completed", outcome="banned_by_site")
    write(shelf, "banned", ["b"], state="completed", outcome="finished")
    await page.evaluate("location.hash = '#/flows/banned?view=graph'")
    await page.until(f"({BOX % 'a'})?.innerText.includes('banned by site')")
    statuses = "[...document.querySelectorAll('.box')].map((box) => box.dataset.status).sort().join()"
    assert await page.evaluate(statuses) == "completed,odd"
    await page.click("[aria-label=View] .chip", "Jobs")
    pills = "[...document.querySelectorAll('.jobs .pill')].map((pill) => pill.dataset.status + pill.innerText).join()"
    await page.until(f"{pills} === 'oddcompleted,completedcompleted'")
    assert "banned by site" in await page.evaluate("document.querySelector('.jobs [data-key=a]').innerText")


async def test_a_drain_and_a_retry_of_all_are_confirmed(page: Page, shelf: Shelf) -> None:
    failing(shelf.database, "asked")
    records = SqlStore(shelf.database).flow_records

    def generation() -> int:
        ledger = records.kept("asked").ledger
        return ledger.members[ledger.paths_of_members()["a"]].generation

    await page.evaluate("location.hash = '#/flows/asked'")
    await page.click(".head button", "Retry what failed")
    await page.click("dialog button", "Cancel")
    await page.until("!document.querySelector('dialog')")
    assert generation() == 1
    await page.click(".head button", "Retry what failed")
    await page.click("dialog button", "Retry")
    await page.until("!document.querySelector('dialog')")
    assert generation() == 2
    await page.click(".head button", "Drain")
    await page.until_text("All jobs that have not started are cancelled.")
    assert records.row("asked")[1].intent == "run"
    await page.click("dialog button", "Drain")
    await page.until("!document.querySelector('dialog')")
    assert records.row("asked")[1].intent == "drain"


async def test_an_unknown_flow_is_called_so(page: Page) -> None:
    await page.evaluate("location.hash = '#/flows/nobody'")
    await page.until_text("there is no flow 'nobody'")


async def test_a_flow_and_a_run_lead_to_temporals_web_ui(page: Page, shelf: Shelf) -> None:
    pushed(shelf.database, diamond("linked"))
    uid = SqlStore(shelf.database).flow_records.uid_of("linked")
    link = "[...document.querySelectorAll('.back a')].find((it) => it.textContent === 'Temporal' && !it.hidden)"
    await page.evaluate("location.hash = '#/flows/linked'")
    await page.until(link)
    assert await page.evaluate(f"{link}.href") == f"{TEMPORAL_UI}/namespaces/default/workflows/flow-{uid}"
    run = shelf.stopped()
    await page.evaluate(f"location.hash = '#/runs/{run.run_id}'")
    await page.until(f"{link}.href === '{TEMPORAL_UI}/namespaces/default/workflows/{run.workflow_id}'")
