from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from uuid import uuid4

import pytest
from temporalio.client import SchedulePolicy, ScheduleSpec

from crawler_lifecycle.assembly.control import Control
from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.model.deployment import Crawler
from crawler_lifecycle.model.requests import RunRequest
from crawler_lifecycle.runs.ports import NewRun
from crawler_lifecycle.schedules.commands import occurrences
from crawler_lifecycle.schedules.commands.occurrences import Occurrences
from crawler_lifecycle.schedules.commands.translation import occurrence_id
from crawler_lifecycle.settings.installation import Installation
from crawler_lifecycle.temporal.engine import Engine
from tests.kit.data.databases import copy_of

pytestmark = pytest.mark.regression(
    "What Temporal has forgotten was shown as skipped, although it had run, if the counter of missed ones was high"
)

JITTER = timedelta(minutes=10)
NIGHTS = [datetime(2026, 11, day, 3, tzinfo=UTC) for day in range(10, 16)]


class Forgetful:
    """A Temporal that knows the times that were due, but no workflow that it started."""

    def calls(self) -> Any:
        return nullcontext()


def description(jitter: timedelta, missed: int) -> Any:
    spec = ScheduleSpec(jitter=jitter)
    policy = SchedulePolicy(catchup_window=timedelta(hours=1))
    schedule = SimpleNamespace(spec=spec, policy=policy, state=SimpleNamespace(note="", paused=False))
    raw = SimpleNamespace(info=SimpleNamespace(buffer_size=0))
    info = SimpleNamespace(num_actions_missed_catchup_window=missed, created_at=NIGHTS[0], last_updated_at=None)
    return SimpleNamespace(id="nightly", schedule=schedule, raw_description=raw, info=info)


def run_of(database: Database, schedule_id: str, nominal: datetime) -> int:
    new = NewRun(
        RunRequest(crawler="books"),
        Crawler(name="books", command=["true"]),
        1,
        occurrence_id(schedule_id, nominal),
        str(uuid4()),
    )
    return SqlStore(database).runs.create(new).run_id


@pytest.mark.parametrize("jitter", [timedelta(), JITTER])
async def test_what_ran_is_told_from_what_was_missed(
    sqlite_template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jitter: timedelta
) -> None:
    database = Database(copy_of(sqlite_template, tmp_path), clock=lambda: NIGHTS[-1] + timedelta(hours=1))
    due = [night + jitter / 2 for night in NIGHTS]
    runs = {at: run_of(database, "nightly", night) for at, night in zip(due[:4], NIGHTS, strict=False)}
    run_of(database, "nightly-too", NIGHTS[4])  # of another schedule

    async def known(*_: object) -> list[Any]:
        return list(due)

    async def forgotten(*_: object) -> list[Any]:
        return []

    monkeypatch.setattr(occurrences, "starts_of", forgotten)
    monkeypatch.setattr(Occurrences, "_latest_due", known)
    context, engine = Control(Installation.with_variables(tmp_path, {})).context, Forgetful()
    context.parts.__dict__["database"] = database
    found = await Occurrences(context, cast("Engine", engine)).latest(description(jitter, missed=9), 6, None)
    database.close()
    assert {each.at: each.run_id for each in found if each.outcome == "started"} == runs
    assert [(each.at, each.reason) for each in found[:2]] == [(at, "missed_window") for at in due[:3:-1]]
