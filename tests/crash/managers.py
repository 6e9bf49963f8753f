"""The courses of crawl managers: each manager comes to the same end as a manager that nothing disturbs."""

from collections import Counter
from collections.abc import Collection

from crawler_lifecycle.flows.model.definition import CallForm, FlowDefinition, MemberDefinition, StepWork
from crawler_lifecycle.flows.model.manager_records import ItemRecord
from crawler_lifecycle.flows.model.requests import PushFlow, StopFlow, StopWay
from crawler_lifecycle.flows.model.turns import Counts
from crawler_lifecycle.model.answers import Started
from crawler_lifecycle.model.flow_states import FlowState, MemberState
from crawler_lifecycle.model.records import RunFilter, RunRecord
from crawler_lifecycle.model.states import TaskStatus
from tests.crash.flows import nudged, states, until_ended
from tests.crash.graph import calls_of
from tests.crash.managing import EXTRA, FAILING, HELD_BACK, Polite, Shops
from tests.crash.stack import Case, until
from tests.process.stops import assert_stopped

MANAGER = "manager"  # path of the flow's only member
AT_ONCE = 3
Crawl = tuple[int, tuple[tuple[str, str], ...]]  # attempt and arguments
# what an undisturbed manager comes to; the case without a death is held to the same
CRAWLS = Counter[Crawl](
    [
        *((1, (("shop", shop),)) for shop in ("a", "b", FAILING, HELD_BACK, EXTRA)),
        (2, (("retry_num", "1"), ("shop", FAILING))),
    ]
)
ITEMS, REPEATED = 5, 2


async def manager(case: Case) -> Started:
    """A generator manager with repeats, a failure that is tried again, a delayed job and a job that a hook adds."""
    case.deaths.arm()
    statuses = case.site.control.parts.store.manager_doors.statuses
    flow_id = await _pushed(case, Shops)
    await until(lambda: any(status.counts.delayed for status in statuses(flow_id)))  # before an end lets it start
    await _let_crawls_end(case, flow_id, failing=(FAILING,))
    await until_ended(case, flow_id, FlowState.COMPLETED)
    runs = await _handed_over(case, flow_id)
    assert Counter((_attempt(run), tuple(sorted(run.request.arguments.items()))) for run in runs) == CRAWLS
    assert statuses(flow_id)[0].counts == Counts(completed=ITEMS, repeated=REPEATED)
    await _assert_reacted_once(case, flow_id, runs)
    return case.begun[0]


async def manager_drained(case: Case) -> Started:
    """A drain lets the crawls under way end, and the other shops never start."""
    flow_id = await _pushed(case, Shops)
    await until(lambda: sum(item.run_id is not None for item in _items(case, flow_id)) == AT_ONCE)
    case.deaths.arm()
    await nudged(case, "stop", StopFlow(way=StopWay.DRAIN), flow_id)
    await _let_crawls_end(case, flow_id)
    await until_ended(case, flow_id, FlowState.COMPLETED)
    runs = await _handed_over(case, flow_id)
    assert len(runs) == AT_ONCE
    counts = case.site.control.parts.store.manager_doors.statuses(flow_id)[0].counts
    assert (counts.completed, counts.running, counts.waiting) == (AT_ONCE, 0, 0)
    await _assert_reacted_once(case, flow_id, runs, reason="drained")
    return case.begun[0]


async def manager_stopped(case: Case) -> Started:
    """A stop ends the crawls under way, and the manager with the last of them."""
    flow_id = await _pushed(case, Polite)
    await until(lambda: sum(item.run_id is not None for item in _items(case, flow_id)) == AT_ONCE)
    begun = _runs(case, flow_id)
    await until(lambda: all(case.site.statuses(_started(run)) == [TaskStatus.RUNNING] for run in begun))
    case.deaths.arm()
    await nudged(case, "stop", StopFlow(), flow_id)
    await until_ended(case, flow_id, FlowState.CANCELLED)
    runs = await _handed_over(case, flow_id)
    assert len(runs) == AT_ONCE
    for run in case.begun:
        await assert_stopped(case.site, run)
    assert states(case, flow_id) == {MANAGER: MemberState.CANCELLED}
    counts = case.site.control.parts.store.manager_doors.statuses(flow_id)[0].counts
    assert (counts.running, counts.waiting, counts.delayed) == (0, 0, 0)
    return case.begun[0]


