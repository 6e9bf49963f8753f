"""The courses of flows: each flow comes to the same end as a flow that nothing disturbs."""

import asyncio
import json
import signal
import sys
from collections import Counter
from contextlib import suppress

from temporalio.client import WorkflowExecutionStatus, WorkflowHandle

from crawler_lifecycle.flows import Workflow
from crawler_lifecycle.flows.model.records import FlowAnswer
from crawler_lifecycle.flows.model.requests import (
    AppendMembers,
    ApproveMember,
    CancelMembers,
    FlowRequest,
    PushFlow,
    RetryMembers,
)
from crawler_lifecycle.model.answers import Started
from crawler_lifecycle.model.flow_states import FlowState, MemberState
from crawler_lifecycle.model.naming import flow_workflow_id
from crawler_lifecycle.model.records import RunFilter
from crawler_lifecycle.model.states import TaskStatus
from tests.crash.graph import addition, calls_of, deciding, hanging, whole
from tests.crash.stack import PATIENCE, PAUSE, Case, patiently, until
from tests.kit.service.embedded import environment
from tests.process.stops import assert_stopped, notices

FAILED = {0: 3, 1: 3}
SHOP, LATE = (("lang", "de"),), (("page", "last"),)
# what an undisturbed flow comes to; the case without a death is held to the same
CRAWLS = {("shop", 1, SHOP), ("shop", 2, SHOP), ("late", 1, LATE)}
COMPLETED = {
    "begin": 1,
    "items": {"0": 10, "1": 20, "2": 30},
    "merge": 61,
    "each": {"0": 0, "1": 1},
    "sprout": {"left": "left", "right": "right"},
    "flaky": "mended",
    "broken": "mended",
    "joined": "joined",
}
PATHS = {
    *("begin", "shop", "items/0", "items/1", "items/2", "merge", "each/0", "each/1", "sprout", "sprout/left"),
    *("sprout/right", "flaky", "broken", "late", "unlisted", "joined"),
}
ENDS = {"late": MemberState.CANCELLED, "unlisted": MemberState.DISCARDED}
TWO_ATTEMPTS = {"shop", "flaky", "broken"}
OF_HOSTS = ("claims", "doors", "function", "run_steps")  # points at which a host dies
MOST_CALLS = 3  # of an attempt whose host dies twice
DIED = -signal.SIGKILL


async def flow(case: Case) -> Started:
    """A flow of crawls and steps: a crawl, a step and a person's retry begin second attempts, and a crawl is cancelled
    while it runs."""
    case.deaths.arm()
    flow_id = await pushed(case, whole(case.plan.name))
    flows = case.site.control.flows
    first = await run_of(case, flow_id, "shop", 1)
    await until_started(case, first, 2)
    case.site.release(first, 0, 1, codes=FAILED)
    late = await run_of(case, flow_id, "late", 1)
    await until_started(case, late, 1)
    await until(lambda: states(case, flow_id)["broken"] is MemberState.DISCARDED)
    assert (
        await flows.append(flow_id, AppendMembers(key="more", fragment=addition().additions("more").fragment))
    ).count
    assert (await flows.change(flow_id, RetryMembers(paths=("broken",)))).count == 1
    second = await run_of(case, flow_id, "shop", 2)
    await until_started(case, second, 2)
    case.site.release(second, 0, 1)
    await until(lambda: all(states(case, flow_id).get(path) is MemberState.COMPLETED for path in PATHS - ENDS.keys()))
    assert (await flows.change(flow_id, CancelMembers(paths=("late",)))).count == 1
    await until_ended(case, flow_id, FlowState.DISCARDED)
    await assert_undisturbed(case, flow_id)
    return second


