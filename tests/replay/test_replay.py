"""A change to a workflow must not break the runs that are under way."""

import json
from pathlib import Path

import pytest
from temporalio.client import WorkflowHistory
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Replayer

from crawler_lifecycle.assembly.plugin import LifecyclePlugin
from tests.replay.record import FINGERPRINTS, HISTORIES, PATHS, commands_of, has_one_order, named, play

each_history = pytest.mark.parametrize("recorded", sorted(HISTORIES.glob("*.json")), ids=lambda path: path.stem)


@each_history
async def test_recorded_runs_replay(recorded: Path) -> None:
    await _replay(recorded, isolated=False)


@pytest.mark.system
@each_history
async def test_recorded_runs_replay_in_the_sandbox(recorded: Path) -> None:
    """The sandbox loads every workflow module for each history, and so takes eight times as long."""
    await _replay(recorded, isolated=True)


async def _replay(recorded: Path, *, isolated: bool) -> None:
    history = WorkflowHistory.from_json(f"replay-{recorded.stem}", recorded.read_text())
    await Replayer(workflows=[], plugins=[LifecyclePlugin(isolated=isolated)]).replay_workflow(history)


def test_every_path_is_recorded() -> None:
    assert {name for name in PATHS if not named(name, 1).exists()} == set()
    assert {name for name, path in PATHS.items() if named(name, 2).exists() is not path.continues} == set()


@pytest.mark.parametrize("name", [name for name, path in PATHS.items() if not path.continues and has_one_order(name)])
@pytest.mark.long
async def test_the_commands_are_those_on_record(skipping: WorkflowEnvironment, name: str) -> None:
    """If they changed on purpose: docs/internals/extend.md ("A workflow") says what to record."""
    assert commands_of(name, await play(skipping, name, nudged=False)) == on_record(name)


@pytest.mark.parametrize("name", [name for name, path in PATHS.items() if path.continues])
@pytest.mark.long
async def test_the_commands_across_executions_are_those_on_record(
    short_histories: WorkflowEnvironment, name: str
) -> None:
    played = await play(short_histories, name, nudged=False)
    assert len(played) > 1
    assert commands_of(name, played) == on_record(name)


def on_record(name: str) -> list[str]:
    commands_on_record: list[str] = json.loads(FINGERPRINTS.read_text())[name]
    return commands_on_record
