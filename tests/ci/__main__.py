"""`python -m tests.ci`: run everything that has to pass. Of the suites that take long, run one shard; `--all`: all."""

import argparse
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial

from tests.ci.shards import SHARDS, checked, chosen
from tests.ci.steps import Failed, Repeat, Step, done, summary

BUILD = ("nice", "-n", "10", sys.executable, "-m", "tests.kubernetes.programs")


def main() -> int:
    parser = argparse.ArgumentParser(prog="make ci", description=__doc__)
    parser.add_argument("--all", action="store_true", help="run every shard")
    parser.add_argument("--shard", default=os.environ.get("SHARD", ""), help=f"1 to {SHARDS}; default: by rotation")
    parser.add_argument("--seed", default="", help="of the chaos")
    asked = parser.parse_args()
    try:
        shard = None if asked.all else _announced(asked.shard)
    except ValueError as error:
        parser.error(f"SHARD={asked.shard}: {error}")
    with _programs_are_built() as build:
        failure = _run_and_tell(shard, asked.seed, build)
    print("\n".join(summary()), flush=True)
    if failure:  # last: of a long output, often the end alone is kept
        print(f"CI: FAILED: {failure}", flush=True)
    return int(bool(failure))


def _run_and_tell(shard: int | None, seed: str, build: "subprocess.Popen[bytes]") -> str:
    """Return what failed."""
    try:
        _run(shard, seed, build)
    except Failed as failed:
        return str(failed)
    return ""


def _announced(said: str) -> int:
    number, why = chosen(said)
    print(f"CI: shard {number} of {SHARDS}, chosen by {why}; SHARD=n chooses, `make ci-all` runs all", flush=True)
    return number


def _run(shard: int | None, seed: str, build: "subprocess.Popen[bytes]") -> None:
    part = () if shard is None else (f"SHARD={checked(str(shard))}",)
    minutes = 180 if shard is None else 30
    # The cases of all shards in one stack would keep each other from being in time.
    crashes = range(1, SHARDS + 1) if shard is None else (shard,)
    for step in (
        Step("lint"),
        Step("docs"),
        Step("known-holes"),
        Step("test", repeat=Repeat.TESTS),
        Step("test-long", repeat=Repeat.TESTS),
        Step("test-databases", part, Repeat.TESTS, minutes),
        Step("test-mysql", part, Repeat.TESTS, minutes),
        Step("test-sequences", part, Repeat.TESTS, minutes),
        Step("test-system", part, Repeat.TESTS, minutes),
        *(Step("test-crashes", (f"SHARD={number}",), Repeat.TESTS) for number in crashes),
        *([Step("test-large", (), Repeat.TESTS)] if shard is None else []),
    ):
        done(step)
    if build.poll() is None:
        print("CI: test-cluster waits until the programs of the control plane are built", flush=True)
    # Chaos and outages wait more than they compute, as the cluster's tests do.
    outages = Step("test-outages", part, Repeat.TESTS, minutes)
    faults = (Step("chaos", (f"SEED={seed}",)), outages, Step("test-triggers"))
    cluster = Step("test-cluster", part, Repeat.FILES, minutes + 10)  # may wait for the build of its programs
    with ThreadPoolExecutor() as lanes:
        results = [lanes.submit(partial(_each, faults)), lanes.submit(done, cluster)]
    for result in results:
        result.result()


def _each(steps: tuple[Step, ...]) -> None:
    for step in steps:
        done(step)


@contextmanager
def _programs_are_built() -> Iterator["subprocess.Popen[bytes]"]:
    """Build the programs of the control plane beside the first steps. `make test-cluster` waits for the build's end."""
    build = subprocess.Popen(BUILD, stdout=subprocess.DEVNULL, start_new_session=True)
    try:
        yield build
    finally:
        if build.poll() is None:  # a build that outlives a failed CI keeps the pipe of its output open
            os.killpg(build.pid, signal.SIGTERM)
            build.wait()


if __name__ == "__main__":
    raise SystemExit(main())
