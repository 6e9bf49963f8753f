"""People's requests for the items of a crawl manager, and what they see of the items."""

from datetime import date, timedelta
from typing import Any

import pytest

from crawler_lifecycle.database.database import Database
from crawler_lifecycle.errors import BadInput, Conflict, Fenced, NotFound
from crawler_lifecycle.flows import Workflow
from crawler_lifecycle.flows.model.definition import CallForm, StepWork
from crawler_lifecycle.flows.model.manager_records import OutputLine
from crawler_lifecycle.flows.model.requests import AddItems, CancelItems, ItemFilter, RetryItems
from crawler_lifecycle.flows.model.turns import FILTERED_PROBLEM, Counts, Effects
from crawler_lifecycle.managers.authors.requesting import item_of
from crawler_lifecycle.managers.ports import ManagerRef
from crawler_lifecycle.managers.store.rows import NOT_TRIED_AGAIN
from crawler_lifecycle.model.manager_items import CodeProblem, Item, ItemState, Origin, Verdict
from crawler_lifecycle.model.states import RunStatus
from tests.kit.authors.work import plain
from tests.kit.data.flows import Flow, pushed
from tests.kit.data.managers import MANAGER, Managed, added, begun_again, item, managed, numbers, over, pushed_manager
from tests.kit.data.statements import counted

OPEN_ITEMS = (ItemState.WAITING, ItemState.RUNNING)


@pytest.fixture
def flow(database: Database) -> Managed:
    return managed(database)


def add(flow: Flow, key: str, *names: str) -> int:
    request = AddItems(key=key, items=tuple(item(name, None) for name in names))
    return flow.store.manager_doors.add_items(flow.id, request).count


def retry(flow: Managed, *chosen: int, **fields: object) -> int:
    request = RetryItems.model_validate({"numbers": chosen or None, **fields})
    return flow.store.manager_doors.retry_items(flow.id, request).count


def failed(flow: Managed, *names: str) -> None:
    """Let the items fail for good."""
    flow.offer(*names, read=len(names))
    for number in range(1, len(names) + 1):
        flow.ended_run(flow.started(number), RunStatus.FAILED)
    for job in flow.ended():
        flow.react(job, Verdict.BAD)


def counts(flow: Managed) -> Counts:
    counted = flow.store.manager_doors.statuses(flow.id)[0].counts
    assert counted == flow.managers.counts(flow.mine)
    return counted


def test_items_are_added_once_under_their_key(flow: Managed) -> None:
    flow.offer("a")
    assert [add(flow, "first", "x", "y"), add(flow, "first", "x", "y")] == [2, 0]
    assert numbers(flow.waiting()) == [2, 3, 1]
    (news,) = flow.managers.news("host", flow.begun().first_began_at)
    assert news.items_door == 1
    assert "items added" in flow.events


def test_items_may_come_before_the_manager_begins(database: Database) -> None:
    flow = managed(database, begins=False)
    assert flow.store.manager_doors.statuses(flow.id)[0].counts == Counts()
    assert add(flow, "early", "x") == 1
    begun = flow.begun()
    assert (begun.incarnation, begun.is_closed) == (1, False)
    assert numbers(flow.waiting()) == [1]


def test_a_manager_that_has_ended_takes_no_items(flow: Managed) -> None:
    flow.managers.close(flow.mine, "finished", Effects(), 0)
    with pytest.raises(Conflict, match="has ended"):
        add(flow, "late", "x")


def test_failed_items_are_tried_again_with_other_arguments(flow: Managed) -> None:
    failed(flow, "a", "b")
    assert counts(flow) == Counts(failed=2)
    assert retry(flow, 2, arguments={"depth": 3}) == 1
    (again,) = flow.waiting()
    assert (again.number, again.attempt, again.tries) == (2, 2, 0)
    assert again.request.arguments == {"shop": "b", "depth": "3"}
    assert again.override["spider_args"] == {"depth": 3}
    assert counts(flow) == Counts(failed=1, waiting=1)
    assert [retry(flow), retry(flow)] == [1, 0]


def test_a_retry_brings_a_manager_back_that_has_ended(flow: Managed) -> None:
    failed(flow, "a")
    flow.managers.close(flow.mine, "finished", Effects(), 0)
    flow.end(flow.last("manager"))
    while not flow.go_on().is_empty:
        pass
    assert retry(flow) == 1
    flow.go_on()
    flow.ref_to_manager = ManagerRef(flow.uid, MANAGER, 2, "host")
    assert not flow.begun("child-2").is_closed
    assert numbers(flow.waiting()) == [1]


