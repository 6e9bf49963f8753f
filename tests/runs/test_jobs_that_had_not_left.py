"""A stop of ten thousand was proved while pods that had ended, and their jobs, were still listed: whoever waited for it
to begin the next run found the quota full."""

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import pairwise

import pytest
from temporalio.testing import WorkflowEnvironment

from crawler_lifecycle.model.requests import RunRequest
from tests.kit.temporal.plays import Play, Stage, played
from tests.kit.temporal.script import Script, moments

pytestmark = pytest.mark.regression(
    "A stop was proved while ended pods and their jobs were still listed: the next run found the quota full"
)

LOOK = "get_history_statuses_to_sync"
MINUTE, LONGEST_PAUSE = timedelta(minutes=1), timedelta(seconds=15)
SLACK = timedelta(seconds=5)


async def end_of(stage: Stage) -> str:
    request = RunRequest(crawler="books", grace_seconds=5)
    handle = await stage.start(request, start_signal="stop", start_signal_args=[{"actor": "ann"}])
    return str((await handle.result())["reason"])


async def looks_of(play: Play, script: Script) -> list[datetime]:
    """When it looked, until the stop was proved."""
    looks: list[datetime] = []
    script.before[LOOK] = moments(looks)
    async with play(script) as stage:
        assert await end_of(stage) == "stopped"
    return looks


def proof(script: Script) -> str:
    phases = script.inputs("note_stop_phase")
    assert phases[-1].phase == "proved"
    return str(phases[-1].message)


def assert_not_forced(script: Script) -> None:
    assert [step.stop.actor for step in script.inputs("add_cancellation_log_to_db")] == ["ann"]
    assert "k8_stop_pod" not in script.names


async def test_the_proof_waits_until_they_have_left(play: Play) -> None:
    script = Script(leaving=lambda look: {1: 700, 2: 102}.get(look, 0))
    assert len(await looks_of(play, script)) == 3
    assert "listed" not in proof(script)


@pytest.mark.long
async def test_as_long_as_they_become_fewer_and_nothing_is_forced_meanwhile(play: Play) -> None:
    """The grace period is over long before, but what it is for is over, too."""
    script = Script(leaving=lambda look: max(0, 12 - look))
    looks = await looks_of(play, script)
    assert len(looks) == 12
    assert looks[-1] - looks[0] > MINUTE
    assert max(later - earlier for earlier, later in pairwise(looks)) < LONGEST_PAUSE + SLACK
    assert_not_forced(script)


@pytest.mark.long
async def test_nor_for_it_on_a_cluster_that_answers_every_other_time(play: Play) -> None:
    script = Script(leaving=lambda look: 2, known=lambda look: look % 2 == 1)
    looks = await looks_of(play, script)
    assert MINUTE < looks[-1] - looks[0] < 20 * MINUTE
    assert max(later - earlier for earlier, later in pairwise(looks)) > MINUTE, "an outage is no reason to hurry"
    assert_not_forced(script)


@pytest.mark.parametrize("left", [lambda look: 2, lambda look: 2 + look % 2], ids=["all", "and what flickers"])
@pytest.mark.long
async def test_but_not_for_what_something_holds(play: Play, left: Callable[[int], int]) -> None:
    script = Script(leaving=left)
    looks = await looks_of(play, script)
    assert MINUTE <= looks[-1] - looks[0] < MINUTE + LONGEST_PAUSE + SLACK
    assert "still listed, ended and deleted: " in proof(script)


@pytest.mark.long
async def test_the_pauses_begin_anew_when_all_has_ended(play: Play) -> None:
    script = Script(alive=lambda look: 1 if look < 7 else 0, leaving=lambda look: 1 if look < 8 else 0)
    looks: list[datetime] = []
    script.before[LOOK] = moments(looks)
    async with play(script) as stage:
        await end_of(stage)
    assert looks[7] - looks[6] < timedelta(seconds=2) < looks[6] - looks[5]


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.long
async def test_what_lives_after_all_is_forced_in_time(play: Play, known: bool) -> None:
    script = Script(
        leaving=lambda look: 1 if look == 1 else 0,
        alive=lambda look: 1 if 1 < look < 6 else 0,
        known=lambda look: known or not 1 < look < 6,
    )
    async with play(script) as stage:
        await end_of(stage)
    assert script.looks == 6
    assert "k8_stop_pod" in script.names


@pytest.mark.long
async def test_an_outage_in_which_nothing_could_be_seen_leaving_proves_nothing(play: Play) -> None:
    script = Script(known=lambda look: not 1 < look < 8, leaving=lambda look: {1: 700, 8: 700, 9: 102}.get(look, 0))
    looks = await looks_of(play, script)
    assert looks[7] - looks[0] > MINUTE
    assert len(looks) == 10
    assert "listed" not in proof(script)
    assert_not_forced(script)


@pytest.mark.long
async def test_nor_is_anything_forced_where_the_history_has_become_long(short_histories: WorkflowEnvironment) -> None:
    """The next execution looks after the grace period, and would not know that all has ended."""
    script = Script(leaving=lambda look: max(0, 12 - look))
    async with played(short_histories, script) as stage, asyncio.timeout(60):
        assert await end_of(stage) == "stopped"
    assert_not_forced(script)


async def test_who_asks_is_told_what_the_stop_waits_for(play: Play) -> None:
    script, told = Script(leaving=lambda look: 3 - look), list[str]()

    async def ask() -> None:
        told.append((await handle.query("state"))["waiting_for"])

    script.before[LOOK] = ask
    async with play(script) as stage:
        handle = await stage.start(RunRequest(crawler="books"), start_signal="stop")
        await handle.result()
    assert told == ["the jobs to end", *["what has ended to leave the cluster"] * 2]
