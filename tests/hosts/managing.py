"""Authors' managers for tests of their host. A test switches faults on by files in a folder."""

import json
import logging
import os
import signal
import struct
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from crawler_lifecycle.managers import CrawlManager, GeneratorCrawlManager, JobDict, JobParams


class Shops(GeneratorCrawlManager):
    """Starts a job for each of three shops."""

    name = "nightly"
    spider = "books"
    loop_mode: float = 60

    def add_argparser_options(self) -> None:
        super().add_argparser_options()
        self.argparser.add_argument("--folder", type=Path)

    def set_parameters_gen(self) -> Iterator[Any]:
        yield from ({"shop": name} for name in "abc")

    def on_start(self, resumed: bool = False) -> None:
        ours = [name for name in os.environ if name.startswith(("CRAWLER_", "TEMPORAL_"))]
        self.log(f"sees {len(ours)} of our variables and {len(open_sockets())} socket")
        print("says hello")
        logging.getLogger("shops").info("logs hello")
        self.log(f"started in {os.getpid()}, resumed: {resumed}")

    def on_close(self) -> None:
        print("says goodbye")

    def fault(self, name: str) -> bool:
        """Whether the test wants the fault, once."""
        try:
            (self.args.folder / name).unlink()
        except FileNotFoundError:
            return False
        return True


class Rhythm(Shops):
    """Sleeps its whole pause, whatever ends meanwhile."""

    wake_on_end = False


class Denies(Shops):
    """Its own `is_finished` knows of no end until the test lets it."""

    def base_loop_tasks(self) -> None:
        with (self.args.folder / "cycles").open("a") as cycles:
            cycles.write(".")

    def is_finished(self, key: str) -> str | None:
        return super().is_finished(key) if (self.args.folder / "knows").exists() else None


def open_sockets() -> list[str]:
    links = Path("/proc/self/fd").iterdir()
    return [str(link.readlink()) for link in links if link.is_symlink() and "socket:" in str(link.readlink())]


def send(content: bytes) -> None:
    """Write to the connection between the process and its host, as nobody should."""
    os.write(int(sys.argv[1]), content)


def message(**fields: Any) -> bytes:
    content = json.dumps(fields).encode()
    return struct.pack(">I", len(content)) + content


class Faulty(Shops):
    """Fails in its hook, as a test wants."""

    def finished_ok_hook(self, spider: str, outcome: str, job_args_override: JobParams, jobkey: str) -> None:
        self.stats.inc_value("hooks")
        if self.fault("dies"):
            os.kill(os.getpid(), signal.SIGKILL)
        if self.fault("exits"):
            os._exit(0)
        if self.fault("hangs"):
            time.sleep(3600)
        if self.fault("hangs after a call"):
            self.is_running(jobkey)
            time.sleep(3600)
        if self.fault("writes garbage"):
            send(b"\xff" * 64)
            time.sleep(3600)
        if self.fault("writes no JSON"):
            send(struct.pack(">I", 5) + b"hello")
            time.sleep(3600)
        if self.fault("calls nonsense"):
            send(message(call="rob", arguments=["bank"]))
            time.sleep(3600)
        if self.fault("calls with nonsense"):
            send(message(call="ended", arguments=[{}]))
            time.sleep(3600)
        if self.fault("claims its end"):
            send(message(closed="finished"))
            time.sleep(3600)
        shop = (job_args_override.get("spider_args") or {}).get("shop")
        names = ("raises", "always", f"always {shop}")
        if self.fault(names[0]) or any((self.args.folder / name).exists() for name in names[1:]):
            raise ValueError("no such shop")
        if self.fault("floods"):
            print("x" * 1_000_000)


class Counting(Shops):
    """Counts failures in its state. The first hook waits as long as a test wants."""

    def bad_outcome_hook(self, spider: str, outcome: str, job_args_override: JobParams, jobkey: str) -> None:
        self.state["ends"] = self.state.get("ends", 0) + 1
        if (waits := self.args.folder / "waits").exists():
            (self.args.folder / "in the hook").write_text(jobkey.split("-")[-2])
            while waits.exists():
                time.sleep(0.01)  # no event tells that a file is gone


class Changing(Shops):
    """Yields other sets than before, as soon as a test wants, and has no keys."""

    dedup = False
    default_max_jobs = 1

    def set_parameters_gen(self) -> Iterator[Any]:
        yield from ({"shop": name} for name in ("xbc" if (self.args.folder / "other").exists() else "abc"))


class SlowlyMade(Shops):
    """Takes an hour until the object is there."""

    def __init__(self) -> None:
        super().__init__()
        (self.args.folder / "begun").touch()
        time.sleep(3600)


class FaultyCycle(Shops):
    """Fails in every cycle, as long as a test wants."""

    def base_loop_tasks(self) -> None:
        if (self.args.folder / "always").exists():
            raise ValueError("no cycle")


class FaultyGenerator(Shops):
    """Raises behind the second of its four sets, as long as a test wants."""

    default_max_jobs = 1

    def set_parameters_gen(self) -> Iterator[Any]:
        yield from ({"shop": name} for name in "ab")
        if (self.args.folder / "always").exists():
            raise ValueError("no third set")
        yield from ({"shop": name} for name in "cd")


class Mixed(Shops):
    """Starts a job of a crawler that does not exist, between two others."""

    def set_parameters_gen(self) -> Iterator[Any]:
        yield from ({"spider": name} for name in ("books", "unknown", "books"))

    dedup = False


class Stalls(Shops):
    """Finishes its first job."""

    def running_job_hook(self, jobkey: str) -> None:
        if self.get_keyvalue_job_tag("JOBSEQ", self.get_job_tags(jobkey)) == "0000000001":
            self.finish(jobkey, "stalled")

    def finished_metadata_hook(self, jobkey: str, metadata: JobDict) -> None:
        self.stats.set_value(f"outcome {metadata['number']}", str(metadata["close_reason"]))
        self.add_job_tags(jobkey, ["SEEN"])


class Projects(Shops):
    """Has jobs of several projects."""

    def set_parameters_gen(self) -> Iterator[Any]:
        yield from ({"shop": shop, "project_id": project} for shop, project in zip("abc", (7, 8, None), strict=True))

    def finished_ok_hook(self, spider: str, outcome: str, job_args_override: JobParams, jobkey: str) -> None:
        self.stats.inc_value(f"ends of {spider}")


class Limited(Shops):
    """Stops its crawls when its time is over, which is when a test wants."""

    loop_mode = 0.5
    max_running_time: float = 3600
    at_limit = "stop"

    def base_loop_tasks(self) -> None:
        if (self.args.folder / "over").exists():
            self.max_running_time = 0.001


class Refused(CrawlManager):
    """Cannot be made: the command line has no spider."""

    name = "nightly"