async def _pushed(case: Case, manager: type[Shops]) -> str:
    work = StepWork(
        function=f"{manager.__module__}:{manager.__name__}",
        form=CallForm.MANAGER,
        arguments=["--max-running-jobs", str(AT_ONCE)],
    )
    definition = FlowDefinition(
        id=case.plan.name, name=manager.name, family="crash", members=(MemberDefinition(path=MANAGER, work=work),)
    )
    return (await nudged(case, "push", PushFlow(definition=definition))).flow_id


def _runs(case: Case, flow_id: str) -> list[RunRecord]:
    return [
        case.site.control.runs.show(listed.run_id).run
        for listed in case.site.control.runs.select(RunFilter(flow=flow_id), limit=100)
    ]


async def _let_crawls_end(case: Case, flow_id: str, failing: Collection[str] = ()) -> None:
    """Let every crawl end, until the flow has ended. The first attempt at a failing shop fails.

    Where an object dies in its sleep or at a start, crawls end one by one: each of its lives finds an end to sleep for,
    and a crawl to start.
    """
    released = set[int]()
    apart = any(call in point for call in (".sleep.", ".start.") for point in case.plan.deaths)

    def ended() -> bool:
        for item in _items(case, flow_id):
            if apart and len(_noted(case)) < len(released):
                break
            if item.run_id is not None and item.run_id not in released:
                released.add(item.run_id)
                run = case.site.control.runs.show(item.run_id).run
                is_bad = run.request.arguments.get("shop") in failing and _attempt(run) == 1
                case.site.release(_started(run), 0, codes={0: 3} if is_bad else {})
        return case.site.control.flows.row(flow_id)[1].state.is_final

    await until(ended)


async def _handed_over(case: Case, flow_id: str) -> list[RunRecord]:
    """Wait until all is done for all runs of the manager. No attempt has two runs."""
    runs = _runs(case, flow_id)
    attempts = [run.workflow_id for run in runs]  # made of the flow, the item and the attempt
    assert len(set(attempts)) == len(runs), f"an attempt has two runs: {attempts}"
    for run in runs:
        case.begun.append(_started(run))
        await case.until_handed_over(case.begun[-1])
    return _runs(case, flow_id)


async def _assert_reacted_once(case: Case, flow_id: str, runs: list[RunRecord], reason: str = "finished") -> None:
    """Every end has one reaction on record, whatever was repeated: the hooks' sums tell."""
    result = case.site.control.flows.results(flow_id)[MANAGER]
    assert result["close_reason"] == reason
    assert result["stats"]["hooks"] == len(runs)
    assert result["stats"]["crawlmanager/scheduled_jobs"] == len(runs)
    assert _noted(case) == {run.workflow_id for run in runs}, "a hook was not called"
    items = _items(case, flow_id)
    assert [item.number for item in items] == list(range(1, len(items) + 1))
    assert all(item.outcome is None or item.ended_at for item in items)


def _items(case: Case, flow_id: str) -> list[ItemRecord]:
    return case.site.control.parts.store.manager_doors.items(flow_id, limit=100)


def _attempt(run: RunRecord) -> int:
    assert run.flow
    return run.flow.attempt


def _started(run: RunRecord) -> Started:
    return Started(
        workflow_id=run.workflow_id,
        first_execution_run_id=run.first_execution_run_id,
        run_id=run.run_id,
        run_uid=run.run_uid,
    )


def _noted(case: Case) -> set[str]:
    """The jobs whose hook was called."""
    calls = calls_of(case.plan.notes)
    return {line.partition(" ")[0] for line in calls.read_text().splitlines()} if calls.exists() else set()