def test_many_items_are_retried_and_cancelled_with_few_statements(flow: Managed, database: Database) -> None:
    failed(flow, "a", "b", "c")
    flow.offer("d", read=4)
    with counted(database) as single:
        assert retry(flow, 1) == 1
    with counted(database) as several:
        assert retry(flow, 1, 2, 3, 4) == 4, "items that wait are renewed as well"
    assert len(several) <= len(single)
    generations = [record.generation for record in flow.store.manager_doors.items(flow.id, limit=9)]
    assert (generations, counts(flow)) == ([3, 2, 2, 2], Counts(waiting=4))
    with counted(database) as cancels:
        assert flow.store.manager_doors.cancel_items(flow.id, CancelItems()).count == 4
    assert sum("manager_items" in statement for statement in cancels) == 2, "waiting items, and those of a close"
    assert retry(flow, 2, 4, arguments={"depth": 3}) == 2
    assert counts(flow) == Counts(cancelled=2, waiting=2)
    assert [again.request.arguments["depth"] for again in flow.waiting()] == ["3", "3"]


def test_a_retry_between_the_close_and_the_end_of_the_step_is_refused(flow: Managed) -> None:
    failed(flow, "a")
    flow.managers.close(flow.mine, "finished", Effects(), 0)
    with pytest.raises(Conflict, match="retry in a moment"):
        retry(flow, 1)
    assert counts(flow) == Counts(failed=1)
    flow.end(flow.last("manager"))
    assert retry(flow, 1) == 1


def test_a_retry_during_a_stop_waits_for_the_next_attempt(flow: Managed) -> None:
    failed(flow, "a")
    flow.cancel("manager")
    assert retry(flow) == 1
    flow.managers.close(flow.mine, "cancelled", Effects(), 0)
    assert counts(flow) == Counts(waiting=1)


def test_waiting_items_are_cancelled(flow: Managed) -> None:
    flow.offer("a", "b", "c", read=3)
    start = flow.started(1)
    cancel = flow.store.manager_doors.cancel_items
    assert cancel(flow.id, CancelItems(numbers=(1, 2))).count == 1
    assert cancel(flow.id, CancelItems()).count == 1
    assert counts(flow) == Counts(cancelled=2, running=1)
    flow.ended_run(start)
    flow.react(flow.ended()[0])
    assert counts(flow) == Counts(cancelled=2, completed=1)


def test_the_failed_items_are_named(flow: Managed) -> None:
    failed(flow, "a", "b")
    flow.offer("c", read=3)
    items = flow.store.manager_doors.items
    (first,) = items(flow.id, ItemFilter(states=(ItemState.FAILED,)), limit=1)
    assert (first.number, first.state, first.crawler, first.attempt) == (1, ItemState.FAILED, "books", 1)
    assert (first.outcome, first.override) == ("failed", {"shop": "a"})
    assert first.run_id is not None
    assert [record.number for record in items(flow.id, ItemFilter(states=(ItemState.FAILED,)), after=1, limit=9)] == [2]
    assert [record.number for record in items(flow.id, ItemFilter(outcome="failed"), limit=9)] == [1, 2]
    waiting = items(flow.id, after=2, limit=9)[0]
    assert (waiting.number, waiting.run_id, waiting.outcome) == (3, None, None)


def test_items_are_found_by_number_tag_and_label(flow: Managed) -> None:
    tagged = item("a")
    request = tagged.request
    assert request is not None
    tagged = tagged.model_copy(
        update={"request": request.model_copy(update={"tags": ["north"], "labels": ["site:example.com"]})}
    )
    flow.commit(tagged, item("b"), item("c"))
    items = flow.store.manager_doors.items
    assert [record.number for record in items(flow.id, ItemFilter(tag="north"), limit=9)] == [1]
    assert [record.number for record in items(flow.id, ItemFilter(tag="site:example.com"), limit=9)] == [1]
    assert items(flow.id, ItemFilter(tag="nor"), limit=9) == []
    assert [
        record.number
        for record in items(
            flow.id,
            ItemFilter(
                numbers=(
                    3,
                    2,
                    9,
                )
            ),
            limit=9,
        )
    ] == [2, 3]
    (first,) = items(flow.id, ItemFilter(numbers=(1,)), limit=1)
    assert (first.tags, first.labels) == (("north",), ("site:example.com",))


def test_unknown_items_are_refused(flow: Managed) -> None:
    failed(flow, "a")
    with pytest.raises(NotFound, match="no item 7"):
        retry(flow, 1, 7)
    with pytest.raises(NotFound, match="no item 9"):
        flow.store.manager_doors.cancel_items(flow.id, CancelItems(numbers=(9,)))
    assert counts(flow) == Counts(failed=1)


