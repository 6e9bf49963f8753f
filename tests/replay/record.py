"""Records a history and a fingerprint of every path: `python -m tests.replay.record [NAME ...]`.

What is recorded is kept: only the histories that are missing are recorded, and the fingerprints are renewed.

Record when a path is new. A change to a workflow must replay what is recorded already: gate it with
`workflow.patched()`, keep the old histories, and record the new path under a name of its own.
"""

import asyncio
import json
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

from temporalio.client import WorkflowFailureError, WorkflowHandle, WorkflowHistory
from temporalio.service import RPCError
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Worker

from tests.replay.paths import PATHS, commands
from tests.servers import start_real_time, start_skipping

HERE = Path(__file__).parent
HISTORIES = HERE / "histories"
FINGERPRINTS = HERE / "fingerprints.json"


async def play(environment: WorkflowEnvironment, name: str, *, nudged: bool) -> WorkflowHistory:
    path = PATHS[name]
    queue = f"queue-{uuid4()}"
    script, workflow_id = path.script(), f"{name}-{uuid4()}"
    if path.cancelled:
        script.before["get_main_job_status"] = environment.client.get_workflow_handle(workflow_id).cancel
    async with Worker(environment.client, task_queue=queue, activities=script.activities()):
        handle = await environment.client.start_workflow(
            path.workflow,
            path.request,
            id=workflow_id,
            task_queue=queue,
            start_signal=None if path.stop is None else "stop",
            start_signal_args=[] if path.stop is None else [path.stop],
        )
        nudging = asyncio.create_task(_nudge(handle)) if nudged else None
        with suppress(WorkflowFailureError):
            await handle.result()
        if nudging:
            nudging.cancel()
            await asyncio.wait([nudging])
        return await handle.fetch_history()


async def _nudge(handle: WorkflowHandle[Any, Any]) -> None:
    """Looks without waiting for minutes of real time: skipped time would leave its marks in the history."""
    with suppress(RPCError):
        while True:
            await asyncio.sleep(1.5)
            await handle.signal("nudge", 1)


async def record(names: list[str]) -> None:
    HISTORIES.mkdir(exist_ok=True)
    missing = [name for name in names if not (HISTORIES / f"{name}.json").exists()]
    async with await start_real_time() as environment:
        for name, history in zip(
            missing, await asyncio.gather(*(play(environment, name, nudged=True) for name in missing)), strict=True
        ):
            (HISTORIES / f"{name}.json").write_text(json.dumps(_anywhere(history.to_json_dict())) + "\n")
    fingerprints = json.loads(FINGERPRINTS.read_text()) if FINGERPRINTS.exists() else {}
    async with await start_skipping() as environment:
        for name in names:
            fingerprints[name] = commands(await play(environment, name, nudged=False))
    FINGERPRINTS.write_text(json.dumps(fingerprints, indent=1, sort_keys=True) + "\n")


def _anywhere(recorded: Any) -> Any:
    """Without the marks of the machine it was recorded on."""
    if isinstance(recorded, dict):
        kept = {key: _anywhere(value) for key, value in recorded.items() if key != "stackTrace"}
        return kept | ({"identity": "recorder"} if "identity" in kept else {})
    return [_anywhere(value) for value in recorded] if isinstance(recorded, list) else recorded


if __name__ == "__main__":
    asyncio.run(record(sys.argv[1:] or list(PATHS)))
