"""While the whole stack was down, doctor repeated one cause in seven lines, and its remedies left out --state.

Of a part that had ended, doctor's line was no sentence. A worker that was killed was listed like one that works.
A zombie, and a later process with the pid of a part, counted as living.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from crawler_lifecycle.assembly import checks
from crawler_lifecycle.assembly.checks import OF_THE_STACK, check_stack
from crawler_lifecycle.assembly.control import Control
from crawler_lifecycle.errors import NotReady
from crawler_lifecycle.settings import stack_file
from crawler_lifecycle.settings.stack_file import Process, StackFile
from crawler_lifecycle.settings.stack_processes import describe
from crawler_lifecycle.temporal.worker_checks import LONGEST_POLL, check_archive_worker, check_worker
from tests.kit.service.commands import Crawlctl
from tests.kit.waiting import until

pytestmark = pytest.mark.regression(
    "While the whole stack was down, doctor repeated one cause in seven lines, and its remedies left out --state"
)

ELSEWHERE = {"TEMPORAL_ADDRESS": "127.0.0.1:1", "CRAWLER_SCHEDULER__URL": "http://127.0.0.1:1"}


def pid_that_has_ended() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


@pytest.fixture
def zombie() -> Iterator[psutil.Process]:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        seen = psutil.Process(process.pid)
        until(lambda: seen.status() == psutil.STATUS_ZOMBIE, "the end of the process")
        yield seen


def write_stack(state: Path, **pids: int) -> None:
    """Write a stack's file. A pid without a process has a process that has ended."""
    running = {name: describe(name, pid) for name, pid in pids.items()}
    processes = [running[name] or Process(name=name, pid=pid, created=1.0) for name, pid in pids.items()]
    state.mkdir(exist_ok=True)
    stack_file.write(state, StackFile(stack="s", environment=ELSEWHERE, web_ui="", processes=processes))


def mended(output: str) -> list[str]:
    return [line for line in output.splitlines() if line.startswith("FAIL")]


def test_one_cause_is_one_line_with_a_remedy_that_can_be_copied(crawlctl: Crawlctl, state: Path) -> None:
    assert crawlctl("db", "upgrade").exit_code == 0
    doctor = crawlctl("doctor")
    assert doctor.exit_code == 4
    assert mended(doctor.output) == [
        f"FAIL  stack: no stack runs on {state}: start one with `crawlctl up --state {state}`"
    ]
    unchecked = next(line for line in doctor.output.splitlines() if "not checked because of this: " in line)
    assert set(unchecked.partition(": ")[2].split(", ")) == OF_THE_STACK
    checks = json.loads(crawlctl("doctor", "--json").stdout)
    assert {check["part"] for check in checks if check["because_of"] == "stack"} == OF_THE_STACK
    assert not any(check["ok"] for check in checks if check["part"] in OF_THE_STACK)


def test_without_a_state_folder_there_is_one_cause_as_well(crawlctl: Crawlctl, state: Path) -> None:
    (line,) = mended(crawlctl("doctor").output)
    assert (
        line == f"FAIL  stack: there is no state folder {state}: start a stack on it with `crawlctl up --state {state}`"
    )


def test_a_killed_stack_is_the_only_cause(crawlctl: Crawlctl, state: Path) -> None:
    assert crawlctl("db", "upgrade").exit_code == 0
    write_stack(state, temporal=pid_that_has_ended(), scheduler=pid_that_has_ended())
    (line,) = mended(crawlctl("doctor").output)
    assert line.endswith(
        f"every process of the stack on {state} has ended: start the stack again with `crawlctl up --state {state}`"
    )


@pytest.mark.parametrize(
    ("ended", "beginning"),
    [(["lifecycle"], "lifecycle has ended: "), (["api", "watcher"], "api and watcher have ended: ")],
)
def test_parts_that_have_ended_are_told_in_a_sentence(state: Path, ended: list[str], beginning: str) -> None:
    write_stack(state, temporal=os.getpid(), **{name: pid_that_has_ended() for name in ended})
    with pytest.raises(NotReady) as refusal:
        check_stack(Control.open(state).installation)
    assert refusal.value.message.startswith(beginning)


def test_a_zombie_and_a_later_process_with_the_same_pid_have_ended(state: Path, zombie: psutil.Process) -> None:
    write_stack(state, temporal=os.getpid(), api=zombie.pid, watcher=os.getpid())
    stack = stack_file.read(state)
    assert stack
    earlier = stack.processes[2].model_copy(update={"created": stack.processes[2].created - 60})
    stack_file.write(state, stack.model_copy(update={"processes": [*stack.processes[:2], earlier]}))
    with pytest.raises(NotReady, match=r"^api and watcher have ended: "):
        check_stack(Control.open(state).installation)


def test_an_outage_of_temporal_alone_is_told_once(
    crawlctl: Crawlctl, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert crawlctl("db", "upgrade").exit_code == 0
    monkeypatch.setenv("TEMPORAL_ADDRESS", "127.0.0.1:1")
    checks = {check["part"]: check for check in json.loads(crawlctl("doctor", "--json").stdout)}
    assert {part for part, check in checks.items() if check["because_of"] == "temporal"} == {
        "temporal retention", "search attributes", "starts", "worker", "archive worker", "audit",
    }  # fmt: skip
    assert (checks["stack"]["ok"], checks["installation"]["because_of"]) == (True, "scheduler service")


def test_a_slow_database_is_told(crawlctl: Crawlctl, state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert crawlctl("db", "upgrade").exit_code == 0
    monkeypatch.setattr(checks, "SLOW_SECONDS", 0.0)
    database = next(check for check in json.loads(crawlctl("doctor", "--json").stdout) if check["part"] == "database")
    assert not database["ok"]
    assert "is slow: an answer took" in database["line"]


def test_errors_of_commands_name_the_state_folder(crawlctl: Crawlctl, state: Path) -> None:
    assert f"start the stack with `crawlctl up --state {state}`, or run `crawlctl db upgrade --state {state}`" in (
        crawlctl("stop", "1", "--direct").output
    )


async def test_a_worker_that_is_silent_is_told_apart(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine, now = Control.open(state).engine, time.time()
    pollers: dict[str, float] = {}

    async def known() -> dict[str, float]:
        return pollers

    monkeypatch.setattr(engine, "pollers", known)
    monkeypatch.setattr(engine, "archive_pollers", known)
    pollers["killed@here"] = now - LONGEST_POLL - 100
    with pytest.raises(NotReady, match=r"no worker asks .*killed@here \(asked 17\d s ago\); start"):
        await check_worker(engine)
    assert "ended or without a free slot: killed@here (asked 17" in await check_archive_worker(engine)
    pollers["works@here"] = now - 10
    for check in (check_worker, check_archive_worker):
        line = await check(engine)
        assert "works@here (asked 1" in line.partition("; ended or without a free slot: killed@here (asked 17")[0]
