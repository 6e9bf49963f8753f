"""An author's managers for the benchmark of managers."""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from crawler_lifecycle.managers import GeneratorCrawlManager
from crawler_lifecycle.managers.authors.parameters import Item

PATIENT = 3600


class Repeating(GeneratorCrawlManager):
    """Parameter sets, every second of them a repeat of the set before."""

    name = "repeating"
    spider = "nothing"
    loop_mode = PATIENT
    dont_acquire_finished_jobs = True

    def add_argparser_options(self) -> None:
        super().add_argparser_options()
        self.argparser.add_argument("--sets", type=int, required=True)

    def set_parameters_gen(self) -> Iterator[Any]:
        yield from ({"number": str(number // 2)} for number in range(self.args.sets))


class WithCursor(Repeating):
    """The same, with a cursor."""

    name = "with-cursor"

    def set_parameters_gen(self, cursor: int | None = None) -> Iterator[Any]:
        for number in range(cursor or 0, self.args.sets):
            yield Item({"number": str(number // 2)}, cursor=number + 1)


class Gated(Repeating):
    """The same, after a gate: no job starts before the file is there."""

    name = "gated"
    loop_mode = 2

    def add_argparser_options(self) -> None:
        super().add_argparser_options()
        self.argparser.add_argument("--gate", type=Path, required=True)

    def can_schedule_job_with_params(self, params: Any) -> bool:  # noqa: ARG002 - the author's method
        return bool(self.args.gate.exists())


class Waiting(GeneratorCrawlManager):
    """A manager whose only job is held back by its author."""

    name = "waiting"
    spider = "nothing"
    loop_mode = PATIENT

    def set_parameters_gen(self) -> Iterator[dict[str, argparse.Action]]:
        yield {}

    def can_schedule_job_with_params(self, params: Any) -> bool:  # noqa: ARG002 - the author's method
        return False
