"""Runs under a limit and a pause of their site, by the command line, with real jobs."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

from crawler_lifecycle.model.answers import Started
from crawler_lifecycle.model.requests import StopRequest
from crawler_lifecycle.model.states import RunStatus, TaskStatus
from tests.kit.service.embedded import ask
from tests.kit.waiting import eventually
from tests.process.crawls import PATIENCE, Site

pytestmark = [pytest.mark.process, pytest.mark.system, pytest.mark.timeout(240)]
SITE = "site:one-at-a-time.example"


async def limits(stack: Site, *words: str) -> dict[str, Any]:
    status, records = await ask(stack.state, *words)
    assert status == 0, records
    record_of_site: dict[str, Any] = next((record for record in records if record["scope"] == f"label:{SITE}"), {})
    return record_of_site


async def until_in_line(stack: Site, run: Started, cause: str) -> None:
    await eventually(lambda: stack.details(run).run.waiting_cause == cause, patience=PATIENCE)


async def test_runs_of_a_site_follow_each_other_by_priority_and_wait_for_the_end_of_a_pause(stack: Site) -> None:
    site = await limits(stack, "limits", "set", "--label", SITE, "--runs", "1", "--allow-unknown")
    assert (site["runs"], site["runs_begun"]) == (1, 0)
    first = await stack.start(labels=[SITE], tasks=2)
    await stack.until_running(first, 2)
    second = await stack.start(labels=[SITE], tasks=2, start_limit_seconds=1)
    third = await stack.start(labels=[SITE], priority=5)
    for run in (second, third):
        await until_in_line(stack, run, "admission")
    for run, place in ((second, 2), (third, 1)):
        overview = await asyncio.to_thread(stack.control.runs.overview, run.run_id)
        assert overview.run.held_by == f"label:{SITE}"
        assert overview.place is not None
        assert (overview.place.number, overview.place.length) == (place, 2)
        assert stack.statuses(run)[0] is TaskStatus.QUEUED
    assert (await limits(stack, "limits"))["runs_held"] == 2

    paused = await limits(
        stack, "installation", "pause", "--label", SITE, "--allow-unknown", "--reason", "rebuilt", "--actor", "ann"
    )
    assert (paused["paused_by"], paused["paused_reason"]) == ("ann (token embedded)", "rebuilt")
    stack.release(first, 0, 1)
    await stack.assert_true(first, {0: 0, 1: 0})
    for run in (second, third):
        await until_in_line(stack, run, "paused")
    doctor = {check.part: check for check in await stack.control.doctor()}["limits"]
    assert doctor.ok
    assert f"label {SITE} is paused since" in doctor.line

    await limits(stack, "installation", "resume", "--label", SITE)
    await stack.until_running(third, 1)
    assert stack.details(second).run.status is RunStatus.INITIALIZING
    stack.release(third, 0)
    await stack.assert_true(third, {0: 0})
    await stack.until_running(second, 2)
    stack.release(second, 0, 1)
    await stack.assert_true(second, {0: 0, 1: 0})
    assert (await limits(stack, "limits"))["runs_begun"] == 0


async def test_a_run_in_line_is_stopped_and_leaves_the_line(stack: Site) -> None:
    await limits(stack, "limits", "set", "--label", SITE, "--runs", "1", "--allow-unknown")
    first = await stack.start(labels=[SITE])
    await stack.until_running(first, 1)
    second = await stack.start(labels=[SITE])
    await until_in_line(stack, second, "admission")
    await stack.control.runs.stop(second.run_id, StopRequest(reason="not needed"))
    details = await stack.until_over(second)
    assert (details.run.reason, stack.jobs(second)) == ("stopped", {})
    assert (await limits(stack, "limits"))["runs_held"] == 0
    stack.release(first, 0)
    await stack.assert_true(first, {0: 0})
    assert await limits(stack, "limits", "set", "--label", SITE, "--runs", "none") == {}


async def test_a_stop_whose_signal_was_lost_ends_a_run_in_line(stack: Site) -> None:
    """The process of the door died between the write and the signal."""
    await limits(stack, "limits", "set", "--label", SITE, "--runs", "1", "--allow-unknown")
    first = await stack.start(labels=[SITE])
    await stack.until_running(first, 1)
    second = await stack.start(labels=[SITE])
    await until_in_line(stack, second, "admission")
    runs = stack.control.parts.store.runs
    await asyncio.to_thread(runs.request_stop, second.run_id, StopRequest(), datetime.now(UTC))
    await eventually(lambda: stack.details(second).run.status is RunStatus.FAILED, patience=PATIENCE)
    assert stack.details(second).run.reason == "stopped"
    stack.release(first, 0)
    await stack.assert_true(first, {0: 0})
    assert await limits(stack, "limits", "set", "--label", SITE, "--runs", "none") == {}