async def flow_cancelled(case: Case) -> Started:
    """Temporal's tools cancel a flow whose history became too long, with a step and a crawl under way, and a nudge
    comes in the same moment. The supervisor has checked the crawl's start before."""
    if not host_dies(case):
        case.deaths.arm()
    flow_id = await pushed(case, hanging(case.plan.name))
    run = await run_of(case, flow_id, "late", 1)
    await until_started(case, run, 1)
    await until(lambda: calls(case))
    case.deaths.arm()  # an idle host renews its lease, too: it dies with a function under way
    supervisor = await supervisor_of(case, flow_id)
    first = (await supervisor.describe()).run_id
    async with asyncio.timeout(PATIENCE):
        while "check_starts" not in await case.site.attempts(supervisor.id):
            await asyncio.sleep(PAUSE)
        while (await supervisor.describe()).run_id == first:
            await nudge(case, flow_id)
            await asyncio.sleep(PAUSE)
    await asyncio.gather(supervisor.cancel(), nudge(case, flow_id))
    await until_ended(case, flow_id, FlowState.CANCELLED)
    case.begun.append(run)
    await case.until_handed_over(run)
    await assert_stopped(case.site, run)
    assert (await supervisor.describe()).status is WorkflowExecutionStatus.CANCELED
    assert set(states(case, flow_id).values()) == {MemberState.CANCELLED}
    most = MOST_CALLS if host_dies(case) else 1
    assert set(calls(case)) == {("hang", 1)}
    assert len(calls(case)) <= most, "a continuation began a function again"
    assert runs_of(case, flow_id) == {("late", 1, ())}
    return run


async def flow_doors(case: Case) -> None:
    """Processes of doors die after their commits. A repeated request reaches the supervisor and changes nothing; a
    request that nobody repeats is found with the next nudge, whoever sends the nudge."""
    flow_id, flows = case.plan.name, case.site.control.flows
    push = PushFlow(definition=deciding(flow_id).definition())
    await die_after_commit(case, "push", push)
    uid, _ = flows.row(flow_id)
    assert (await case.site.control.engine.describe(flow_workflow_id(uid))).end == "missing"
    assert not (await nudged(case, "push", push)).changed
    append = AppendMembers(key="more", fragment=Workflow().add_approval("more").additions("more").fragment)
    await die_after_commit(case, "append", append, flow_id)
    assert not (await nudged(case, "append", append, flow_id)).changed
    await flows.change(flow_id, ApproveMember(path="go", approved=False))
    await until(lambda: states(case, flow_id)["go"].is_final)
    retry = RetryMembers(paths=("go",))
    await die_after_commit(case, "retry", retry, flow_id)
    assert (await nudged(case, "change", retry, flow_id)).count == 0
    await flows.change(flow_id, ApproveMember(path="go"))
    await until(lambda: states(case, flow_id)["go"] is MemberState.COMPLETED)
    await die_after_commit(case, "cancel", CancelMembers(), flow_id)
    await nudge(case, flow_id)
    await until_ended(case, flow_id, FlowState.CANCELLED)
    members = {member.path: (member.state, member.generation) for member in flows.members(flow_id)}
    assert members == {
        "go": (MemberState.COMPLETED, 2),
        "wait": (MemberState.CANCELLED, 1),
        "more": (MemberState.CANCELLED, 1),
    }


async def assert_undisturbed(case: Case, flow_id: str) -> None:
    """Compare the ledger, the runs and the functions' own notes with those of an undisturbed flow."""
    flows = case.site.control.flows
    assert states(case, flow_id) == dict.fromkeys(PATHS, MemberState.COMPLETED) | ENDS
    assert dict(flows.results(flow_id)).items() >= COMPLETED.items()
    attempts = {path: flows.attempts(flow_id, path) for path in PATHS}
    assert all(attempt.ended_at for records in attempts.values() for attempt in records), "a claim is open"
    assert {path: [attempt.attempt for attempt in records] for path, records in attempts.items()} == {
        path: [1, 2] if path in TWO_ATTEMPTS else [1] for path in PATHS
    }
    assert runs_of(case, flow_id) == CRAWLS
    noted = Counter(calls(case))
    crawls = {path for path, _, _ in CRAWLS} | {"unlisted"}
    assert noted.keys() == {(path, record.attempt) for path in PATHS - crawls for record in attempts[path]}
    most = MOST_CALLS if host_dies(case) else 1
    assert max(noted.values()) <= most, noted
    for path, attempt, _ in CRAWLS:
        run = await run_of(case, flow_id, path, attempt)
        case.begun.append(run)
        await case.until_handed_over(run)


def host_dies(case: Case) -> bool:
    return any(point.partition(".")[0] in OF_HOSTS for point in case.plan.deaths)


