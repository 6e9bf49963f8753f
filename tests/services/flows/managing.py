"""Authors' managers for tests of their host. A test switches faults on by files in a folder."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from crawler_lifecycle.managers import CrawlManager, GeneratorCrawlManager, JobParams


class Shops(GeneratorCrawlManager):
    """Starts a job for each of three shops."""

    name = "nightly"
    spider = "books"
    loop_mode = 60

    def add_argparser_options(self) -> None:
        super().add_argparser_options()
        self.argparser.add_argument("--folder", type=Path)

    def set_parameters_gen(self) -> Iterator[Any]:
        yield from ({"shop": name} for name in "abc")

    def on_start(self, resumed: bool = False) -> None:
        ours = [name for name in os.environ if name.startswith(("CRAWLER_", "TEMPORAL_"))]
        self.log(f"sees {len(ours)} of our variables")
        self.log(f"started in {os.getpid()}, resumed: {resumed}")

    def fault(self, name: str) -> bool:
        """Whether the test wants the fault, once."""
        try:
            (self.args.folder / name).unlink()
        except FileNotFoundError:
            return False
        return True


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
        if self.fault("raises") or (self.args.folder / "always").exists():
            raise ValueError("no such shop")
        if self.fault("floods"):
            print("x" * 1_000_000)


class Refused(CrawlManager):
    """Cannot be made: the command line has no spider."""

    name = "nightly"
