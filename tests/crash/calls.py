"""Calls of ports that the crash matrix breaks, found in the code of the parts that make them."""

from pathlib import Path
from unittest.mock import Mock

import crawler_lifecycle.services.placing as placing
import crawler_lifecycle.services.scheduler as scheduler
from crawler_lifecycle.bootstrap.parts import Parts
from crawler_lifecycle.bootstrap.steps import activities
from crawler_lifecycle.ports import StepClaims
from crawler_lifecycle.services.dispatcher import Dispatcher
from crawler_lifecycle.services.watcher import Watcher
from crawler_lifecycle.settings import Settings
from tests.crash.hooks import OF_THE_CLUSTER
from tests.crash.ports import asked_by, asked_in, methods_of


def _registered() -> list[object]:
    """Return the activities as the worker registers them; nothing is connected to."""
    parts = Parts(Settings(state=Path("nowhere")))
    vars(parts).update(database=Mock(), cluster=Mock(), deployer=Mock())
    return list(activities(parts, Mock(), search_attributes=False))


REGISTERED = _registered()
HOLDERS = {each.__temporal_activity_definition.name: type(each.__self__) for each in REGISTERED}  # type: ignore[attr-defined]
NAMES = list(HOLDERS)
CALLS = {
    "dispatcher": asked_by(Dispatcher),
    "watcher": asked_by(Watcher) | {"engine.nudge"},
    "scheduler": asked_in([scheduler, placing], {"cluster": OF_THE_CLUSTER}),
}
OF_HOSTS = {*(f"claims.{method}" for method in methods_of(StepClaims)), "doors.graft"}


def of_activities() -> set[str]:
    """Return `class: port.method` for every call in the code of the activities."""
    return {f"{holder.__name__}: {each}" for holder in HOLDERS.values() for each in asked_by(holder)}
