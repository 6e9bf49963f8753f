"""Doors of workflows take any number of inputs in any encoding: none of these may fail a workflow task."""

import asyncio
from typing import Any
from uuid import uuid4

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.client import WorkflowFailureError, WorkflowHandle, WorkflowUpdateFailedError
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError

from crawler_lifecycle.model.requests import RunRequest
from crawler_lifecycle.temporal.converter import OneInputConverter
from crawler_lifecycle.temporal.engine import Engine
from tests.kit.temporal.plays import Play, Stage
from tests.kit.temporal.script import Script
from tests.runs.stops import Held, until_asked

BOOKS = RunRequest(crawler="books")
ENCODINGS = {
    "json/plain": b'{"actor": "ann"}',
    "binary/null": b"",
    "binary/plain": b"\xff\x00",
    "json/protobuf": b'{"actor": "ann"}',
    "binary/protobuf": b"\x0a\x00",
    "somebody/else": b"?",
    "": b'{"actor": "ann"}',
}
COUNTS = (1, 2, 5)
INPUTS = [(encoding, count) for encoding in ENCODINGS for count in COUNTS] + [("none", 0)]
READABLE = ("none", "json/plain", "json/protobuf", "binary/null", "")  # by an update, with one input or none
PATIENCE = 60


def inputs_of(encoding: str, count: int) -> list[RawValue]:
    metadata = {"encoding": encoding.encode()} if encoding else {}
    return [RawValue(Payload(metadata=metadata, data=ENCODINGS[encoding])) for _ in range(count)]


async def tasks_that_failed(handle: WorkflowHandle[Any, Any]) -> int:
    return sum(
        [event.HasField("workflow_task_failed_event_attributes") async for event in handle.fetch_history_events()]
    )


@pytest.mark.long
async def test_a_stop_by_signal_is_a_stop(play: Play) -> None:
    script = Script()
    script.alive = until_asked(script)
    async with play(script) as stage, asyncio.timeout(PATIENCE):
        runs = [await stage.start(BOOKS, start_signal="stop", start_signal_args=inputs_of(*given)) for given in INPUTS]
        assert {(await run.result())["reason"] for run in runs} == {"stopped"}
        assert [await tasks_that_failed(run) for run in runs] == [0] * len(runs)
    assert len(script.inputs("add_cancellation_log_to_db")) == len(INPUTS)


async def test_nudges_and_queries_leave_a_run_as_it_is(play: Play) -> None:
    script = Script()
    held = Held(script, "run_onetime_crawler")
    async with play(script) as stage, asyncio.timeout(PATIENCE):
        handle = await stage.start(BOOKS)
        await held.reached.wait()
        for given in INPUTS:
            await handle.signal("nudge", args=inputs_of(*given))
            assert (await handle.query("state", args=inputs_of(*given)))["stage"] == "deployment"
        held.go_on.set()
        assert (await handle.result())["status"] == "COMPLETED"
        assert await tasks_that_failed(handle) == 0


async def test_a_stop_by_update_that_cannot_be_read_is_refused_in_words(play: Play) -> None:
    script = Script()
    held = Held(script, "run_onetime_crawler")
    async with play(script) as stage, asyncio.timeout(PATIENCE):
        handle = await stage.start(BOOKS)
        await held.reached.wait()
        for encoding, count in INPUTS:
            if count < 2 and encoding in READABLE:
                continue
            with pytest.raises(WorkflowUpdateFailedError) as refused:
                await handle.execute_update("stop", args=inputs_of(encoding, count))
            message = str(refused.value.cause)
            assert message.startswith(
                f"BadInput: request: expected one input, got {count}" if count > 1 else "BadInput: "
            )
            assert "_refuse_bad_stop" not in message
        held.go_on.set()
        assert (await handle.result())["status"] == "COMPLETED"
        assert await tasks_that_failed(handle) == 0


async def test_a_stop_by_update_that_can_be_read_is_a_stop(play: Play) -> None:
    script = Script()
    script.alive = until_asked(script)
    held = Held(script, "run_onetime_crawler")
    async with play(script) as stage, asyncio.timeout(PATIENCE):
        handle = await stage.start(BOOKS)
        await held.reached.wait()
        for encoding in READABLE:
            await handle.execute_update("stop", args=inputs_of(encoding, 0 if encoding == "none" else 1))
        held.go_on.set()
        assert (await handle.result())["reason"] == "stopped"
        assert await tasks_that_failed(handle) == 0


@pytest.mark.parametrize("workflow", ["CrawlerLifecycleWorkflow", "RunExportWorkflow", "AuditWorkflow"])
async def test_a_start_fails_at_once_and_names_what_is_wrong(play: Play, workflow: str) -> None:
    script = Script()
    async with play(script) as stage, asyncio.timeout(PATIENCE):
        runs = [await started(stage, workflow, inputs_of(*given)) for given in INPUTS]
        refusals = [await refusal_of(run) for run in runs]
        assert [await tasks_that_failed(run) for run in runs] == [0] * len(runs)
    for (encoding, count), refusal in zip(INPUTS, refusals, strict=True):
        assert (refusal.type, refusal.non_retryable) == ("BadInput", True)
        assert refusal.message.startswith(expected(encoding, count))
    assert script.calls == []


def expected(encoding: str, count: int) -> str:
    if count > 1:
        return f"request: expected one input, got {count}"
    if encoding == "none":
        return "request: expected a JSON object, got no input"
    return "" if encoding == "json/plain" else "request: expected encoding json/plain, got "


async def refusal_of(run: WorkflowHandle[Any, Any]) -> ApplicationError:
    with pytest.raises(WorkflowFailureError) as failure:
        await run.result()
    assert isinstance(failure.value.cause, ApplicationError)
    return failure.value.cause


async def started(stage: Stage, workflow: str, given: list[RawValue]) -> WorkflowHandle[Any, Any]:
    return await stage.client.start_workflow(workflow, args=given, id=f"test-{uuid4()}", task_queue=stage.task_queue)


async def test_a_worker_as_it_is_started_has_the_converter(play: Play) -> None:
    """The converter of a worker is that of its client."""
    async with play(Script()) as stage:
        address = stage.client.service_client.config.target_host
        client = await Engine({"TEMPORAL_ADDRESS": address}, stage.task_queue).client()
    assert client.data_converter.payload_converter_class is OneInputConverter


def test_details_of_a_failure_stay_as_many_as_they_are() -> None:
    converter = OneInputConverter()
    payloads = converter.to_payloads_wrapper(["a", {"b": 1}])
    assert converter.from_payloads_wrapper(payloads) == ["a", {"b": 1}]
    assert converter.from_payloads(payloads.payloads, [str, dict]) == ["a", {"b": 1}]
