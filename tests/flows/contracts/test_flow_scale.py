"""Large flows: the number of statements grows with pages, and not with members."""

import pytest

from crawler_lifecycle.database.database import Database
from crawler_lifecycle.flows import Workflow, crawl
from crawler_lifecycle.flows.rules.messages import AttemptRef
from crawler_lifecycle.flows.rules.plan import MemberChange
from crawler_lifecycle.model.flow_states import MemberState
from tests.kit.authors.work import item_and_context, plain, with_context
from tests.kit.data.flows import MINUTE, pushed, rows_of
from tests.kit.data.statements import counted

MEMBERS = 10_000
PAGES = MEMBERS // 1000


def fan_out(members: int, flow: str = "large") -> Workflow:
    workflow = Workflow(id=flow).add("first", plain).add_cascade("last", with_context, deps="first")
    return workflow.add_cascade("many", (list(range(members - 2)), item_and_context), deps="first")


@pytest.mark.sequences
def test_ten_thousand_members_need_statements_by_pages(database: Database) -> None:
    with counted(database) as statements:
        flow = pushed(database, fan_out(MEMBERS))
    inserts = [text for text in statements if text.startswith("INSERT INTO flow_members")]
    assert len(inserts) == PAGES
    assert len(statements) <= PAGES + 15
    with counted(database) as statements:
        assert not flow.push(fan_out(MEMBERS)).changed
    assert len(statements) <= 10
    with counted(database) as statements:
        page = flow.read()
        rest = flow.read(after_member=4999)
    assert (len(rows_of(page)), page.has_more) == (5000, True)
    assert (len(rows_of(rest)), rest.has_more) == (5000, False)
    assert rows_of(rest)[-1].number == MEMBERS - 1
    changes = [
        MemberChange(row, row._replace(state=MemberState.AVAILABLE, cause=None))
        for row in (*rows_of(page), *rows_of(rest))
        if row.state is MemberState.SUSPENDED
    ]
    with counted(database) as statements:
        assert flow.write(*changes, door=1)
    assert len(statements) <= PAGES + 5
    with counted(database) as statements:
        assert flow.cancel().count == MEMBERS
        assert flow.retry().count == MEMBERS
    assert len(statements) <= 2 * (PAGES + 12)
    with counted(database) as statements:
        assert len(flow.ledger.members) == MEMBERS
    assert len(statements) <= 12


@pytest.mark.parametrize("members", [60, 1500])
def test_a_slice_costs_the_same_in_any_flow(database: Database, members: int) -> None:
    flow = pushed(database, fan_out(members))
    flow.begin()
    starts = [AttemptRef(number=number, generation=1, attempt=1) for number in range(50)]
    flow.store.step_ledger.renew("host", MINUTE)
    with counted(database) as statements:
        assert len(flow.store.step_ledger.begin(flow.flow, 1, starts, "host", "host").mine) == 50
    assert len(statements) <= 10
    with counted(database) as statements:
        assert len(flow.end(*starts, result='"text"')) == 50
    assert len(statements) <= 8
    with counted(database) as statements:
        assert flow.store.step_ledger.inputs(flow.uid, 40).sources == {"first": 0}
    assert len(statements) <= 8


def test_a_thousand_crawls_start_with_statements_by_pages(database: Database) -> None:
    workflow = Workflow(id="crawls").add_many("many", [crawl("books")] * 1000)
    flow = pushed(database, workflow)
    flow.begin()
    starts = [AttemptRef(number=number, generation=1, attempt=1) for number in range(1000)]
    with counted(database) as statements:
        assert len(flow.start_crawls(*starts, door=1).crawls) == 1000
    assert len(statements) <= 15
    with counted(database) as statements:
        assert len(flow.store.flow_ledger.crawls_to_stop(flow.flow, range(1000))) == 1000
    assert len(statements) <= 6
