"""The first verb of a `Control` opened the database on its caller's event loop: while that did not answer, nothing else
of the caller's went on."""

import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from crawler_lifecycle.assembly.control import Control
from crawler_lifecycle.assembly.parts import Parts
from crawler_lifecycle.errors import NotReady
from crawler_lifecycle.model.audits import AuditRequest
from crawler_lifecycle.model.requests import RunRequest, StopRequest
from crawler_lifecycle.settings.installation import Installation

pytestmark = pytest.mark.regression(
    "The first verb of a `Control` opened the database on its caller's event loop, and blocked the loop"
)

VERBS: dict[str, Callable[[Control], Awaitable[Any]]] = {
    "start": lambda control: control.runs.start(RunRequest(crawler="books")),
    "stop": lambda control: control.runs.stop(7, StopRequest()),
    "resume": lambda control: control.runs.resume(7),
    "export": lambda control: control.runs.export(7),
    "audit": lambda control: control.audits.start(AuditRequest()),
    "watch": lambda control: anext(control.runs.watch(7)),
}


@pytest.mark.parametrize("verb", VERBS)
async def test_the_database_is_opened_in_a_thread(verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened_by = list[threading.Thread]()

    def away(_: Parts) -> None:
        opened_by.append(threading.current_thread())
        raise NotReady("it does not answer")

    monkeypatch.setattr(Parts, "database", property(away))
    with pytest.raises(NotReady):
        await VERBS[verb](Control(Installation.with_variables(tmp_path, {})))
    assert opened_by
    assert threading.main_thread() not in opened_by
