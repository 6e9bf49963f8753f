"""Calls of ports that the crash matrix breaks, found in the code of the parts that make them."""

from pathlib import Path
from unittest.mock import Mock

import crawler_lifecycle.clusters.processes as scheduler
from crawler_lifecycle.assembly.parts import Parts
from crawler_lifecycle.assembly.plugin import activities
from crawler_lifecycle.flows.ports.steps import StepLedger
from crawler_lifecycle.managers.authors.link import ManagerLink
from crawler_lifecycle.managers.ports import ManagerLedger
from crawler_lifecycle.runs.processes.dispatcher import Dispatcher
from crawler_lifecycle.runs.processes.watcher import Watcher
from crawler_lifecycle.settings import Settings
from tests.crash.channels import ANSWERED, CALLED, HOST, OBJECT
from tests.crash.hooks import AFTER, BEFORE, OF_STARTS, OF_THE_CLUSTER
from tests.crash.managing import AFTER_THE_EFFECTS, IN_THE_HOOK
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
    "scheduler": asked_in([scheduler], {"cluster": OF_THE_CLUSTER}),
}
CLOSED = f"{HOST}.close.{ANSWERED}"  # the host dies, and the object with the host
OF_HOSTS = {*(f"claims.{method}" for method in methods_of(StepLedger)), "doors.graft"}


def of_activities() -> set[str]:
    """Return `class: port.method` for every call in the code of the activities."""
    return {f"{holder.__name__}: {each}" for holder in HOLDERS.values() for each in asked_by(holder)}


def points_of_managers() -> dict[str, set[str]]:
    """Return the points at which the host or the process of a manager's object dies, by call.

    A call is a message of the object, a transaction of the ledger, or both."""
    messages = {*methods_of(ManagerLink)} - {"now"}  # the object has a clock of its own
    points = {
        name: {f"{side}.{name}.{when}" for side in (HOST, OBJECT) for when in (CALLED, ANSWERED)} for name in messages
    }
    points["enter"] = {point for point in points["enter"] if point.endswith(CALLED)}  # has no answer
    points["delay"] = {point for point in points["delay"] if point.endswith(CALLED)}  # an item is delayed once
    # behind the close on record, the next host ends the manager without a call: the answer has a case of its own
    points["close"] -= {f"{OBJECT}.close.{ANSWERED}", CLOSED}
    points["begin"] = {point for point in points["begin"] if point.startswith(HOST)}  # there is no object before
    for method in methods_of(ManagerLedger):
        points.setdefault(method, set()).update(f"managers.{method}.{when}" for when in (BEFORE, AFTER))
    for call in OF_STARTS:
        points[call] = {f"supervisors.{call}.{when}" for when in (BEFORE, AFTER)}
    points["stop"].discard(f"supervisors.stop.{AFTER}")  # the supervisor asks, too: the next host may find no run open
    points["hook"] = {IN_THE_HOOK, AFTER_THE_EFFECTS}
    return points
