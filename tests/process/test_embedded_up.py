"""`crawlctl up`: it comes up, ends in order, and whatever is killed, the next one goes on."""

import os
import shlex
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.kit.outside.disks import small_disk
from tests.kit.service.embedded import ask, crawlctl, processes_of, stack_processes, up
from tests.kit.waiting import eventually

pytestmark = [pytest.mark.process, pytest.mark.system, pytest.mark.timeout(240)]
ALL_BUT_FULL = 60  # MiB: less than a disk has to have free
FLOW = """
from crawler_lifecycle.flows import Workflow, crawl

def count():
    return 1

def workflow():
    return Workflow("shops").add("shop", crawl("my shop")).add("count", count, deps="shop")
"""
PARTS = {"temporal", "scheduler", "dispatcher", "watcher", "api", "lifecycle", "reaper"}


@pytest.fixture
def state(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "state"
    for process in processes_of(tmp_path):
        if process.pid != os.getpid():
            process.kill()


async def test_a_stack_starts_where_a_disk_has_little_room(tmp_path: Path) -> None:
    """The scheduler service was not ready there, and `up` gave up: no run could be shown, and none stopped."""
    with small_disk(tmp_path / "small", ALL_BUT_FULL) as folder:
        state = folder / "state"
        (state / "cluster").mkdir(parents=True)  # as an earlier stack leaves it: only existing folders are checked
        async with up(state), crawlctl(folder, "doctor", "--state", str(state)) as doctor:
            assert await doctor.end() != 0
            assert "FAIL  disk: only " in doctor.output
            assert doctor.output.count("FAIL  ") == 1, doctor.output


async def test_a_run_outlives_every_kind_of_end(state: Path) -> None:
    """One run: through Ctrl-C, a kill -9 of `up` alone, and a kill -9 of all of the service."""
    async with up(state) as first:
        assert set(stack_processes(state)) == PARTS
        status, started = await ask(state, "run", "sleeper", "--arg", "seconds=20", "--detach")
        assert status == 0, started
        run = str(started["run_id"])
        await eventually(lambda: _job(state), patience=20)
        job = _job(state)[0]

        assert await first.end(signal.SIGINT) == 0
    assert "1 job left running" in first.output
    assert _service(state) == []
    assert not (state / "stack.json").exists()
    assert job.is_running()

    async with up(state) as second:
        second.process.kill()
        await second.end()
        await eventually(lambda: not _service(state), patience=20)

    async with up(state) as third:
        everything = [*stack_processes(state).values(), third.process.pid]
        for pid in everything:
            os.kill(pid, signal.SIGKILL)
        await third.end()

    async with up(state) as last:
        status, details = await ask(state, "show", run)
        assert details["run"]["status"] in ("INITIALIZING", "PROCESSING", "COMPLETED")
        async with crawlctl(state.parent, "watch", run, "--state", str(state)) as watching:
            assert await watching.end() == 0, watching.output
        status, details = await ask(state, "show", run)
        assert [(task["status"], task["attempt"], task["exit_code"]) for task in details["tasks"]] == [
            ("SUCCEEDED", 1, 0)
        ]
        assert await last.end(signal.SIGTERM) == 0
    assert processes_of(state) == []


async def test_the_first_command_of_the_help_succeeds(state: Path) -> None:
    """The command failed for want of a site."""
    async with up(state), crawlctl(state.parent, "run", "bookshop", "--state", str(state)) as first:
        assert await first.end() == 0, first.output
        assert "ended COMPLETED (outcome finished, reason all_succeeded)" in first.output


@pytest.mark.parametrize("hosts_a_file", [False, True])
async def test_what_it_suggests_works(state: Path, hosts_a_file: bool) -> None:
    """The suggestion was a crawler in the catalogue of the examples alone, also beside a hosted file."""
    catalogue, flow = state.parent / "own.toml", state.parent / "my_flow.py"
    catalogue.write_text('[crawlers."my shop"]\ncommand = ["true"]\n')
    flow.write_text(FLOW)
    hosted = ["--flows", str(flow)] if hosts_a_file else []
    async with up(state, "--catalogue", str(catalogue), *hosted) as command:
        await command.wait_for("Ctrl-C ends the stack")
        lines = command.output[command.output.index("Try from a second") :].splitlines()[1:4]
        suggested = [shlex.split(line)[1:] for line in lines]
        start = ["flow", "run", str(flow)] if hosts_a_file else ["run", "my shop"]
        assert [suggested[0][:1], suggested[1][: len(start)], suggested[2][:1]] == [["doctor"], start, ["list"]]
        for words in suggested:
            async with crawlctl(state.parent, *words) as tried:
                assert await tried.end() == 0, tried.output


async def test_a_part_that_dies_is_started_again_visibly(state: Path) -> None:
    async with up(state) as command:
        before = stack_processes(state)
        os.kill(before["dispatcher"], signal.SIGKILL)
        await command.wait_for("dispatcher ended with status -9")
        await command.wait_for("dispatcher started again")
        after = stack_processes(state)
        assert after["dispatcher"] != before["dispatcher"]
        assert {name: pid for name, pid in after.items() if name != "dispatcher"} == {
            name: pid for name, pid in before.items() if name != "dispatcher"
        }
        status, checks = await ask(state, "doctor")
        assert status == 0, checks
        await _bad_input_leaves_no_run(state)
        assert await command.end(signal.SIGHUP) == 0
    assert processes_of(state) == []


async def test_stop_jobs_takes_them_along_and_a_second_stack_is_refused(state: Path) -> None:
    async with up(state, "--stop-jobs") as command:
        async with crawlctl(state.parent, "up", "--state", str(state), "--free-ports") as second:
            assert await second.end() == 4
        assert "runs on" in second.output
        assert len(second.output.splitlines()) == 1

        for crawler in ("sleeper", "stubborn"):
            status, started = await ask(state, "run", crawler, "--arg", "seconds=600", "--detach")
            assert status == 0, started
        await eventually(lambda: len(_job(state)) == 2, patience=20)
        assert await command.end(signal.SIGINT) == 0
    assert processes_of(state) == []


@pytest.mark.parametrize("option", ["--temporal-port", "--ui-port", "--scheduler-port", "--api-port"])
async def test_a_port_in_use_is_named_before_anything_starts(state: Path, option: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        async with crawlctl(state.parent, "up", "--state", str(state), "--free-ports", option, port) as command:
            assert await command.end() == 4
    assert len(command.output.splitlines()) == 1
    assert port in command.output
    assert option in command.output
    assert not (state / "stack.json").exists()
    assert not (state / "crawler.db").exists()


@pytest.mark.parametrize("content", [None, "crawlers = 3", "[crawlers.x"])
async def test_a_broken_catalogue_is_one_line(state: Path, content: str | None) -> None:
    catalogue = state.parent / "catalogue.toml"
    if content is not None:
        catalogue.write_text(content)
    words = ("up", "--state", str(state), "--free-ports", "--catalogue", str(catalogue))
    async with crawlctl(state.parent, *words) as command:
        assert await command.end() in (2, 4)
    assert len(command.output.splitlines()) == 1
    assert "catalogue.toml" in command.output
    assert not (state / "crawler.db").exists()


async def _bad_input_leaves_no_run(state: Path) -> None:
    for words, named in ((["no such crawler"], "CRAWLER: "), (["sleeper", "--tasks", "10001"], "tasks: ")):
        status, said = await ask(state, "run", *words, "--detach")
        assert (status, len(said.splitlines())) == (2, 1), said
        assert named in said
    assert await ask(state, "list") == (0, [])


def _job(state: Path) -> list[psutil.Process]:
    return processes_of(state, lambda process: any("tiny_jobs.py" in word for word in process.cmdline()[:3]))


def _service(state: Path) -> list[psutil.Process]:
    """Return the processes of the stack itself: Temporal, the parts with a main in `processes`, the reaper."""

    def is_part(process: psutil.Process) -> bool:
        mains = ("crawler_lifecycle.processes.", "crawler_lifecycle.stack.")
        return any(word == "start-dev" or word.startswith(mains) for word in process.cmdline())

    return processes_of(state, is_part)