def test_the_managers_of_a_flow_have_numbers_sums_and_problems(flow: Managed) -> None:
    failed(flow, "a", "b")
    flow.offer("c", "c", read=4, is_exhausted=True)
    flow.commit(stats={"items": 3.0}, tags=("north",))
    flow.managers.pause(flow.mine, CodeProblem(phase="on_start", error="ValueError"))
    (status,) = flow.store.manager_doors.statuses(flow.id)
    assert (status.path, status.function, status.arguments) == ("manager", "m:Shops", ("--own", "3"))
    assert status.counts == Counts(failed=2, waiting=1, repeated=1)
    assert (status.read, status.is_exhausted, status.incarnation) == (4, True, 1)
    assert (status.stats["items"], status.tags) == (3.0, ("north",))
    assert status.problem is not None
    sums = flow.store.manager_doors.sums([flow.uid, "another"])
    assert sums.keys() == {flow.uid}
    assert (sums[flow.uid].total, sums[flow.uid].open, sums[flow.uid].failed) == (3, 1, 2)
    assert (sums[flow.uid].repeated, sums[flow.uid].has_problem, sums[flow.uid].is_exhausted) == (1, True, True)


def test_a_manager_before_its_begin_has_no_incarnation(database: Database) -> None:
    flow = managed(database, begins=False)
    (status,) = flow.store.manager_doors.statuses(flow.id)
    assert (status.incarnation, status.counts, status.first_began_at) == (0, Counts(), None)
    assert flow.store.manager_doors.sums([flow.uid]) == {}
    assert pushed(database, Workflow(id="w").add("a", plain)).store.manager_doors.statuses("w") == []


def test_a_second_start_with_other_arguments_is_a_conflict(database: Database) -> None:
    assert managed(database, begins=False).uid == managed(database, begins=False).uid
    with pytest.raises(Conflict, match="has a crawl manager with other arguments: "):
        managed(database, begins=False, arguments=["--own", "4"])


def test_a_resume_clears_a_problem(flow: Managed) -> None:
    flow.managers.pause(flow.mine, CodeProblem(phase="on_start", error="ValueError"))
    assert flow.hold("run").changed
    assert flow.managers.problem(flow.mine) is None
    assert flow.events[-1] == "cleared"
    assert not flow.hold("run").changed


def test_a_flow_without_a_manager_has_no_items(database: Database) -> None:
    flow = pushed(database, Workflow(id="w").add("a", plain))
    with pytest.raises(BadInput, match="no crawl manager"):
        flow.store.manager_doors.items("w", limit=1)
    with pytest.raises(NotFound):
        flow.store.manager_doors.statuses("absent")


def test_crawls_under_way_are_known_for_a_force(flow: Managed) -> None:
    flow.offer("a", "b", "c", read=3)
    starts = [flow.started(number) for number in (1, 2, 3)]
    under_way = flow.run_of(starts[0])
    flow.ended_run(starts[1])
    assert flow.store.manager_doors.runs_under_way(flow.id) == [under_way.run_id]


# corrections


def refused(flow: Managed) -> None:
    """An item without a spider, an item with a bad argument, an item that the manager's own filter holds off."""
    named = {"spider": "books", "spider_args": {"shop": None}}
    flow.commit(
        Item(override={"spider": "", "spider_args": {"shop": "a"}}, problem="the parameters name no spider"),
        Item(override=named, problem="spider_args.shop: expected a text"),
        Item(override={"spider": "books"}, problem=FILTERED_PROBLEM, is_filtered=True),
    )


def cancel(flow: Managed, *chosen: int) -> int:
    return flow.store.manager_doors.cancel_items(flow.id, CancelItems(numbers=chosen or None)).count


def state_of(flow: Managed, number: int) -> tuple[ItemState, str | None]:
    (record,) = flow.store.manager_doors.items(flow.id, ItemFilter(numbers=(number,)), limit=1)
    return record.state, record.problem


def test_refused_items_are_corrected(flow: Managed) -> None:
    refused(flow)
    with pytest.raises(BadInput, match="item 1 is refused: the parameters name no spider; correct its crawler"):
        retry(flow, 1)
    with pytest.raises(BadInput, match=r"item 2: spider_args.shop"):
        retry(flow, 1, 2, spider="books")
    assert counts(flow) == Counts(refused=3), "no item was renewed"
    assert retry(flow, 1, spider="books") == 1
    assert retry(flow, 2, arguments={"shop": "b", "depth": 3}) == 1
    assert counts(flow) == Counts(refused=1, waiting=2)
    first, second = flow.waiting()
    assert (first.request.crawler, first.request.arguments) == ("books", {"shop": "a"})
    assert first.override == {"spider": "books", "spider_args": {"shop": "a"}}
    assert (second.request.crawler, second.request.arguments) == ("books", {"shop": "b", "depth": "3"})
    assert state_of(flow, 1) == (ItemState.WAITING, None)
    for correction in ({}, {"spider": "books"}):
        with pytest.raises(BadInput, match="the manager's own filter left out item 3"):
            retry(flow, 3, **correction)


