"""Does the example that stops, forces, resumes and reopens runs show what it says, and leave nothing behind?"""

import asyncio
import os
import re
import sys
from pathlib import Path

import pytest

from tests.kit.service.embedded import environment, processes_of

EXAMPLE = Path(__file__).parents[2] / "examples" / "control.sh"
RECORDED = EXAMPLE.parents[1] / "docs" / "howto" / "control-example.md"
PATIENCE = 150.0
EXPECTED = [  # in this order
    r"Stop requested for run 1",
    r"run 1  stop asked \S+ by ann \(token embedded\), api: wrong arguments",
    r"run 1  confirmed stopped after \d+\.\d s: no job of the run is left in the cluster",
    r"run 1 ended STOPPED \(outcome cancelled, reason stopped\): 3 STOPPED",
    r"Stop requested for run 2",
    r"Forced stop requested for run 2",
    r"run 2  jobs killed after \d+\.\d s: 1 job killed",
    r"run 2  confirmed stopped after",
    r"run 3 continues under workflow crawl-key-\w+, epoch 2: PROCESSING",
    r"run 3 ended COMPLETED \(outcome finished, reason all_succeeded\): 1 SUCCEEDED",
    r"run 1 continues under workflow crawl-key-\w+, epoch 2: INITIALIZING",
    r"run 1 ended COMPLETED \(outcome finished, reason all_succeeded\): 3 SUCCEEDED",
    r"task 2 +SUCCEEDED .*attempt 2",
    r"ended: FAILED: the run was stopped",
    r"reopened: its workflow continues",
    r"ended: COMPLETED: all tasks succeeded",
    r"3 +brief +COMPLETED",
    r"2 +stubborn +STOPPED +cancel_timeout +stopped_forced",
    r"1 +moody +COMPLETED",
]

pytestmark = [pytest.mark.process, pytest.mark.system, pytest.mark.timeout(240)]


def assert_told(told: str) -> None:
    position = 0
    for pattern in EXPECTED:
        found = re.compile(pattern).search(told, position)
        assert found, f"{pattern!r} is not among what follows:\n{told[position:]}"
        position = found.end()


def test_what_is_recorded_of_it_is_what_it_says() -> None:
    assert_told(RECORDED.read_text())


async def test_three_runs_are_controlled(folder: Path) -> None:
    ours = environment(folder)
    process = await asyncio.create_subprocess_exec(
        *("sh", str(EXAMPLE)),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env=ours | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{ours['PATH']}"},
        cwd=folder,
    )
    try:
        async with asyncio.timeout(PATIENCE):
            output, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    told = output.decode()
    assert process.returncode == 0, told
    assert_told(told)
    assert processes_of(folder) == []
    assert not list(folder.glob("tmp*")), "its folder is gone"
