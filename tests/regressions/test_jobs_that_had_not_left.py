"""A stop of ten thousand was proved while pods that had ended, and their jobs, were still listed: whoever waited for it
to begin the next run found the quota full."""

from datetime import datetime, timedelta

import pytest

from crawler_lifecycle.contract.requests import RunRequest
from crawler_lifecycle.workflows.leaving import PATIENCE
from tests.plays import Play
from tests.workflows.script import Script, moments

BOOKS = RunRequest(crawler="books", grace_seconds=5)
LOOK = "get_history_statuses_to_sync"


async def stopped(play: Play, script: Script) -> str:
    """Why the run ended; the looks and the proof are as the script has noted them."""
    async with play(script) as stage:
        handle = await stage.start(BOOKS, start_signal="stop", start_signal_args=[{"actor": "ann"}])
        return str((await handle.result())["reason"])


def proof(script: Script) -> str:
    phases = script.inputs("note_stop_phase")
    assert phases[-1].phase == "proved"
    return str(phases[-1].message)


async def test_the_proof_waits_until_they_have_left(play: Play) -> None:
    script = Script(leaving=lambda look: {1: 700, 2: 102}.get(look, 0))
    assert await stopped(play, script) == "stopped"
    assert script.looks == 3
    assert "holds" not in proof(script)


async def test_as_long_as_they_become_fewer_and_nothing_is_forced_meanwhile(play: Play) -> None:
    """The grace period is over long before, but what it is for is over, too."""
    looks: list[datetime] = []
    script = Script(leaving=lambda look: max(0, 8 - look), before={LOOK: moments(looks)})
    assert await stopped(play, script) == "stopped"
    assert script.looks == 8
    assert looks[-1] - looks[0] > PATIENCE
    assert [step.stop.actor for step in script.inputs("add_cancellation_log_to_db")] == ["ann"]
    assert "k8_stop_pod" not in script.names


async def test_but_not_for_what_something_holds(play: Play) -> None:
    looks: list[datetime] = []
    script = Script(leaving=lambda look: 2, before={LOOK: moments(looks)})
    assert await stopped(play, script) == "stopped"
    assert PATIENCE <= looks[-1] - looks[0] < 2 * PATIENCE
    assert proof(script).endswith("something holds 2 jobs there, ended and deleted")


async def test_the_pauses_begin_anew_when_all_has_ended(play: Play) -> None:
    looks: list[datetime] = []
    script = Script(
        alive=lambda look: 1 if look < 7 else 0,
        leaving=lambda look: 1 if look < 8 else 0,
        before={LOOK: moments(looks)},
    )
    await stopped(play, script)
    assert looks[7] - looks[6] < timedelta(seconds=2) < looks[6] - looks[5]


@pytest.mark.parametrize("known", [True, False])
async def test_what_lives_after_all_is_forced_in_time_and_an_outage_proves_nothing(play: Play, known: bool) -> None:
    """A look that was not made tells neither that anything lives nor that all has left."""
    script = Script(
        leaving=lambda look: 1 if look == 1 else 0,
        alive=lambda look: 1 if known and 1 < look < 6 else 0,
        known=lambda look: known or not 1 < look < 6,
    )
    assert await stopped(play, script) == "stopped"
    assert script.looks == 6
    assert ("k8_stop_pod" in script.names) is known
