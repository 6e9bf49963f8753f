"""An author's managers for the soak and the outages: their hooks write down their calls on another disk."""

import os
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

from crawler_lifecycle.managers import GeneratorCrawlManager, JobParams
from tests.chaos.graph import TRUTH

REPEATED = 2  # parameter sets of each manager that come again
AT_ONCE = 2


class Shops(GeneratorCrawlManager):
    """Crawls each shop once, the failing shops twice."""

    name = "shops"
    spider = "soon"
    loop_mode = 20
    default_max_jobs = AT_ONCE
    MAX_RETRIES = 1

    def add_argparser_options(self) -> None:
        super().add_argparser_options()
        self.argparser.add_argument("--shops", type=int, required=True)

    def set_parameters_gen(self) -> Iterator[dict[str, Any]]:
        for number in [*range(self.args.shops), *range(REPEATED)]:
            yield {"shop": str(number)} | ({"spider": "soon-failing"} if number == 1 else {})

    def finished_ok_hook(self, spider: str, outcome: str, job_args_override: JobParams, jobkey: str) -> None:
        self._note(spider, outcome, jobkey)

    def bad_outcome_hook(self, spider: str, outcome: str, job_args_override: JobParams, jobkey: str) -> Any:
        self._note(spider, outcome, jobkey)
        return super().bad_outcome_hook(spider, outcome, job_args_override, jobkey)

    def _note(self, spider: str, outcome: str, jobkey: str) -> None:
        self.stats.inc_value("hooks")
        with hooks_in(Path(os.environ[TRUTH]), self.begun.flow_uid).open("a") as notes:
            notes.write(f"{jobkey} {spider} {outcome}\n")


class Branches(Shops):
    """Crawls shops without an end, a few at once. Each crawl runs until a test ends it."""

    name = "branches"
    spider = "polite"

    def set_parameters_gen(self) -> Iterator[dict[str, Any]]:
        yield from ({"shop": str(number)} for number in count())


def hooks_in(folder: Path, flow_uid: str) -> Path:
    """Return the file with the calls of a manager's hooks."""
    return folder / f"{flow_uid}.hooks"
