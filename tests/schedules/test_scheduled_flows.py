"""Schedules that start flows, on a real Temporal server, with the workers that supervise the flows."""

import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import pytest_asyncio
from temporalio.testing import WorkflowEnvironment

from crawler_lifecycle.assembly.control import Control
from crawler_lifecycle.base.limits import LARGEST_SCHEDULED
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.errors import BadInput, NotFound
from crawler_lifecycle.flows import Workflow, crawl
from crawler_lifecycle.flows.model.definition import ApprovalWork, FlowDefinition, MemberDefinition
from crawler_lifecycle.model.naming import scheduled_flow_id
from crawler_lifecycle.model.requests import RunRequest, refusals_as_bad_input
from crawler_lifecycle.schedules.commands.schedule_commands import ScheduleCommands
from crawler_lifecycle.schedules.model import Occurrence, OccurrenceOutcome, Overlap, ScheduleRequest, SkipReason
from crawler_lifecycle.settings.installation import Installation
from tests.kit.authors.work import plain
from tests.kit.clusters.schedulers import TOKEN, SmallCluster, a_catalogue, served
from tests.kit.data.databases import copy_of
from tests.kit.temporal.flow_stage import FlowStage, flow_stage
from tests.kit.temporal.graphs import pair
from tests.kit.waiting import eventually, eventually_async


@pytest.fixture
def url(sqlite_template: Path, tmp_path: Path) -> str:
    return copy_of(sqlite_template, tmp_path)


@pytest_asyncio.fixture
async def stage(real_time: WorkflowEnvironment, url: str) -> AsyncIterator[FlowStage]:
    database = Database(url)
    async with flow_stage(real_time.client, database) as stage:
        yield stage
    database.close()


@pytest_asyncio.fixture
async def schedules(
    stage: FlowStage, real_time: WorkflowEnvironment, url: str, tmp_path: Path
) -> AsyncIterator[ScheduleCommands]:
    with served(SmallCluster(), a_catalogue(tmp_path)) as scheduler:
        variables = {
            "CRAWLER_SCHEDULER__URL": scheduler,
            "CRAWLER_SCHEDULER__TOKEN": TOKEN,
            "CRAWLER_DATABASE__URL": url,
            "CRAWLER_WORKER__TASK_QUEUE": stage.queue,
            "TEMPORAL_ADDRESS": real_time.client.service_client.config.target_host,
            "TEMPORAL_NAMESPACE": real_time.client.namespace,
        }
        schedules = Control(Installation.with_variables(tmp_path, variables)).schedules
        yield schedules
        for schedule in await schedules.list():
            await schedules.delete(schedule.schedule_id)


def request_for(workflow: Workflow, schedule_id: str, **rules: Any) -> ScheduleRequest:
    rules = {"cron": ["0 0 1 1 *"], **rules}
    return ScheduleRequest(schedule_id=schedule_id, flow=workflow.definition(), requested_by="ann", **rules)


def named() -> str:
    """A name of its own: the server is shared."""
    return f"nightly-{uuid4().hex[:8]}"


async def test_each_occurrence_is_a_flow_with_its_end_in_the_list(schedules: ScheduleCommands) -> None:
    name = named()
    made = await schedules.create(request_for(pair(), name, cron=[], every_seconds=1))
    assert (made.crawler, made.run, made.flow) == (None, None, made.flow)

    async def ended() -> list[Occurrence]:
        shown = await schedules.show(name, occurrences=20)
        return [occurrence for occurrence in shown.occurrences if occurrence.flow_state == "completed"]

    (first, *_) = await eventually_async(ended)
    assert first.outcome is OccurrenceOutcome.STARTED
    assert first.flow_id == (first.workflow_id or "").removeprefix("crawl-")
    assert first.run_id is None
    (listed,) = [schedule for schedule in await schedules.list() if schedule.schedule_id == name]
    assert (listed.crawler, listed.flow_id) == (None, made.flow.id if made.flow else "")