def runs_of(case: Case, flow_id: str) -> set[tuple[str, int, tuple[tuple[str, str], ...]]]:
    """Return path, attempt and arguments of each run. No attempt has two runs."""
    runs = list[tuple[str, int, tuple[tuple[str, str], ...]]]()
    for listed in case.site.control.runs.select(RunFilter(flow=flow_id), limit=100):
        run = case.site.control.runs.show(listed.run_id).run
        assert run.flow
        runs.append((run.flow.path, run.flow.attempt, tuple(run.request.arguments.items())))
    assert len({(path, attempt) for path, attempt, _ in runs}) == len(runs), f"an attempt has two runs: {runs}"
    return set(runs)


def calls(case: Case) -> list[tuple[str, int]]:
    """Return path and attempt of each call, as the functions wrote them down."""
    path = calls_of(case.plan.notes)
    lines = path.read_text().splitlines() if path.exists() else []
    return [(name, int(attempt)) for name, attempt in map(str.split, lines)]


def states(case: Case, flow_id: str) -> dict[str, MemberState]:
    return {member.path: member.state for member in case.site.control.flows.members(flow_id)}


async def run_of(case: Case, flow_id: str, path: str, attempt: int) -> Started:
    """Wait for the run of a crawl's attempt."""

    def run_on_record() -> Started | None:
        with suppress(StopIteration):
            records = case.site.control.flows.attempts(flow_id, path)
            record = next(record for record in records if record.attempt == attempt)
            if record.run_id is not None:
                run = case.site.control.runs.show(record.run_id).run
                return Started(
                    workflow_id=run.workflow_id,
                    first_execution_run_id=run.first_execution_run_id,
                    run_id=run.run_id,
                    run_uid=run.run_uid,
                )
        return None

    run: Started = await until(run_on_record)
    return run


async def until_started(case: Case, run: Started, tasks: int) -> None:
    """All tasks run, and the run's start was told."""

    def started() -> bool:
        kinds = [line["kind"] for line in notices(case.site, run)]
        return case.site.statuses(run) == [TaskStatus.RUNNING] * tasks and "started" in kinds

    await until(started)


async def until_ended(case: Case, flow_id: str, state: FlowState) -> None:
    """Wait for the end of the flow and of its supervisor. The end is told once."""
    flows = case.site.control.flows
    await until(lambda: flows.row(flow_id)[1].state.is_final)
    uid, row = flows.row(flow_id)
    assert row.state is state
    await case.until_closed(flow_workflow_id(uid))
    case.ended_flows.append(uid)
    assert Counter(line.event for line in flows.lines(flow_id))["ended"] == 1


async def pushed(case: Case, workflow: Workflow) -> str:
    answer = await nudged(case, "push", PushFlow(definition=workflow.definition()))
    return answer.flow_id


async def nudged(case: Case, verb: str, request: FlowRequest, *flow_id: str) -> FlowAnswer:
    """Make the request until the supervisor knows about it: Temporal may be slow while many cases begin. Return the
    answer of the last call."""
    async with asyncio.timeout(PATIENCE):
        while True:
            answer: FlowAnswer = await getattr(case.site.control.flows, verb)(*flow_id, request)
            if answer.nudged:
                return answer
            await asyncio.sleep(PAUSE)


async def nudge(case: Case, flow_id: str) -> None:
    uid, _ = case.site.control.flows.row(flow_id)
    await patiently(lambda: case.site.control.engine.nudge_flow(uid, flow_id))


async def supervisor_of(case: Case, flow_id: str) -> WorkflowHandle[object, object]:
    uid, _ = case.site.control.flows.row(flow_id)
    client = await case.site.control.engine.client()
    return client.get_workflow_handle(flow_workflow_id(uid))


async def die_after_commit(case: Case, verb: str, request: FlowRequest, *flow_id: str) -> None:
    """Make the request in a process that dies before the nudge."""
    stack = json.loads((case.site.state.parent / "children.json").read_text())
    given = stack["environment"] | case.plan.environment
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "tests.crash.dying_door", verb, *flow_id, request.model_dump_json()),
        env=environment(case.site.state.parent, given),
    )
    assert await process.wait() == DIED
