"""CrawlManager and PeriodicCrawlManager: one spider, once or again and again."""

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

from crawler_lifecycle.contract.managers.items import Job, Origin, Waiting
from crawler_lifecycle.contract.managers.turns import Reaction, Retry, Start, Verdict
from crawler_lifecycle.errors import BadInput
from crawler_lifecycle.managers.arguments import json_object
from crawler_lifecycle.managers.calls import completed
from crawler_lifecycle.managers.owned_jobs import job_dict, outcome_of, params_of
from crawler_lifecycle.managers.parameters import FullJobParams, JobDict, JobKey, JobParams
from crawler_lifecycle.managers.requesting import item_of, request_of
from crawler_lifecycle.managers.workflow_manager import WorkFlowManager

ENDS_IN_A_PAGE = 100
SCHEDULED = "crawlmanager/scheduled_jobs"
BASE_TARGET_SPIDER_STATS = (
    "items",
    "pages",
    "bytes",
    "errors",
    "item_scraped_count",
    "downloader/",
    "spider_exceptions",
)


class CrawlManager(WorkFlowManager):
    """Schedules one job of a spider, and closes with the job's outcome."""

    spider: str | None = None
    running_jobs_reverse_check: bool = False
    target_spider_stats: Sequence[str] = ()
    stats_only_total: bool = False

    def __init__(self) -> None:
        super().__init__()
        self._chosen: Waiting | None = None
        self._retry: Retry | None = None
        self._ended_job: Job | None = None  # the hooks' job
        self._live_hooks_at: float | None = None

    def add_argparser_options(self) -> None:
        super().add_argparser_options()
        self.add_spider_argument()
        add = self.argparser.add_argument
        add("--spider-args", type=json_object, default={}, metavar="JSON", help="arguments for every job")
        add("--job-settings", type=json_object, default={}, metavar="JSON", help="settings for every job")
        add("--units", type=int, help="memory of every job, times the memory in the catalogue")

    def add_spider_argument(self) -> None:
        if self.spider is None:
            self.argparser.add_argument("spider", help="name of the spider")

    def _take_arguments(self) -> None:
        super()._take_arguments()
        self.spider = self.spider or getattr(self.args, "spider", None)

    # requests

    def get_job_settings(self, override: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the settings of the command line with the override."""
        return {**self.args.job_settings, **(override or {})}

    def effective(self, params: FullJobParams) -> FullJobParams:
        """Return the parameters over those of the command line."""
        units = params.get("units")
        return {
            **deepcopy(params),
            "spider": params.get("spider") or self.spider or "",
            "spider_args": {**self.args.spider_args, **(params.get("spider_args") or {})},
            "job_settings": self.get_job_settings(params.get("job_settings")),
            "units": self.args.units if units is None else units,
        }

    def tags_of(self, waiting: Waiting) -> list[str]:  # noqa: ARG002 - for specializations
        """Return the tags of a job that starts."""
        return self.get_tags()

    # starts

    def schedule_spider_with_jobargs(
        self, job_args_override: JobParams | None = None, spider: str | None = None
    ) -> Any:
        """Start a job, and return its key; None if people hold starts back, or the job is refused for good."""
        params: FullJobParams = {**(job_args_override or {}), "spider": spider or self.spider or ""}
        chosen, self._chosen = self._chosen, None
        if chosen is None:
            chosen = self._added(params)
        return None if chosen is None else self.start_all([(chosen, params)])[0]

    def _added(self, params: FullJobParams) -> Waiting | None:
        """Put a further item on record. None: the item is refused."""
        item = item_of(params, self.get_tags(), Origin.ADDED)
        self._collected.add.append(item)
        number = self.commit()[-1]
        if item.request is None:
            return None
        return Waiting(number=number, attempt=1, origin=Origin.ADDED, override=item.override, request=item.request)

    def start_all(self, chosen: Sequence[tuple[Waiting, FullJobParams]]) -> list[JobKey | None]:
        """Start the items at once, and return the keys of their jobs."""
        starts = []
        for waiting, params in chosen:
            request = request_of(self.effective(params), self.tags_of(waiting))
            starts.append(Start(number=waiting.number, attempt=waiting.attempt, request=request))
        answers = self.link.start(starts)
        keys = [answer.key if isinstance(answer, Job) else None for answer in answers]
        begun = sum(key is not None for key in keys)
        if begun:
            self.stats.inc_value(SCHEDULED, begun)
            self.commit()
        return keys

    # ends

    def check_running_jobs(self) -> Any:
        """React to the ends of jobs, then to the jobs under way."""
        work = self._check_running_jobs()
        return work if self.awaits else completed(work)

    async def _check_running_jobs(self) -> None:
        while ended := self.link.ended(ENDS_IN_A_PAGE):
            for job in ended:
                await self._react(job)
        await self._tell_live_jobs()

    async def _react(self, job: Job) -> None:
        """Call the hooks for the end, and put their effects on record with the reaction."""
        outcome = outcome_of(job) or ""
        is_bad = job.is_failed or outcome in self.failed_outcomes
        await self.call(self.finished_metadata_hook, job.key, job_dict(job), job=job.key)
        self._retry, self._ended_job = None, job
        hook = self.bad_outcome_hook if is_bad else self.finished_ok_hook
        await self.call(hook, job.request.crawler, outcome, params_of(job), job.key, job=job.key)
        self.aggregate_spider_stats(job_dict(job))
        verdict = Verdict.BAD if is_bad else Verdict.OK
        effects = self._collected.take()
        reaction = Reaction(number=job.number, attempt=job.attempt, verdict=verdict, retry=self._retry, effects=effects)
        self.link.react(reaction)

    async def _tell_live_jobs(self) -> None:
        """Call the hook for live jobs, at most once in the longest pause."""
        now = self.link.now().timestamp()
        if type(self).running_job_hook is CrawlManager.running_job_hook:
            return
        if self._live_hooks_at is not None and now - self._live_hooks_at < self.loop_mode:
            return
        running = list(self.link.running())
        if running:
            self._live_hooks_at = now
        for job in reversed(running) if self.running_jobs_reverse_check else running:
            await self.call(self.running_job_hook, job.key, job=job.key)

    def aggregate_spider_stats(self, job: JobDict) -> None:
        """Add the job's stats to the manager's: the sum over all spiders, and the sum of the spider."""
        wanted = (*BASE_TARGET_SPIDER_STATS, *self.target_spider_stats)
        for name, value in job["stats"].items():
            if name.startswith(wanted):
                self.stats.inc_value(f"{name}/total", value)
                if not self.stats_only_total:
                    self.stats.inc_value(f"{name}/{job['spider']}", value)

    def retry_with(self, job: Job, changed: JobParams, delay_seconds: float = 0) -> None:
        """Let the item of the ended job have another attempt with these parameters."""
        params: FullJobParams = {**changed, "spider": job.request.crawler}
        item = item_of(params, self.get_tags(), Origin.ADDED)
        if item.request is None:
            raise BadInput("retry", item.problem or "the parameters are refused")
        self._retry = Retry(override=item.override, request=item.request, delay_seconds=delay_seconds)

    # hooks

    def running_job_hook(self, jobkey: JobKey) -> Any:
        """Called for each job under way."""

    def finished_metadata_hook(self, jobkey: JobKey, metadata: JobDict) -> Any:
        """Called for each ended job, before the hook for its outcome."""

    def bad_outcome_hook(self, spider: str, outcome: str, job_args_override: JobParams, jobkey: JobKey) -> Any:  # noqa: ARG002
        """Called for each job with a failed outcome."""
        self.set_close_reason(outcome)

    def finished_ok_hook(self, spider: str, outcome: str, job_args_override: JobParams, jobkey: JobKey) -> Any:
        """Called for each job with another outcome."""

    # the cycle

    def workflow_loop(self) -> Any:
        return completed(self._cycle())

    async def _cycle(self) -> bool:
        """Start the job, or wait for its end."""
        await self.call(self.check_running_jobs)
        counts = self.link.counts()
        if counts.running or counts.retrying:
            return True
        if not counts.waiting and (counts.completed or counts.failed or counts.refused or counts.cancelled):
            return self._goes_on_after_its_job()
        if self.may_start:
            await self._start_the_job()
        return True

    async def _start_the_job(self) -> JobKey | None:
        chosen = self._chosen = next(iter(self.link.waiting(1)), None)
        parameters = () if chosen is None else (params_of(chosen), chosen.request.crawler)
        key: JobKey | None = await self.call(self.schedule_spider_with_jobargs, *parameters)
        return key

    def _goes_on_after_its_job(self) -> bool:
        return False


class PeriodicCrawlManager(CrawlManager):
    """Schedules the same job again after each end, for ever."""

    longest_failure_pause: float = 900.0  # seconds between jobs that end at once
    quick_end: float = 10.0  # a job that ends within so many seconds makes the next pause longer
    _quick_ends = 0
    _next_at = 0.0

    def bad_outcome_hook(self, spider: str, outcome: str, job_args_override: JobParams, jobkey: JobKey) -> Any:
        """Called for each job with a failed outcome."""

    def pause_before_next(self) -> float:
        """Return the pause in seconds before the next job."""
        return min(self.longest_failure_pause, 2.0**self._quick_ends) if self._quick_ends else 0.0

    async def _react(self, job: Job) -> None:
        await super()._react(job)
        if job.started_at is not None and job.ended_at is not None:
            is_quick = (job.ended_at - job.started_at).total_seconds() < self.quick_end
            is_bad = job.is_failed or outcome_of(job) in self.failed_outcomes
            if is_quick and is_bad:
                self._note_quick_end(job.ended_at.timestamp())
            else:
                self._quick_ends, self._next_at = 0, 0.0

    async def _cycle(self) -> bool:
        await self.call(self.check_running_jobs)
        now, is_idle = self.link.now().timestamp(), not self.link.counts().running
        may_start = is_idle and self.may_start and now >= self._next_at
        if may_start and await self._start_the_job() is None:
            self._note_quick_end(now)
        return True

    def _note_quick_end(self, at: float) -> None:
        self._quick_ends += 1
        self._next_at = at + self.pause_before_next()

    @property
    def seconds_to_next(self) -> float | None:
        """Seconds until the next job may start; None without a pause."""
        remaining = self._next_at - self.link.now().timestamp()
        return remaining if remaining > 0 else None
