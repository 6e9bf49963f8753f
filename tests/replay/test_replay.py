"""A change to a workflow must not break the runs that are under way."""

import json
from pathlib import Path

import pytest
from temporalio.client import WorkflowHistory
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Replayer

from crawler_lifecycle.workflows.plugin import LifecyclePlugin
from tests.replay.paths import PATHS, commands
from tests.replay.record import FINGERPRINTS, HISTORIES, play


@pytest.mark.parametrize("recorded", sorted(HISTORIES.glob("*.json")), ids=lambda path: path.stem)
async def test_recorded_runs_replay(recorded: Path) -> None:
    history = WorkflowHistory.from_json(f"replay-{recorded.stem}", recorded.read_text())
    await Replayer(workflows=[], plugins=[LifecyclePlugin()]).replay_workflow(history)


def test_every_path_is_recorded() -> None:
    assert {path.stem for path in HISTORIES.glob("*.json")} >= set(PATHS)


@pytest.mark.parametrize("name", PATHS)
async def test_the_commands_are_those_on_record(skipping: WorkflowEnvironment, name: str) -> None:
    """Changed on purpose? Gate it with `workflow.patched()`, then see `tests/replay/record.py`."""
    on_record = json.loads(FINGERPRINTS.read_text())[name]
    assert commands(await play(skipping, name, nudged=False)) == on_record