def test_an_item_whose_parameters_are_not_on_record_is_not_corrected(flow: Managed) -> None:
    """A correction would start the crawler without its arguments."""
    params: Any = {"spider": "books", "day": date(2026, 1, 1)}
    flow.commit(item_of(params, lambda given: given, (), Origin.GENERATOR))
    with pytest.raises(BadInput, match=r"item 1 keeps its wrong parameters \(.* is no JSON: .*\): cancel the item"):
        retry(flow, 1, spider="books")
    assert counts(flow) == Counts(refused=1)
    assert cancel(flow, 1) == 1


def test_an_item_with_a_request_gets_another_crawler(flow: Managed) -> None:
    failed(flow, "a")
    assert retry(flow, 1, spider="others") == 1
    (again,) = flow.waiting()
    assert (again.request.crawler, again.request.arguments, again.override["spider"]) == (
        "others",
        {"shop": "a"},
        "others",
    )


def test_named_items_without_a_change_are_told_with_the_reason(flow: Managed) -> None:
    flow.offer("a", "b", "c", read=3)
    flow.ended_run(flow.started(1))
    (end,) = flow.ended()
    flow.react(end)
    flow.started(2)
    doors = flow.store.manager_doors
    retried = doors.retry_items(flow.id, RetryItems(numbers=(1, 2, 3)))
    assert (retried.count, [unchanged.job for unchanged in retried.left_out]) == (1, ["1", "2"])
    assert retried.left_out[0].reason.startswith("is completed already")
    cancelled = doors.cancel_items(flow.id, CancelItems(numbers=(1, 2, 3)))
    assert cancelled.count == 1
    assert [unchanged.reason.partition(":")[0] for unchanged in cancelled.left_out] == [
        "is completed already",
        "is running",
    ]
    assert doors.cancel_items(flow.id, CancelItems(numbers=(3,))).left_out == (), "a cancel may be repeated"
    assert doors.retry_items(flow.id, RetryItems()).left_out == ()


def test_refused_items_are_dismissed_by_their_numbers(flow: Managed) -> None:
    refused(flow)
    assert [item.is_filtered for item in flow.store.manager_doors.items(flow.id, limit=9)] == [False, False, True]
    assert cancel(flow) == 0, "items that wait are meant"
    assert [cancel(flow, 1, 3), cancel(flow, 1)] == [1, 0]
    assert state_of(flow, 1) == (ItemState.CANCELLED, "the parameters name no spider")
    assert counts(flow) == Counts(refused=2, cancelled=1)
    with pytest.raises(BadInput, match="item 1 was refused: the parameters name no spider; correct its crawler"):
        retry(flow, 1)
    assert retry(flow, 1, spider="books") == 1, "a dismissed item may be corrected later"
    assert counts(flow) == Counts(refused=2, waiting=1)


@pytest.mark.parametrize("chosen", [(2,), ()])
def test_items_that_a_close_has_cancelled_stay_cancelled(flow: Managed, chosen: tuple[int, ...]) -> None:
    failed(flow, "a")
    flow.offer("b", "c", read=3)
    flow.managers.close(flow.mine, "cancelled", Effects(), 0)
    flow.end(flow.last("manager"))
    while not flow.go_on().is_empty:
        pass
    by_people = chosen or (2, 3)
    assert [cancel(flow, *chosen), cancel(flow, *chosen)] == [len(by_people), 0]
    assert counts(flow) == Counts(failed=1, cancelled=2)
    assert retry(flow) == 3 - len(by_people), "the failed item, and the items that wait again"
    flow.go_on()
    flow.ref_to_manager = ManagerRef(flow.uid, MANAGER, 2, "host")
    flow.begun("child-2")
    assert numbers(flow.waiting()) == sorted({1, 2, 3} - set(by_people))
    assert counts(flow) == Counts(cancelled=len(by_people), waiting=3 - len(by_people))


# attempts and lines


