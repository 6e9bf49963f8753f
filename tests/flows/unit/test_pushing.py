"""Graphs 1b: push, update, append, and sequences. 25 is the ledger's; the rules here decide what a push writes."""

from collections.abc import Callable
from typing import Any

import pytest

from crawler_lifecycle.base.limits import MOST_DEPENDENCIES, MOST_GROUPS, MOST_MEMBERS
from crawler_lifecycle.errors import BadInput, Conflict, NotFound, NotReady
from crawler_lifecycle.flows import RunningJob, Sequence, Workflow, crawl, opened
from crawler_lifecycle.flows.authors.building import fragment_of
from crawler_lifecycle.flows.model.definition import FlowDefinition, Fragment, Need
from crawler_lifecycle.flows.model.requests import AppendMembers
from crawler_lifecycle.flows.rules.compiling import check_whole
from crawler_lifecycle.flows.rules.merging import new_ledger, push
from crawler_lifecycle.flows.rules.rows import GroupRow, MemberRow, NeedRow, Target
from crawler_lifecycle.model.flow_states import FlowState, MemberState
from tests.flows.plays import NOW, Play
from tests.kit.authors.work import greet, marked, plain, with_context


def flow() -> Workflow:
    return Workflow("flow", id="flow").add("a", plain).add("b", plain, deps="a")


def addition(key: str, workflow: Workflow, group: str = "") -> AppendMembers:
    return AppendMembers(key=key, group=group, fragment=fragment_of(workflow))


def test_025_a_push_writes_all_rows_or_raises() -> None:
    play = Play(flow())
    assert [(row.number, row.path, row.state) for row in play.ledger.members.values()] == [
        (0, "a", MemberState.AVAILABLE),
        (1, "b", MemberState.SUSPENDED),
    ]
    with pytest.raises(BadInput):
        play.push(Workflow("flow", id="flow", check_deps=False).add("c", plain).add("d", plain, deps="nowhere"))
    assert set(play.states) == {"a", "b"}


def test_026_an_equal_push_changes_nothing() -> None:
    play = Play(flow())
    play.advance()
    play.end("a")
    before = dict(play.ledger.members)
    assert play.push(flow()).is_empty
    assert play.ledger.members == before


def test_026_new_jobs_are_added_and_absent_jobs_stay() -> None:
    play = Play(flow())
    play.run()
    merged = play.push(Workflow(id="flow", check_deps=False).add("c", plain, deps="b"))
    assert [row.path for row, _ in merged.members] == ["c"]
    assert play.run() is FlowState.COMPLETED
    assert play.order == ["a", "b", "c"]


def test_026_jobs_that_have_not_started_are_replaced() -> None:
    play = Play(flow())
    play.advance()
    changed = Workflow(id="flow").add("a", plain).add("other", plain).add("b", marked, deps="other")
    play.push(changed)
    play.advance()
    assert play.order == ["a", "other"]
    play.end("other")
    play.advance()
    assert play.order == ["a", "other", "b"]


def test_026_a_change_of_a_started_job_is_refused_by_name() -> None:
    play = Play(flow())
    play.advance()
    with pytest.raises(Conflict, match="job 'a' cannot change any more: it is executing"):
        play.push(Workflow(id="flow").add("a", greet))
    play.end("a")
    play.advance()
    with pytest.raises(Conflict, match=r"'a' .* it is completed"):
        play.push(Workflow(id="flow").add("a", greet))


def test_026_a_dependency_of_a_started_sub_workflow_does_not_change() -> None:
    play = Play(Workflow(id="flow").add("a", plain).add_many("sub", [plain, plain]))
    play.advance()
    with pytest.raises(Conflict, match=r"sub-workflow 'sub' cannot change any more: its job 'sub/0' has started"):
        play.push(Workflow(id="flow").add("a", plain).add_many("sub", [plain, plain], deps="a"))


def test_026_name_and_context_do_not_change() -> None:
    play = Play(flow().add_context({"x": 1}))
    with pytest.raises(Conflict, match="has the name 'flow', not 'other'"):
        play.push(Workflow("other", id="flow").add("c", plain))
    with pytest.raises(Conflict, match="context of flow 'flow' does not change"):
        play.push(Workflow(id="flow").add_context({"x": 2}).add("c", plain))


def test_009_an_update_may_not_close_a_cycle() -> None:
    play = Play(flow())
    with pytest.raises(BadInput, match="cycle: a -> b -> a"):
        play.push(Workflow(id="flow", check_deps=False).add("a", plain, deps="b"))


def test_009_an_append_may_not_close_a_cycle() -> None:
    play = Play(Workflow().add_many("sub", [plain]).add("after", plain, deps="sub"))
    member = fragment_of(Workflow().add("x", plain)).members[0]
    into_sub = member.model_copy(update={"path": "sub/x", "needs": (Need(on=("after",)),)})
    with pytest.raises(BadInput, match="cycle: sub/x -> sub -> after -> sub/x"):
        play.append(AppendMembers(key="k", fragment=Fragment(members=(into_sub,))))


def test_027_a_final_flow_with_new_jobs_executes_again() -> None:
    play = Play(flow())
    assert play.run() is FlowState.COMPLETED
    play.push(flow().add("c", plain, deps="b"))
    assert play.ledger.flow.state is FlowState.EXECUTING
    assert play.run() is FlowState.COMPLETED


def test_029_a_sequence_depends_on_the_job_before() -> None:
    sequence = Sequence("nightly", [plain]).add(marked)
    workflow = sequence.workflow()
    assert [(step.step_id, step.dependencies) for _, step in workflow] == [("step_0", []), ("step_1", ["step_0"])]
    assert Sequence("other").jobs == []
    with pytest.raises(BadInput, match="'empty' has no jobs"):
        Sequence("empty").workflow()


