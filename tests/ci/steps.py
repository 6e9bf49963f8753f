"""Steps of CI are targets of the Makefile. A step whose tests failed is repeated once, with these tests only."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from threading import Thread
from typing import IO

CACHES = Path(".pytest_cache") / "ci"  # one for each step: two steps at a time write the names of what failed
ONLY_FAILED = "--last-failed --last-failed-no-failures=none"


class Failed(Exception):
    """The step that failed; of the ones that are repeated, also when it was repeated."""


class Hung(Exception):
    """A step that was killed at its limit."""


class Repeat(Enum):
    """What is repeated when tests of a step fail. Tests of a control plane need those before them in their file."""

    NOTHING = "nothing"
    TESTS = "tests"
    FILES = "files"


@dataclass(frozen=True)
class Step:
    target: str
    variables: tuple[str, ...] = ()
    repeat: Repeat = Repeat.NOTHING
    most_minutes: float = 30

    @property
    def cache(self) -> Path:
        return CACHES / self.target

    def failed(self) -> set[str]:
        """The tests that failed when they last ran."""
        names = self.cache / "v" / "cache" / "lastfailed"
        return set(json.loads(names.read_text())) if names.exists() else set()


_minutes: dict[str, float] = {}
_passed_when_repeated: list[str] = []
_hung: list[str] = []
_last_lines: dict[str, deque[str]] = {}
REST_OF_OUTPUT = 5.0
KEPT_LINES, SHOWN_LINES, SHOWN_LENGTH = 2000, 10, 250
TELLING = ("DIVERGENCE", "FAILED ", "ERROR ", "E  ", "Error", "error:")


def done(step: Step) -> None:
    """Run the step; raise Failed if it fails."""
    began = time.monotonic()
    shutil.rmtree(step.cache, ignore_errors=True)
    try:
        if not _made_in_time(step) and not _passes_again(step):
            raise Failed("\n".join([step.target, *_telling_lines(step)]))
    except Hung as hung:
        raise Failed("\n".join([f"{step.target} hung", *_telling_lines(step)])) from hung
    finally:
        minutes = (time.monotonic() - began) / 60
        _minutes[step.target] = _minutes.get(step.target, 0.0) + minutes  # of all its shards
        print(f"CI: {' '.join([step.target, *step.variables])} took {minutes:.1f} minutes", flush=True)


def summary() -> list[str]:
    """Return what to print at the end: minutes of each step, and the tests that passed only when they were repeated."""
    minutes = ", ".join(f"{target} {each:.1f}" for target, each in _minutes.items())
    repeated = [f"CI: passed only when repeated: {name}" for name in _passed_when_repeated]
    hung = [f"CI: killed at its limit, then repeated: {target}" for target in _hung]
    return [f"CI: minutes: {minutes}", *hung, *(repeated or ["CI: no test had to be repeated to pass"])]


def _telling_lines(step: Step) -> list[str]:
    """Return lines of a failed step that name the failure, for the end of the output: all before may be cut away."""
    kept = [line.rstrip("\n")[:SHOWN_LENGTH] for line in _last_lines.get(step.target, ())]
    lines = [line for line in kept if not line.startswith("make")]
    return [line for line in lines if any(word in line for word in TELLING)][-SHOWN_LINES:] or lines[-SHOWN_LINES:]


def _made_in_time(step: Step) -> bool:
    """Run the step. A step that hangs is killed and runs a second time: one frozen process must not cost the result."""
    try:
        return _made(step)
    except Hung:
        print(f"CI: {step.target} hung for {step.most_minutes:.0f} minutes, was killed, and runs again", flush=True)
    _hung.append(step.target)
    shutil.rmtree(step.cache, ignore_errors=True)
    return _made(step)


def _passes_again(step: Step) -> bool:
    failed = step.failed()
    if step.repeat is Repeat.NOTHING or not failed:
        return False
    print(
        f"CI: {step.target}: {len(failed)} failed and must pass when repeated: {' '.join(sorted(failed))}", flush=True
    )
    if not _repeated(step, failed):
        return False
    _passed_when_repeated.extend(sorted(failed))
    return True


def _repeated(step: Step, failed: set[str]) -> bool:
    """Run the failed tests, or their files, on one worker and without regard to shards."""
    alone = ("WORKERS=0", "BEDS=0", "SHARD=")
    if step.repeat is Repeat.FILES:
        files = sorted({name.partition("::")[0] for name in failed})
        return _made(step, *alone, f"FILES={' '.join(files)}")
    return _made(step, *alone, options=ONLY_FAILED)


def _made(step: Step, *variables: str, options: str = "") -> bool:
    told = {"CI": "true", "PYTEST_ADDOPTS": f"-o cache_dir={step.cache} {options}"}
    command = ["make", "--no-print-directory", step.target, *step.variables, *variables]
    kept = _last_lines[step.target] = deque[str](maxlen=KEPT_LINES)
    make = subprocess.Popen(
        command,
        env=os.environ | told,
        process_group=0,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        errors="replace",
    )
    with _printed(make.stdout, kept):
        try:
            return make.wait(step.most_minutes * 60) == 0
        except subprocess.TimeoutExpired as late:
            raise Hung(step.target) from late
        finally:
            with suppress(ProcessLookupError):  # all processes of the step have ended
                os.killpg(make.pid, signal.SIGKILL)
            make.wait()


@contextmanager
def _printed(output: IO[str] | None, kept: "deque[str]") -> Iterator[None]:
    """Print the output while the step runs, and keep its last lines."""
    assert output is not None

    def copy() -> None:
        for line in output:
            kept.append(line)
            sys.stdout.write(line)
            sys.stdout.flush()

    copying = Thread(target=copy, daemon=True)
    copying.start()
    try:
        yield
    finally:
        copying.join(REST_OF_OUTPUT)  # a process that left the step's group may keep the pipe open
