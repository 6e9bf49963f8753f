import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from datetime import UTC, datetime

import pytest

from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.flows import Workflow
from crawler_lifecycle.flows.cli import watching
from crawler_lifecycle.flows.cli.watching import show_changes
from crawler_lifecycle.flows.commands.members import member_records
from crawler_lifecycle.flows.model.records import FlowChange, MemberRecord
from crawler_lifecycle.flows.model.requests import PushFlow
from crawler_lifecycle.flows.rules.summary import status_of
from tests.client.conftest import Hand
from tests.kit.authors.work import plain

pytestmark = pytest.mark.regression("`flow watch` printed nothing while all jobs waited for a host")


async def test_a_silent_flow_says_once_what_its_jobs_wait_for(
    stored: SqlStore, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(watching, "SILENT_SECONDS", 0.001)
    third, calls, lines = asyncio.Event(), list[str](), watching.waiting_lines

    def counted_lines(flow: str, jobs: Iterable[MemberRecord]) -> Iterator[str]:
        calls.append(flow)
        if len(calls) == 3:
            third.set()
        return lines(flow, jobs)

    monkeypatch.setattr(watching, "waiting_lines", counted_lines)
    workflow = Workflow("shops", id="w").add("load", plain).add("parse", plain)
    stored.flow_doors.push(PushFlow(definition=workflow.definition()))
    assert Hand(stored, "w", stored.flow_records.uid_of("w")).flow.epoch
    kept = stored.flow_records.kept("w")
    status = status_of(stored.flow_records.tallies("w"), datetime.now(UTC))
    change = FlowChange(status=status, is_over=False, jobs=tuple(member_records(kept)))

    async def changes() -> AsyncIterator[FlowChange]:
        yield change
        await third.wait()

    await show_changes(changes())
    module = plain.__module__
    expected = f"host:{module}: no host has taken the step yet (crawlctl host {module})"
    assert capsys.readouterr().out.count(f"shops  waits      2 jobs: {expected}") == 1
