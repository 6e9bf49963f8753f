"""An author's managers for the crash matrix: their hooks write down their calls, and a call may kill the process."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from crawler_lifecycle.managers import GeneratorCrawlManager, JobParams
from tests.crash.channels import OBJECT, doomed_channel
from tests.crash.deaths import Deaths
from tests.crash.graph import DEATHS, NOTES, calls_of

IN_THE_HOOK, AFTER_THE_EFFECTS = "hook.in", "hook.after"
HELD_BACK = "d"  # delayed until another job has ended
EXTRA = "extra"  # added by the hook of a job
FAILING = "c"  # its first job fails


class Shops(GeneratorCrawlManager):
    """Five shops, two of them twice: a shop fails at first, a shop is delayed, and a hook adds a further shop."""

    name = "shops"
    spider = "gated"
    loop_mode = 30
    MAX_RETRIES = 1

    def __init__(self) -> None:
        super().__init__()
        self._deaths = Deaths(Path(os.environ[NOTES]), json.loads(os.environ[DEATHS]))
        doomed_channel(self._deaths, OBJECT)

    def on_start(self, resumed: bool = False) -> None:
        """Every object has a wish outside of reactions and a line, so that each course comes to their writes."""
        print("begins")
        self.state["objects"] = self.state.get("objects", 0) + 1

    def set_parameters_gen(self) -> Iterator[dict[str, Any]]:
        yield from ({"shop": shop} for shop in ("a", "b", "a", HELD_BACK, FAILING, "b"))

    def can_schedule_job_with_params(self, params: Any) -> bool:
        return (params.get("spider_args") or {}).get("shop") != HELD_BACK or bool(self.stats.get_value("hooks"))

    def finished_ok_hook(self, spider: str, outcome: str, job_args_override: JobParams, jobkey: str) -> None:
        self._note(outcome, jobkey)
        self._deaths.pass_by(IN_THE_HOOK)
        if (job_args_override.get("spider_args") or {}).get("shop") == "a":
            self.add_job(spider, {"spider_args": {"shop": EXTRA}})
        self.stats.inc_value("hooks")
        self.state["last"] = jobkey
        self.append_flow_tag(f"ended={outcome}")
        self._deaths.pass_by(AFTER_THE_EFFECTS)

    def resume_finished_job_hook(self, job: Any) -> None:
        """Lets a resumed object ask for its former jobs."""

    def running_job_hook(self, jobkey: str) -> None:
        """Lets the object ask for its running jobs."""

    def bad_outcome_hook(self, spider: str, outcome: str, job_args_override: JobParams, jobkey: str) -> Any:
        self._note(outcome, jobkey)
        self.stats.inc_value("hooks")
        return super().bad_outcome_hook(spider, outcome, job_args_override, jobkey)

    def _note(self, outcome: str, jobkey: str) -> None:
        with calls_of(os.environ[NOTES]).open("a") as calls:
            calls.write(f"{jobkey} {outcome}\n")


class Polite(Shops):
    """Crawls that end only by a stop."""

    name = "polite"
    spider = "polite"
