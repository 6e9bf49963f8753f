"""GeneratorCrawlManager: jobs from the author's generator, up to a number at once."""

from collections.abc import Iterable, Sequence
from typing import Any, cast

from crawler_lifecycle.contract.managers.items import Origin, Waiting
from crawler_lifecycle.contract.managers.turns import Begun, Counts
from crawler_lifecycle.managers.calls import completed
from crawler_lifecycle.managers.crawl_manager import CrawlManager
from crawler_lifecycle.managers.generator import Generator
from crawler_lifecycle.managers.link import ManagerLink
from crawler_lifecycle.managers.mixins import AsyncSchedulerCrawlManagerMixin
from crawler_lifecycle.managers.owned_jobs import params_of
from crawler_lifecycle.managers.parameters import FullJobParams, JobKey, JobParams, StopRetry, merged
from crawler_lifecycle.managers.requesting import KeyFunction, item_of
from crawler_lifecycle.managers.workflow_manager import FINISHED

WITH_FAILURES = "finished_with_failures"
ITEMS_IN_A_PAGE = 200
CANCELLED = "cancelled"  # outcome of a job that people stopped


class GeneratorCrawlManager(CrawlManager):
    """Schedules jobs from `set_parameters_gen` until the generator ends and all jobs have ended."""

    MAX_RETRIES: int = 0
    pass_retry_num: bool = True  # whether a retry has the argument `retry_num`
    dedup: bool | KeyFunction = True
    max_delayed: int = 1000  # with so many delayed items, the generator waits
    max_failures: int | None = None  # failed items after which no further job starts
    on_refused: str = "fail"  # whether refused items count as failures; or `skip`

    def __init__(self) -> None:
        super().__init__()
        self._generator: Generator | None = None
        self._choices: list[FullJobParams] = []  # of the present cycle

    def attach(self, link: ManagerLink, begun: Begun) -> None:
        super().attach(link, begun)
        if not self.loop_mode and not self.is_resumed:
            self.log("loop_mode is 0: the manager starts jobs in a single cycle, then closes")

    def add_spider_argument(self) -> None:
        if self.spider is None:
            self.argparser.add_argument("spider", nargs="?", help="spider of parameter sets without a spider")

    # methods for authors

    def set_parameters_gen(self) -> Iterable[Any]:
        """Yield a dict with parameters for each job."""
        raise NotImplementedError(f"{type(self).__name__} has to define set_parameters_gen")

    def create_dupe_filter(self) -> Any:
        """Kept for `super()`: the ledger knows repeats exactly, so no filter is used."""
        return None

    def can_schedule_job_with_params(self, params: FullJobParams) -> Any:  # noqa: ARG002
        """Return whether the job may start now. A refused job is delayed, and asked for again in each cycle."""
        return True

    def get_max_next_params(self) -> int:
        """Return the number of jobs that may start in this cycle."""
        return max(0, self.max_running_jobs - self.link.counts().running)

    def get_retry_override(
        self,
        spider: str,  # noqa: ARG002
        outcome: str,  # noqa: ARG002
        job_args_override: JobParams,  # noqa: ARG002
        jobkey: JobKey,  # noqa: ARG002
    ) -> Any:
        """Return changed parameters for the next try; raise StopRetry for no further try."""
        return {}

    def retry_delay(self, outcome: str, number: int) -> float:  # noqa: ARG002
        """Return the pause in seconds before the try with this number, from 1."""
        return 0.0

    def add_job(self, spider: str, job_args_override: JobParams) -> None:
        """Add a job ahead of the generator, whether or not an equal job was there."""
        params: FullJobParams = {**job_args_override, "spider": spider or self.spider or ""}
        self._collected.add.append(item_of(params, self.get_tags(), Origin.ADDED))

    # jobs of the present moment

    def get_running_spiders(self) -> list[str]:
        running = [job.request.crawler for job in self.link.running()]
        return running + [params["spider"] for params in self._choices]

    def spider_running_count(self, spider: str) -> int:
        return self.get_running_spiders().count(spider)

    def get_delayed_jobs(self) -> list[FullJobParams]:
        """Return copies of the delayed jobs' parameters."""
        return [self._params(item) for item in self._delayed()]

    def get_delayed_spiders(self) -> list[str]:
        return [params["spider"] for params in self.get_delayed_jobs()]

    def spider_delayed_count(self, spider: str) -> int:
        return self.get_delayed_spiders().count(spider)

    def add_delayed_jobs(self, jobs: Sequence[FullJobParams]) -> None:
        """Add jobs, which wait as delayed jobs do."""
        new = [item_of(params, self.get_tags(), Origin.ADDED) for params in jobs]
        self._collected.add.extend(new)
        self.link.delay(self.commit()[-len(new) :])

    # retries

    def bad_outcome_hook(self, spider: str, outcome: str, job_args_override: JobParams, jobkey: JobKey) -> Any:
        """Try the job again, as MAX_RETRIES allows."""
        work = self._try_again(spider, outcome, job_args_override, jobkey)
        return work if self.awaits else completed(work)

    async def _try_again(self, spider: str, outcome: str, override: JobParams, jobkey: JobKey) -> None:
        job = self._ended_job
        if job is None or outcome == CANCELLED or job.tries > self.MAX_RETRIES:
            return
        try:
            extra: JobParams = await self._awaited(self.get_retry_override(spider, outcome, override, jobkey))
        except StopRetry:
            return
        former: JobParams = {**override}
        former["tags"] = [tag for tag in override.get("tags") or [] if not tag.startswith("RETRIED_FROM=")]
        retried: JobParams = {"tags": [f"RETRIED_FROM={jobkey}"]}
        if self.pass_retry_num:
            retried["spider_args"] = {"retry_num": str(job.tries)}
        self.retry_with(job, merged(merged(former, retried), extra or {}), self.retry_delay(outcome, job.tries))

    def tags_of(self, waiting: Waiting) -> list[str]:
        suffix = f".r{waiting.tries}" if waiting.tries else ""
        return [*super().tags_of(waiting), f"JOBSEQ={waiting.number:010d}{suffix}"]

    # the cycle

    async def _cycle(self) -> bool:
        await self.call(self.check_running_jobs)
        self.commit()
        if self.may_start and not self._has_too_many_failures():
            await self._start_jobs()
        counts = self.link.counts()
        goes_on = self._goes_on(counts)
        if not goes_on and self.get_close_reason() is None:
            refused = counts.refused if self.on_refused == "fail" else 0
            self.set_close_reason(WITH_FAILURES if counts.failed + refused else FINISHED)
        return goes_on

    def _goes_on(self, counts: Counts) -> bool:
        if counts.running:
            return True
        if self._has_too_many_failures():
            return False
        return bool(counts.waiting or counts.delayed or counts.retrying) or not self._opened().is_exhausted

    def _has_too_many_failures(self) -> bool:
        if self.max_failures is None or self.link.counts().failed <= self.max_failures:
            return False
        self.set_close_reason("max_failures")
        return True

    def _opened(self) -> Generator:
        if self._generator is None:
            self._generator = Generator(self)
        return self._generator

    @property
    def seconds_to_next(self) -> float | None:
        """Seconds until the next cycle; None for the usual pause. A cut reading goes on at once."""
        return 0.0 if self._generator is not None and self._generator.is_cut else None

    async def _start_jobs(self) -> None:
        room: int = await self.call(self.get_max_next_params)
        chosen: list[tuple[Waiting, FullJobParams]] = []
        self._choices = []
        try:
            while room > 0:
                chosen += await self._choose(room - len(chosen), {waiting.number for waiting, _ in chosen})
                missing = room - len(chosen)
                if not missing or self.link.counts().delayed >= self.max_delayed:
                    break
                if not await self._opened().pull(missing):
                    break
            if self._opened().is_cut and self._opened().is_reread:
                self.log(self._opened().progress)
            await self._start(chosen)
        finally:
            self._choices = []

    async def _choose(self, room: int, chosen: set[int]) -> list[tuple[Waiting, FullJobParams]]:
        """Choose items one by one. An item that the author refuses is delayed."""
        choice: list[tuple[Waiting, FullJobParams]] = []
        delayed: list[int] = []
        after: Waiting | None = None
        while len(choice) < room and (page := self.link.waiting(ITEMS_IN_A_PAGE, after=after)):
            for waiting in page:
                if len(choice) == room:
                    break
                if waiting.number in chosen:
                    continue
                params = self._params(waiting)
                if await self.call(self.can_schedule_job_with_params, params):
                    choice.append((waiting, params))
                    self._choices.append(params)
                elif not waiting.is_delayed:
                    delayed.append(waiting.number)
            after = page[-1]
        if delayed:
            self.link.delay(delayed)
        return choice

    async def _start(self, chosen: Sequence[tuple[Waiting, FullJobParams]]) -> None:
        """Start the jobs at once; one by one through the author's own method for starts."""
        if not chosen:
            return
        if self.starts_by_itself:
            self.start_all(chosen)
            return
        for waiting, params in chosen:
            self._chosen = waiting
            await self.call(self.schedule_spider_with_jobargs, params_of(waiting), params["spider"])

    @property
    def starts_by_itself(self) -> bool:
        """Whether no author's method is around a start."""
        definitions = [base for base in type(self).__mro__ if "schedule_spider_with_jobargs" in vars(base)]
        return set(definitions) <= {CrawlManager, AsyncSchedulerCrawlManagerMixin}

    def _params(self, waiting: Waiting) -> FullJobParams:
        """Return the item's parameters as the author wrote them."""
        params = cast("FullJobParams", dict(waiting.override))
        params["spider"] = waiting.request.crawler
        return params

    def _delayed(self) -> list[Waiting]:
        delayed: list[Waiting] = []
        after: Waiting | None = None
        while page := [item for item in self.link.waiting(ITEMS_IN_A_PAGE, after=after) if item.is_delayed]:
            delayed += page
            after = page[-1]
        return delayed
