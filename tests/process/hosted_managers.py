"""An author's module with a crawl manager, which notes its processes and its hooks in a file."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from crawler_lifecycle.managers import GeneratorCrawlManager

CALLS = Path(os.environ["DOOMED_FOLDER"]) / "calls"


def note(word: str) -> None:
    with CALLS.open("a") as file:
        file.write(f"{word}\n")


class Shops(GeneratorCrawlManager):
    """Starts a job for each of four shops, two at once."""

    name = "nightly"
    spider = "books"
    loop_mode = 3600
    default_max_jobs = 2

    def set_parameters_gen(self) -> Iterator[Any]:
        yield from ({"shop": name} for name in "abcd")

    def on_start(self, resumed: bool = False) -> None:
        note(f"object {os.getpid()}")

    def finished_ok_hook(self, spider: str, outcome: str, job_args_override: Any, jobkey: str) -> None:
        note(f"hook {jobkey}")
