"""For tests of the embedded stack: `crawlctl` as a process, and what of it is still running."""

import asyncio
import json
import os
import re
import signal
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import psutil

CRAWLCTL = [sys.executable, "-P", "-m", "crawler_lifecycle.cli"]
START_PATIENCE = 100.0
LINK = r"(http://127\.0\.0\.1:\d+)/#token=(\S+)"  # as `crawlctl up` prints it: URL and token


def environment(folder: Path, settings: Mapping[str, str] | None = None) -> dict[str, str]:
    """A user with a home of their own, and only these settings."""
    others = {name: value for name, value in os.environ.items() if not name.startswith(("CRAWLER_", "TEMPORAL_"))}
    # an audit that comes by itself in the middle of a test would mend what the test wants to see broken
    rarely = {"CRAWLER_AUDIT__EVERY_SECONDS": "86400"}
    return others | rarely | {"HOME": str(folder), "TMPDIR": str(folder)} | dict(settings or {})


class Crawlctl:
    """One command under way; its output as it comes."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.output = ""

    async def wait_for(self, pattern: str, patience: float = START_PATIENCE) -> str:
        """Until the output has this; fails with all of it if the command ends before."""
        assert self.process.stdout is not None
        async with asyncio.timeout(patience):
            while not (found := re.search(pattern, self.output)):
                line = await self.process.stdout.readline()
                assert line, f"{pattern!r} never came:\n{self.output}"
                self.output += line.decode()
        return found.group()

    async def end(self, number: signal.Signals | None = None, patience: float = START_PATIENCE) -> int:
        """Waits for its end, after sending this signal; answers its status."""
        assert self.process.stdout is not None
        if number is not None:
            self.process.send_signal(number)
        async with asyncio.timeout(patience):
            self.output += (await self.process.stdout.read()).decode()
            return await self.process.wait()


@asynccontextmanager
async def crawlctl(folder: Path, *words: str, settings: Mapping[str, str] | None = None) -> AsyncIterator[Crawlctl]:
    with (folder / "stderr.log").open("ab") as errors:
        process = await asyncio.create_subprocess_exec(
            *CRAWLCTL,
            *words,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=errors if "--json" in words else asyncio.subprocess.STDOUT,
            env=environment(folder, settings),
            cwd=folder,
        )
    try:
        yield Crawlctl(process)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@asynccontextmanager
async def up(state: Path, *words: str, settings: Mapping[str, str] | None = None) -> AsyncIterator[Crawlctl]:
    options = ["--state", str(state), "--free-ports", *words]
    async with crawlctl(state.parent, "up", *options, settings=settings) as command:
        await command.wait_for("The stack is up")
        yield command


async def ask(state: Path, *words: str) -> tuple[int, Any]:
    """A command's status and its JSON, or what it said was wrong."""
    errors = state.parent / "stderr.log"
    before = errors.stat().st_size if errors.exists() else 0
    async with crawlctl(state.parent, *words, "--state", str(state), "--json") as command:
        status = await command.end()
    return status, json.loads(command.output) if status in (0, 5) else errors.read_text()[before:]


def processes_of(folder: Path, which: Callable[[psutil.Process], bool] = lambda _: True) -> list[psutil.Process]:
    """Return the living processes with this folder in their command or their environment, and their children.

    The environment of a service can be read by root alone; to everybody else a service is the child of its stack.
    """
    members = dict[int, psutil.Process]()
    for process in psutil.process_iter():
        with suppress(psutil.NoSuchProcess):
            if any(str(folder) in word for word in [*process.cmdline(), *_environment(process)]):
                members |= {member.pid: member for member in (process, *process.children(recursive=True))}
    return [process for process in members.values() if _is_alive(process) and which(process)]


def _environment(process: psutil.Process) -> list[str]:
    try:
        return list(process.environ().values())
    except psutil.AccessDenied:
        return []


def _is_alive(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def of_worker(state: Path) -> dict[str, str]:
    """Return the variables that a worker needs beside the recorded variables: the token that permits deployments."""
    return {"CRAWLER_SCHEDULER__TOKEN": (state / "scheduler.token").read_text()}


def stack_processes(state: Path) -> dict[str, int]:
    recorded = json.loads((state / "stack.json").read_text())["processes"]
    return {each["name"]: each["pid"] for each in recorded}