async def test_029_a_sequence_is_pushed_by_a_client() -> None:
    class Client:
        async def push_definition(self, definition: FlowDefinition) -> str:
            pushed.append(definition)
            return definition.id

    pushed: list[FlowDefinition] = []
    client: Any = Client()
    assert await Sequence("nightly", [plain]).push(client) == pushed[0].id
    with pytest.raises(NotReady, match="no client for flows is open"):
        await Sequence("nightly", [plain]).push()
    with opened(client):
        assert await Sequence("nightly", [plain]).push() == pushed[1].id


def test_073_an_append_adds_once_under_its_key() -> None:
    play = Play(flow())
    play.advance()
    request = addition("page-1", Workflow(check_deps=False).add("c", plain, deps="a"))
    assert len(play.append(request).members) == 1
    assert play.append(request).is_empty
    assert play.run() is FlowState.COMPLETED
    assert sorted(play.order) == ["a", "b", "c"]


def test_073_an_append_goes_into_a_sub_workflow_that_others_wait_for() -> None:
    play = Play(Workflow().add_many("sub", [plain]).add("after", plain, deps="sub"))
    play.advance()
    play.append(addition("k", Workflow().add("1", plain), "sub"))
    play.end("sub/0")
    play.advance()
    assert play.order == ["sub/0", "sub/1"]
    play.end("sub/1")
    play.advance()
    assert play.order[-1] == "after"


def test_073_a_handle_makes_the_request() -> None:
    handle = Workflow.for_job(RunningJob("flow", "sub/0"))
    request = handle.add("x", plain).additions("page-2")
    assert (request.key, request.group, [member.path for member in request.fragment.members]) == (
        "page-2",
        "sub",
        ["x"],
    )
    with pytest.raises(BadInput, match="key"):
        handle.additions("")


def test_073_an_append_is_refused_where_it_cannot_be() -> None:
    play = Play(flow())
    with pytest.raises(Conflict, match="'a' is already in flow"):
        play.append(addition("k", Workflow().add("a", plain)))
    with pytest.raises(NotFound, match="no sub-workflow 'nowhere'"):
        play.append(addition("k", Workflow().add("x", plain), "nowhere"))
    play.run()
    with pytest.raises(Conflict, match="is completed: push it with further jobs"):
        play.append(addition("k", Workflow().add("x", plain)))


Rows = tuple[dict[int, GroupRow], dict[int, MemberRow]]


def rows_with_members(number: int) -> Rows:
    return {0: GroupRow(0)}, {place: MemberRow(place, str(place)) for place in range(number)}


def rows_with_groups(number: int) -> Rows:
    """Sub-workflows beside the top level, which does not count."""
    inner = {place: GroupRow(place, str(place), parent=0) for place in range(1, number + 1)}
    return {0: GroupRow(0), **inner}, {}


def rows_with_dependencies(number: int) -> Rows:
    """Dependencies of a sub-workflow and of a job: both count."""
    on = (Target(0),) * number
    of_group, of_member = NeedRow(on[: number // 2]), NeedRow(on[number // 2 :])
    groups = {0: GroupRow(0), 1: GroupRow(1, "sub", parent=0, needs=(of_group,))}
    return groups, {0: MemberRow(0, "a"), 1: MemberRow(1, "b", needs=(of_member,))}


@pytest.mark.parametrize(
    ("rows", "most", "message"),
    [
        (rows_with_members, MOST_MEMBERS, "jobs: are 10001 in all, at most 10000 are possible"),
        (rows_with_groups, MOST_GROUPS, "sub-workflows: are 10001 in all, at most 10000 are possible"),
        (rows_with_dependencies, MOST_DEPENDENCIES, "deps: are 100001 in all, at most 100000 are possible"),
    ],
    ids=["members", "groups", "dependencies"],
)
def test_limits_of_a_whole_flow(rows: Callable[[int], Rows], most: int, message: str) -> None:
    check_whole(*rows(most))
    with pytest.raises(BadInput, match=f"^{message}$"):
        check_whole(*rows(most + 1))


def test_a_fragment_with_twins_is_refused() -> None:
    single = fragment_of(Workflow().add("twin", plain))
    twins = Fragment(members=single.members * 2)
    with pytest.raises(BadInput, match="'twin' is already in the flow"):
        Play(flow()).append(AppendMembers(key="k", fragment=twins))


@pytest.mark.parametrize(
    "content",
    [
        {"$": "code", "v": 1},
        {"$": "datetime", "v": "yesterday"},
        {"$": "Decimal", "v": "x"},
        {"$": "timedelta", "v": [10**12, 0, 0]},
        {"$": "dict", "v": [[[1], 2]]},
        {"$": "tuple"},
        {"$": ["list"], "v": 1},
    ],
)
def test_a_value_with_a_wrong_tag_is_refused_at_the_push(content: Any) -> None:
    definition = flow().definition()
    wrong = definition.model_copy(update={"context": {"x": content}})
    with pytest.raises(BadInput, match=r"context: contains a wrong value under the key '\$'"):
        push(new_ledger(wrong), wrong, NOW)


def test_040_a_delay_counts_from_the_push() -> None:
    play = Play(Workflow().add("a", crawl("books"), schedule_in=60).add("b", with_context, deps="a"))
    assert play.row("a").state is MemberState.SCHEDULED
    assert play.advance().wake_at is not None
    play.later(seconds=59)
    assert not play.advance().starts
    play.later(seconds=1)
    play.advance()
    assert play.order == ["a"]
    assert (play.now - NOW).total_seconds() == 60
