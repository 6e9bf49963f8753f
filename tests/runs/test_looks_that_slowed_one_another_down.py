"""A worker looked at a hundred runs at once. Each look took seconds, since the looks shared two cores, and the pause
until the next look at a run is ten times as long as the last look: a wave of changes in 400 runs took 18 s, not 12."""

from dataclasses import replace
from threading import Semaphore
from types import SimpleNamespace
from typing import Any

import pytest

from crawler_lifecycle.errors import TemporaryError
from crawler_lifecycle.model.run_plan import RunInput
from crawler_lifecycle.model.task_changes import LookAt
from crawler_lifecycle.runs.activities import reconciliation
from tests.kit.service.rig import Rig

pytestmark = pytest.mark.regression(
    "A worker looked at a hundred runs at once: each look took seconds, and the pauses between looks grew"
)


class Turn(Semaphore):
    """A turn that comes after a minute on the test's clock."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds = 0.0
        self.is_taken = False

    def acquire(self, *args: Any, **kwargs: Any) -> bool:
        self.seconds += 60
        self.is_taken = super().acquire(*args, **kwargs)
        return self.is_taken


def test_a_wait_for_the_turn_is_no_part_of_the_look(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    turn = Turn()
    monkeypatch.setattr(reconciliation, "time", SimpleNamespace(monotonic=lambda: turn.seconds))
    plan = rig.started("sleepy", tasks=1)
    activities = replace(rig.reconciliation, turns=turn)
    active = activities.get_active_running_tasks(RunInput(run=plan.run))
    differences = activities.get_history_statuses_to_sync(LookAt(run=plan.run, active=active))
    assert turn.is_taken
    assert differences.known
    assert differences.seconds == 0


def test_few_looks_run_at_once(rig: Rig) -> None:
    taken = [rig.reconciliation.turns.acquire(blocking=False) for _ in range(100)]
    assert sum(taken) == reconciliation.LOOKS_AT_ONCE


def test_a_wait_for_the_turn_has_a_limit(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconciliation, "LONGEST_TURN", 0.01)
    plan = rig.started("sleepy", tasks=1)
    activities = replace(rig.reconciliation, turns=Semaphore(0))
    active = activities.get_active_running_tasks(RunInput(run=plan.run))
    with pytest.raises(TemporaryError, match="other runs"):
        activities.get_history_statuses_to_sync(LookAt(run=plan.run, active=active))


def test_a_failed_look_gives_its_turn_back(rig: Rig) -> None:
    plan = rig.started("sleepy", tasks=1)
    turns = Semaphore(1)
    activities = replace(rig.reconciliation, turns=turns)
    active = activities.get_active_running_tasks(RunInput(run=plan.run))
    broken: Any = None
    with pytest.raises(AttributeError):
        replace(activities, cluster=broken).get_history_statuses_to_sync(LookAt(run=plan.run, active=active))
    assert activities.get_history_statuses_to_sync(LookAt(run=plan.run, active=active)).known