def test_the_attempts_of_an_item_are_listed(flow: Managed) -> None:
    failed(flow, "a", "b")
    retry(flow, 1, arguments={"depth": 3})
    run = flow.run_of(flow.started(1))
    attempts = flow.store.manager_doors.item_attempts
    first, second = attempts(flow.id, 1)
    assert (first.attempt, first.generation, first.outcome, first.is_failed, first.changed) == (
        1,
        1,
        "failed",
        True,
        {},
    )
    assert first.run_id is not None
    assert first.ended_at is not None
    assert (second.attempt, second.generation, second.run_id, second.crawler) == (2, 2, run.run_id, "books")
    assert (second.outcome, second.is_failed, second.ended_at, second.changed) == (None, None, None, {"depth": "3"})
    assert [attempt.number for attempt in attempts(flow.id, 2)] == [2]
    with pytest.raises(NotFound, match="no item 9"):
        attempts(flow.id, 9)


def test_the_last_lines_are_on_record(flow: Managed) -> None:
    began_at = flow.begun().first_began_at

    def line(number: int, length: int = 10) -> OutputLine:
        return OutputLine(at=began_at + timedelta(seconds=number), text=f"{number}".ljust(length, "."))

    def kept() -> list[int]:
        lines = flow.store.manager_doors.output(flow.id)
        return [int(line.text.rstrip(".")) for line in lines]

    assert kept() == []
    flow.managers.keep_output(flow.mine, [line(1), line(2)])
    flow.managers.keep_output(flow.mine, [line(2), line(3)])
    assert kept() == [1, 2, 3], "a repeated line comes from a repeated call"
    flow.managers.keep_output(flow.mine, [line(number) for number in range(4, 300)])
    assert kept() == list(range(100, 300))
    flow.managers.close(flow.mine, "finished", Effects(), 0)
    flow.managers.keep_output(flow.mine, [line(number, 1000) for number in range(300, 330)])
    assert kept() == list(range(310, 330)), "at most 20,000 characters"
    with pytest.raises(Fenced):
        flow.managers.keep_output(ManagerRef(flow.uid, MANAGER, 1, "former"), [line(400)])


@pytest.mark.parametrize("ends", ["drain", "cancel"])
def test_a_flow_that_ends_before_its_manager_begins_again_leaves_no_item_open(flow: Managed, ends: str) -> None:
    failed(flow, "a")
    flow.hold("pause")
    over(flow, "finished_with_failures")
    assert retry(flow, 1) == 1
    assert flow.go_on().starts == (), "the flow is still paused"
    flow.hold("drain") if ends == "drain" else flow.cancel()
    while not flow.go_on().is_empty:
        pass
    assert flow.states == {"manager": "cancelled"}
    assert state_of(flow, 1) == (ItemState.CANCELLED, NOT_TRIED_AGAIN)
    assert flow.store.manager_doors.statuses(flow.id)[0].counts == Counts(cancelled=1)
    (status,) = flow.store.manager_doors.statuses(flow.id)
    assert status.close_reason == ("drained" if ends == "drain" else "cancelled")
    assert "the manager is closed" in flow.store.flow_records.lines(flow.id, after=0, limit=100)[-2].message
    assert retry(flow) == 1, "a later retry lets the item wait again"
    if ends == "cancel":  # the flow is still paused
        flow.hold("run")
    begun_again(flow)
    assert numbers(flow.waiting()) == [1]
    assert counts(flow) == Counts(waiting=1)


def test_a_flow_that_ends_before_its_manager_begins_leaves_no_item_open(database: Database) -> None:
    flow = pushed_manager(database, StepWork(function="m:Shops", form=CallForm.MANAGER))
    add(flow, "early", "x")
    flow.cancel()
    while not flow.go_on().is_empty:
        pass
    assert flow.store.manager_doors.statuses(flow.id)[0].counts == Counts(cancelled=1)


@pytest.mark.parametrize("limit", [1, 2, 9])
def test_items_in_a_state_are_paged_by_number(database: Database, limit: int) -> None:
    """The items come from an index for each place in the order of the choice."""
    flow = managed(database)
    flow.offer("a", "b")
    flow.commit(added("x"), added("y"))
    flow.offer("c")
    flow.ended_run(flow.started(2))
    listed, after = list[int](), 0
    while page := flow.store.manager_doors.items(flow.id, ItemFilter(states=OPEN_ITEMS), after=after, limit=limit):
        assert len(page) <= limit
        listed += [record.number for record in page]
        after = page[-1].number
    assert listed == [1, 2, 3, 4, 5]
    waiting = flow.store.manager_doors.items(flow.id, ItemFilter(states=(ItemState.WAITING,)), limit=9)
    assert [record.number for record in waiting] == [1, 3, 4, 5]