async def test_an_occurrence_beside_an_open_flow_is_skipped(stage: FlowStage, schedules: ScheduleCommands) -> None:
    stage.host.hold("a")
    name = named()
    await schedules.create(request_for(pair(), name))
    first = await schedules.trigger(name)
    await stage.host.begun["a"].wait()
    second = await schedules.trigger(name)
    shown = await schedules.show(name)
    none = await schedules.show(name, occurrences=0)
    stage.host.release("a")
    assert first.outcome is OccurrenceOutcome.STARTED
    assert (second.outcome, second.reason) == (OccurrenceOutcome.SKIPPED, SkipReason.OVERLAP)
    (start,) = [start for start in shown.other_starts if start.workflow_id == first.workflow_id]
    assert (start.flow_id, start.flow_state) == (scheduled_flow_id(str(first.workflow_id)), "executing")
    assert none.other_starts == []


@pytest.mark.long
async def test_replace_cancels_the_open_flow_and_starts_behind_its_proof(
    stage: FlowStage, schedules: ScheduleCommands
) -> None:
    name = named()
    request = request_for(Workflow(id="shops").add("shop", crawl("bookshop")), name, overlap=Overlap.REPLACE)
    await schedules.create(request)
    second = int(time.time())
    await schedules.trigger(name)
    first = await stage.crawls.run_of("shop")
    await eventually(lambda: int(time.time()) > second + 1)  # triggers within a second are the same occurrence
    await schedules.trigger(name)
    await eventually(lambda: bool(stage.crawls.stopped))
    assert stage.crawls.stopped == [first.workflow_id]
    assert len(stage.crawls.runs["shop"]) == 1
    await stage.crawls.end("shop")
    await stage.crawls.run_of("shop", 2)
    states = [record.state.value for record in stage.store.flow_records.page(limit=9, family=name)]
    assert states == ["executing", "cancelled"]
    await stage.crawls.end("shop", number=2)


async def test_a_schedule_keeps_what_it_starts(schedules: ScheduleCommands) -> None:
    name = named()
    request = request_for(Workflow(id="shops").add("a", plain), name)
    await schedules.create(request)
    other = request_for(Workflow(id="shops").add("a", plain).add("b", plain), name)
    changed = await schedules.replace(other)
    assert changed.flow == other.flow
    with pytest.raises(BadInput, match="starts flows 'shops'"):
        await schedules.replace(request_for(Workflow(id="others").add("a", plain), name))
    with pytest.raises(BadInput, match="starts flows 'shops'"):
        await schedules.replace(ScheduleRequest(schedule_id=name, run=RunRequest(crawler="bookshop"), cron=["@daily"]))


async def test_what_a_push_would_refuse_makes_no_schedule(schedules: ScheduleCommands) -> None:
    name = named()
    with pytest.raises(BadInput, match="has no jobs"):
        await schedules.create(ScheduleRequest(schedule_id=name, flow=FlowDefinition(id="empty"), cron=["@daily"]))
    with pytest.raises(BadInput, match="no crawler 'nowhere'"):
        await schedules.create(request_for(Workflow().add("shop", crawl("nowhere")), name))
    with pytest.raises(NotFound, match="no schedule"):
        await schedules.show(name)


def test_an_oversized_definition_is_refused_with_the_limit() -> None:
    with pytest.raises(BadInput, match=f"flow: is .* a schedule takes at most {LARGEST_SCHEDULED}"):
        _checked(_with_notes(600))


async def test_a_definition_just_below_the_limit_is_taken(schedules: ScheduleCommands) -> None:
    request = _checked(_with_notes(400))
    assert (await schedules.create(request)).flow == request.flow


def _with_notes(count: int) -> FlowDefinition:
    members = (MemberDefinition(path=f"a{n}", work=ApprovalWork(note="x" * 1000)) for n in range(count))
    return FlowDefinition(id="large", members=tuple(members))


def _checked(definition: FlowDefinition) -> ScheduleRequest:
    with refusals_as_bad_input():
        return ScheduleRequest(schedule_id=named(), flow=definition, cron=["0 0 1 1 *"])


@pytest.mark.parametrize("both", [True, False])
def test_a_schedule_starts_either_runs_or_flows(both: bool) -> None:
    things: dict[str, Any] = {"run": RunRequest(crawler="c"), "flow": FlowDefinition(id="f")} if both else {}
    with pytest.raises(BadInput, match="either a run or a flow"), refusals_as_bad_input():
        ScheduleRequest(schedule_id="nightly", cron=["@daily"], **things)
