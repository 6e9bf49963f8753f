from datetime import datetime, timedelta
from typing import Any

import click
import pytest

from crawler_lifecycle.database.database import Database
from crawler_lifecycle.flows import Workflow, crawl
from crawler_lifecycle.flows.cli.lines import job_lines
from crawler_lifecycle.flows.commands.members import member_records
from crawler_lifecycle.flows.model.records import MemberRecord
from crawler_lifecycle.flows.ports.records import Part
from crawler_lifecycle.model.flow_states import MemberState
from tests.flows.plays import NOW
from tests.kit.authors.work import plain
from tests.kit.data.flows import FAILED, Flow, pushed
from tests.kit.data.statements import plan_of

pytestmark = pytest.mark.regression(
    "The column TOOK of a retried job counted from its first start of all, the time between the generations included"
)

HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)


def records(flow: Flow, part: Part | None = None) -> dict[str, MemberRecord]:
    return {job.path: job for job in member_records(flow.store.flow_records.kept(flow.id, part))}


def starts(flow: Flow, path: str) -> list[datetime]:
    """Return the starts of the member's attempts, oldest first."""
    return [attempt.created_at for attempt in flow.store.flow_records.attempts(flow.id, flow.row(path).number)]


def fail(flow: Flow, path: str) -> None:
    start = flow.start(path)
    flow.begin_steps(start)
    flow.end(start, kind=FAILED, reason="no luck")


def test_a_job_began_with_the_first_start_since_its_last_retry(database: Database) -> None:
    flow = pushed(
        database, Workflow("w", id="w").add("a", plain, retries=1).add("b", plain).add("shop", crawl("books"))
    )
    assert records(flow)["a"].began_at is None
    fail(flow, "a")
    assert records(flow)["a"].began_at == records(flow)["a"].started_at == starts(flow, "a")[0]
    fail(flow, "a")
    flow.retry("a")
    job = records(flow)["a"]
    assert (job.state, job.began_at) == (MemberState.AVAILABLE, None), "the retried job has not begun anew"
    assert job.started_at == starts(flow, "a")[0], "the first start of all stays"
    fail(flow, "a")
    fail(flow, "a")
    began = starts(flow, "a")[2]
    assert records(flow)["a"].began_at == began, "the second attempt since the retry is no new beginning"
    assert records(flow, Part(paths=["a", "b"]))["a"].began_at == began
    assert records(flow)["b"].began_at is None


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_starts_are_read_for_retried_members_alone(database: Database) -> None:
    flow = pushed(database, Workflow("w", id="w").add("a", plain, retries=0).add_many("m", [plain] * 3))
    fail(flow, "a")
    flow.begin_steps(*(flow.start(f"m/{number}") for number in range(3)))
    flow.retry("a")
    plan = plan_of(database, lambda: flow.store.flow_records.kept(flow.id))
    for table in ("flow_attempts", "attempt_begins"):
        assert f"SCAN {table}" not in plan, plan
        assert f"SEARCH {table} USING INDEX sqlite_autoindex_{table}_1 (flow=? AND member=?)" in plan, plan


def test_the_table_leaves_out_the_time_between_generations() -> None:
    first: dict[str, Any] = {
        "flow_id": "w",
        "path": "a",
        "number": 0,
        "kind": "step",
        "title": "plain",
        "started_at": NOW,
    }
    again = MemberRecord(
        **first, state=MemberState.COMPLETED, began_at=NOW + 2 * HOUR, ended_at=NOW + 2 * HOUR + MINUTE
    )
    waiting = MemberRecord(**first, state=MemberState.AVAILABLE)
    heading, *rows = map(click.unstyle, job_lines([again, waiting], NOW + 3 * HOUR))
    assert [row[heading.index("TOOK") :].split()[0] for row in rows] == ["1m00s", "-"]
