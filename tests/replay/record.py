"""Records the histories and a fingerprint of every path: `python -m tests.replay.record [NAME ...]`.

What is recorded is kept: only the histories that are missing are recorded, and the fingerprints are renewed. A path
that continues as new leaves one history for each of its executions: NAME.json, NAME.2.json and so on.

Record when a path is new. Once a version is released, a change to a workflow must replay what is recorded already:
raise its generation (docs/internals/extend.md), keep the old histories, and record the new way under new names.
"""

import asyncio
import json
from argparse import ArgumentParser
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

from temporalio.client import Client, WorkflowFailureError, WorkflowHandle, WorkflowHistory
from temporalio.service import RPCError
from temporalio.testing import WorkflowEnvironment

from tests.kit.temporal.plays import working
from tests.kit.temporal.servers import SHORT_HISTORIES, start_real_time, start_skipping
from tests.replay.flow_paths import FLOW_PATHS, LATE, play_flow
from tests.replay.paths import RUN_PATHS, Ask, commands

PATHS = RUN_PATHS | FLOW_PATHS
HERE = Path(__file__).parent
HISTORIES = HERE / "histories"
FINGERPRINTS = HERE / "fingerprints.json"
AT_ONCE = 12

Histories = list[WorkflowHistory]
Start = Callable[..., Awaitable[WorkflowEnvironment]]


def named(name: str, execution: int) -> Path:
    return HISTORIES / (f"{name}.json" if execution == 1 else f"{name}.{execution}.json")


async def play(environment: WorkflowEnvironment, name: str, *, nudged: bool) -> Histories:
    """The histories of its executions, the first one first."""
    if name in FLOW_PATHS:
        flow = await play_flow(environment, FLOW_PATHS[name], *([] if nudged else [LATE]))
        first_run_id = (await flow.describe()).raw_description.workflow_execution_info.first_run_id
        return await _executions(environment.client, flow.id, first_run_id)
    path = RUN_PATHS[name]
    queue = f"queue-{uuid4()}"
    script, workflow_id = path.script(), f"{name}-{uuid4()}"
    of_any_execution = environment.client.get_workflow_handle(workflow_id)
    for activity in {ask.before for ask in path.asks}:
        script.before[activity] = _once(of_any_execution, [ask for ask in path.asks if ask.before == activity])
    async with working(environment.client, queue, script.activities()):
        handle = await environment.client.start_workflow(
            path.workflow,
            path.request,
            id=workflow_id,
            task_queue=queue,
            start_signal=None if path.stop is None else "stop",
            start_signal_args=[] if path.stop is None else [path.stop],
        )
        nudging = asyncio.create_task(_nudge(of_any_execution)) if nudged else None
        with suppress(WorkflowFailureError):
            await handle.result()
        if nudging:
            nudging.cancel()
            await asyncio.wait([nudging])
    return await _executions(environment.client, workflow_id, handle.first_execution_run_id)


def _once(handle: WorkflowHandle[Any, Any], asks: list[Ask]) -> Callable[[], Awaitable[None]]:
    async def ask() -> None:
        while asks:
            each = asks.pop(0)
            match each.door:
                case "cancel":
                    await handle.cancel()
                case "signal":
                    await handle.signal("stop", each.stop)
                case "update":
                    await handle.execute_update("stop", each.stop)
            await handle.query("state")  # it has been heard, before this activity answers

    return ask


async def _executions(client: Client, workflow_id: str, run_id: str | None) -> Histories:
    histories = []
    while run_id:
        histories.append(await client.get_workflow_handle(workflow_id, run_id=run_id).fetch_history())
        run_id = histories[-1].events[-1].workflow_execution_continued_as_new_event_attributes.new_execution_run_id
    return histories


async def _nudge(handle: WorkflowHandle[Any, Any]) -> None:
    """Looks without waiting for minutes of real time: skipped time would leave its marks in the history."""
    with suppress(RPCError):
        while True:
            await asyncio.sleep(1.5)
            await handle.signal("nudge", 1)


async def record(names: Iterable[str]) -> None:
    HISTORIES.mkdir(exist_ok=True)
    missing = [name for name in names if not named(name, 1).exists()]
    recorded = await _on_servers(start_real_time, missing, nudged=True)
    played = await _on_servers(start_skipping, names, nudged=False)  # with another patience: see `play_flow`
    for name, histories in recorded.items():
        for number, history in enumerate(histories, 1):
            named(name, number).write_text(json.dumps(_anywhere(history.to_json_dict())) + "\n")
    fingerprints = json.loads(FINGERPRINTS.read_text()) if FINGERPRINTS.exists() else {}
    fingerprints |= {name: commands_of(name, histories) for name, histories in played.items() if has_one_order(name)}
    kept = {name: fingerprints[name] for name in PATHS if name in fingerprints}
    FINGERPRINTS.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")


def has_one_order(name: str) -> bool:
    return name not in FLOW_PATHS or FLOW_PATHS[name].has_one_order


def commands_of(name: str, histories: Histories) -> list[str]:
    """The commands that a play has to repeat. The timers of a flow depend on the time that its steps take."""
    return [line for line in commands(histories) if name not in FLOW_PATHS or not line.startswith("timer")]


async def _on_servers(start: Start, names: Iterable[str], *, nudged: bool) -> dict[str, Histories]:
    """Paths that continue as new need a server that suggests it early, and no other path may be played there."""
    long = [name for name in names if not PATHS[name].continues]
    short = [name for name in names if PATHS[name].continues]
    played = await _on_server(start, [], long, nudged=nudged)
    return played | await _on_server(start, SHORT_HISTORIES, short, nudged=nudged)


async def _on_server(start: Start, options: Iterable[str], names: list[str], *, nudged: bool) -> dict[str, Histories]:
    if not names:
        return {}
    async with await start(*options) as environment:
        flows = [name for name in names if name in FLOW_PATHS]
        names = [name for name in names if name not in FLOW_PATHS]
        of_flows = {name: await play(environment, name, nudged=nudged) for name in flows}
        if nudged:  # in real time, some of them at once: a machine that is overloaded leaves its marks, too
            turns = asyncio.Semaphore(AT_ONCE)
            histories = await asyncio.gather(*(_in_turn(turns, environment, name) for name in names))
        else:
            histories = [await play(environment, name, nudged=False) for name in names]
    return of_flows | dict(zip(names, histories, strict=True))


async def _in_turn(turns: asyncio.Semaphore, environment: WorkflowEnvironment, name: str) -> Histories:
    async with turns:
        return await play(environment, name, nudged=True)


def _anywhere(recorded: Any) -> Any:
    """Without the marks of the machine it was recorded on."""
    if isinstance(recorded, dict):
        kept = {key: _anywhere(value) for key, value in recorded.items() if key != "stackTrace"}
        return kept | ({"identity": "recorder"} if "identity" in kept else {})
    return [_anywhere(value) for value in recorded] if isinstance(recorded, list) else recorded


if __name__ == "__main__":
    parser = ArgumentParser(prog="python -m tests.replay.record")
    parser.add_argument("names", nargs="*", metavar="NAME", help="path; default: all")
    asyncio.run(record(parser.parse_args().names or list(PATHS)))
