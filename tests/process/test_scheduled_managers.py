"""Crawl managers by the clock: each occurrence is a manager of its own, and a second does not begin beside an open."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kit.service.embedded import ask, crawlctl, processes_of, up

pytestmark = [pytest.mark.process, pytest.mark.system, pytest.mark.timeout(600)]
MANAGER = """
from pathlib import Path

from crawler_lifecycle.managers import GeneratorCrawlManager


class Few(GeneratorCrawlManager):
    name = "few"
    spider = "shop"
    loop_mode = 1
    default_max_jobs = 1

    def set_parameters_gen(self):
        yield from ({"shop": number} for number in range(3))

    def can_schedule_job_with_params(self, params):
        return Path(__file__).with_name("go").exists()
"""


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "few.py").write_text(MANAGER)
    yield tmp_path
    for process in processes_of(tmp_path):
        if process.pid != os.getpid():
            process.kill()


async def to_its_end(home: Path, flow: str) -> dict[str, Any]:
    """Wait for the end of the occurrence's manager, and return the manager."""
    async with crawlctl(home, "flow", "watch", flow, "--state", str(home / "state")) as command:
        assert await command.end(patience=300) == 0, command.output
    _, shown = await ask(home / "state", "flow", "show", flow)
    (manager,) = shown["managers"]
    assert isinstance(manager, dict)
    return manager


async def test_each_occurrence_runs_a_manager_to_its_end(home: Path) -> None:
    state = home / "state"
    async with up(state, "--flows", str(home / "few.py")):
        words = ("monthly", "--manager", f"{home / 'few.py'}:Few", "--cron", "0 0 1 1 *")
        status, schedule = await ask(state, "schedule", "create", *words)
        assert status == 0, schedule
        assert (schedule["flow_id"], schedule["flow"]["family"]) == ("monthly/few", "monthly")
        _, first = await ask(state, "schedule", "trigger", "monthly")
        _, second = await ask(state, "schedule", "trigger", "monthly")
        assert (first["outcome"], second["outcome"]) == ("started", "skipped"), "the first manager is open"

        _, (flow,) = await ask(state, "flow", "list", "--family", "monthly")
        assert flow["id"].startswith("monthly-20")
        assert first["workflow_id"].endswith(flow["id"]), "the flow has the name of the occurrence"
        _, shown = await ask(state, "schedule", "show", "monthly")
        (start,) = shown["other_starts"]
        assert (start["flow_id"], start["flow_state"]) == (flow["id"], "executing"), "a trigger is no due time"
        (home / "go").touch()
        manager = await to_its_end(home, flow["id"])
        assert {name: number for name, number in manager["counts"].items() if number} == {"completed": 3}
        _, runs = await ask(state, "list", "--flow", flow["id"])
        assert all({"FLOW_ID=monthly", "PARENT_NAME=few"} <= set(run["tags"]) for run in runs), json.dumps(runs)

        # the next occurrence knows nothing of the former's parameter sets
        _, third = await ask(state, "schedule", "trigger", "monthly")
        assert third["outcome"] == "started"
        _, listed = await ask(state, "flow", "list", "--family", "monthly")
        (another,) = {entry["id"] for entry in listed} - {flow["id"]}
        assert (await to_its_end(home, another))["counts"]["completed"] == 3
