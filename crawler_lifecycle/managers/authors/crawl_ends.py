"""`CrawlEnds`: base class for all crawl managers, which starts their jobs and reacts to the ends.

A reaction calls the author's hooks for an end, and stores their effects with the verdict and a possible retry.
"""

import json
from collections.abc import Sequence
from copy import deepcopy
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from crawler_lifecycle.errors import BadInput
from crawler_lifecycle.flows.model.turns import Begun, Counts, Reaction, Retry
from crawler_lifecycle.managers.authors.arguments import json_object, spider_arguments
from crawler_lifecycle.managers.authors.link import ManagerLink, completed
from crawler_lifecycle.managers.authors.mixins import SpiderStatsAggregatorMixin
from crawler_lifecycle.managers.authors.owned_jobs import UNKNOWN, checked_word, job_dict, outcome_of, params_of
from crawler_lifecycle.managers.authors.parameters import (
    FullJobParams,
    JobDict,
    JobKey,
    JobParams,
    check_parts,
    full_params,
)
from crawler_lifecycle.managers.authors.policies import key_of
from crawler_lifecycle.managers.authors.requesting import item_of
from crawler_lifecycle.managers.authors.starting import AS_GIVEN, WITH_COMMAND_LINE, kind_of, new_key
from crawler_lifecycle.managers.authors.workflow_manager import WorkFlowManager
from crawler_lifecycle.model.manager_items import Item as LedgerItem
from crawler_lifecycle.model.manager_items import Job, Origin, Verdict, Waiting

ALERTS = "crawlmanager/alerts"  # stat: number of alerts
ENDS_IN_A_PAGE = 100
# methods in reactions that authors may override
HOOKS = (
    *("finished_metadata_hook", "finished_ok_hook", "bad_outcome_hook"),
    *("get_retry_override", "retry_delay", "retry_with", "give_up", "aggregate_spider_stats", "note_end"),
    *("effective", "get_job_settings", "get_tags", "item"),  # for a retry's parameters, and for breakers
)
STARTERS = ("schedule_spider", "async_schedule_spider")


class Progress:
    """The time since a manager's last start or end. `limit`: seconds until an alert; 0: no alert."""

    def __init__(self, limit: float, now: datetime) -> None:
        self._limit = limit
        self._last = now
        self._has_alerted = False

    def note(self, now: datetime) -> None:
        self._last, self._has_alerted = now, False

    def overdue(self, now: datetime) -> float | None:
        """Return the seconds without progress, if an alert is due."""
        seconds = (now - self._last).total_seconds()
        if not self._limit or self._has_alerted or seconds < self._limit:
            return None
        self._has_alerted = True
        return seconds


def alert_text(seconds: float, counts: Counts) -> str:
    return (
        f"no job has started or ended for {seconds:.0f} s: {counts.running} running, {counts.waiting} waiting, "
        f"{counts.delayed} delayed, {counts.retrying} in pauses"
    )


class SpiderJobs(WorkFlowManager):
    """A manager with one spider, and with arguments, settings and labels for all its jobs."""

    spider: str | None = None
    labels: Sequence[str] = ()  # key templates for labels of all jobs, such as `site:{site}`
    priority: int | None = None  # of all jobs

    def add_argparser_options(self) -> None:
        super().add_argparser_options()
        self.add_spider_argument()
        add = self.argparser.add_argument
        add("--spider-args", type=spider_arguments, default="{}", metavar="JSON", help="arguments for every job")
        add("--job-settings", type=json_object, default="{}", metavar="JSON", help="settings for every job")
        add("--units", type=int, help="memory of every job, times the memory in the catalogue")

    def add_spider_argument(self) -> None:
        if self.spider is None:
            self.argparser.add_argument("spider", help="name of the spider")

    def _take_arguments(self) -> None:
        super()._take_arguments()
        self.spider = self.spider or getattr(self.args, "spider", None)

    def get_job_settings(self, override: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the settings of the command line with the override."""
        return {**json.loads(self.args.job_settings), **(override or {})}

    def effective(self, params: FullJobParams) -> FullJobParams:
        """Return the parameters, completed by those of the command line and the class.

        A reserved name in `--spider-args`, such as `units`, is the job's parameter and no argument for the spider.
        """
        line = full_params(json.loads(self.args.spider_args), self.spider)
        settings = params.get("job_settings")
        units = [value for value in (params.get("units"), line.get("units"), self.args.units) if value is not None]
        projects = [value for value in (params.get("project_id"), line.get("project_id"), self.project_id) if value]
        priority = params.get("priority")
        effective: FullJobParams = {
            **line,
            **deepcopy(params),
            "spider": params.get("spider") or self.spider or "",
            "spider_args": {**(line["spider_args"] or {}), **(params.get("spider_args") or {})},
            "job_settings": self.get_job_settings(line.get("job_settings") if settings is None else settings),
            "units": units[0] if units else None,
            "tags": [*(line.get("tags") or []), *(params.get("tags") or [])],
            "project_id": projects[0] if projects else None,
            "priority": self.priority if priority is None else priority,
        }
        own = [key for template in self.labels if (key := key_of(template, effective)) is not None]
        effective["labels"] = [*own, *(params.get("labels") or [])]
        return effective

    def item(self, params: FullJobParams, origin: Origin = Origin.ADDED, key: str | None = None) -> LedgerItem:
        """Return the item with these parameters for the ledger."""
        return item_of(params, self.effective, self.get_tags(), origin, key)


class CrawlEnds(SpiderStatsAggregatorMixin, SpiderJobs):
    """Starts jobs, and reacts to their ends."""

    running_jobs_reverse_check: bool = False
    _reacts = True
    starter = "schedule_spider"  # method that `schedule_spider_with_jobargs` calls
    alert_after: float = 0  # seconds without a start or an end until an alert; 0: no alert

    def __init__(self) -> None:
        super().__init__()
        self._retry: Retry | None = None
        self._own_outcomes: dict[JobKey, str | None] = {}  # from the author's `is_finished`, where the run's differs
        self._ended_job: Job | None = None  # while the hooks for its end are called
        self._ended_badly = False
        self._live_hooks_at: float | None = None
        self._progress: Progress | None = None

    def attach(self, link: ManagerLink, begun: Begun) -> None:
        super().attach(link, begun)
        _ = self.target_stats  # a wrong expression is refused before the first job
        self._progress = Progress(self.alert_after, link.now())

    # starts

    def schedule_spider_with_jobargs(
        self, job_args_override: JobParams | None = None, spider: str | None = None
    ) -> Any:
        """Start a job, and return its key; None if the job is refused for good, or waits until people resume starts."""
        params: FullJobParams = {**(job_args_override or {}), "spider": spider or self.spider or ""}
        chosen, self._chosen = self._chosen, None
        if chosen is None:
            chosen = self._added(self.item(params, key=new_key(WITH_COMMAND_LINE)))
        if chosen is None:
            return None
        if self.has_only_ours(*STARTERS) or not _are_parts(params):
            return self.start_all([(chosen, params)])[0]
        return self.act(self._start_by_author(chosen, self.effective(params)))

    async def _start_by_author(self, chosen: Waiting, params: FullJobParams) -> JobKey | None:
        """Start the item by the author's own `schedule_spider`."""
        arguments = {
            "tags": [*(params.get("tags") or []), *self.own_tags(chosen)],
            "units": params.get("units"),
            "project_id": params.get("project_id"),
            "job_settings": params.get("job_settings"),
            **(params.get("spider_args") or {}),
        }
        self._chosen, self._unnamed = chosen, {"labels": params.get("labels"), "priority": params.get("priority")}
        try:
            key: JobKey | None = await self._awaited(getattr(self, self.starter)(params["spider"], **arguments))
        finally:
            self._chosen, self._unnamed = None, {}
        return key

    async def start_chosen(self, chosen: Sequence[tuple[Waiting, FullJobParams]]) -> None:
        """Start the jobs at once; one by one through the author's own method for starts."""
        if not chosen:
            return
        if self.has_only_ours("schedule_spider_with_jobargs", *STARTERS):
            self.start_all(chosen)
            return
        for waiting, params in chosen:
            self._chosen = waiting
            await self.call(self.schedule_spider_with_jobargs, params_of(waiting), params["spider"])
        self._chosen = None

    async def start_pending_job(self, waiting: Waiting) -> None:
        """Start the job with the parameters of the author's own start."""
        if kind_of(waiting) == AS_GIVEN:
            await super().start_pending_job(waiting)
            return
        self._chosen = waiting
        params, spider = params_of(waiting), waiting.request.crawler
        await self._awaited(CrawlEnds.schedule_spider_with_jobargs(self, params, spider))

    # ends

    def check_running_jobs(self) -> Any:
        """React to the ends of jobs, then to the jobs under way. Return the outcomes of the ended jobs by key."""
        return self.act(self._check_running_jobs())

    async def _check_running_jobs(self) -> dict[JobKey, str]:
        outcomes: dict[JobKey, str] = {}
        unfinished: set[JobKey] = set()  # by the author's `is_finished`
        while page := [job for job in self.link.ended(ENDS_IN_A_PAGE + len(unfinished)) if job.key not in unfinished]:
            words = {job.key: await self._outcome_word(job) for job in page}
            unfinished |= {key for key, word in words.items() if word is None}
            self._own_outcomes = {job.key: words[job.key] for job in page if words[job.key] != outcome_of(job)}
            finished = [self.as_the_author_left(job) for job in page if job.key not in unfinished]
            ended = [job.model_copy(update={"outcome": words[job.key]}) for job in finished]
            outcomes |= {job.key: job.outcome or UNKNOWN for job in ended}
            if self.running_jobs_reverse_check:
                ended = sorted(ended, key=lambda job: (job.number, job.attempt), reverse=True)
            if self.has_only_ours(*HOOKS):
                await self._react_together(ended)
                continue
            for job in ended:
                self.link.react([await self._reaction(job)])
        await self._call_live_hooks()
        await self._alert()
        return outcomes

    async def _outcome_word(self, job: Job) -> str | None:
        """Return the job's outcome, by the author's `is_finished` if the author has one; None: unfinished."""
        if self.has_only_ours("is_finished"):
            return outcome_of(self.as_the_author_left(job))
        word: str | None = await self.call(self.is_finished, job.key, job=job.key)
        return None if word is None else checked_word("is_finished", word)

    async def _react_together(self, ended: Sequence[Job]) -> None:
        """Store the reactions at once. A death before the write repeats all of them: no hook is an author's."""
        self.begin_time_anew()
        reactions: list[Reaction] = []
        try:
            for job in ended:
                reactions += [await self._reaction(job, notifies_host=False)]
        finally:
            if reactions:  # a failing job does not hold up the jobs before
                self.link.react(reactions)

    async def _reaction(self, job: Job, *, notifies_host: bool = True) -> Reaction:
        """Call the hooks for the end. Return the reaction with their effects."""
        outcome = outcome_of(job) or ""
        is_bad = job.is_failed or outcome == UNKNOWN or outcome in self.failed_outcomes
        self._retry, self._ended_job, self._ended_badly = None, job, is_bad
        try:
            await self.call(
                self.finished_metadata_hook, job.key, job_dict(job), job=job.key, notifies_host=notifies_host
            )
            await self.process_outcome(job, outcome, notifies_host=notifies_host)
        finally:
            self._ended_job = None
        self.aggregate_spider_stats(job_dict(job))
        self.note_end(job, is_bad=is_bad)
        verdict = Verdict.BAD if is_bad else Verdict.OK
        self.finishing.pop(job.key, None)
        effects = self._collected.take()
        return Reaction(
            number=job.number,
            attempt=job.attempt,
            ended_at=job.ended_at,
            verdict=verdict,
            outcome=self._own_outcomes.get(job.key),
            retry=self._retry,
            effects=effects,
        )

    async def process_outcome(self, job: Job, outcome: str, *, notifies_host: bool) -> None:
        """Call the author's hook for the outcome. `_ended_badly` says whether the job has failed."""
        raise NotImplementedError

    def note_end(self, job: Job, *, is_bad: bool) -> None:  # noqa: ARG002 - for specializations
        """Process an end after the hooks."""
        self.note_progress()

    def note_progress(self) -> None:
        if self._progress is not None:
            self._progress.note(self.link.now())

    async def _alert(self) -> None:
        """Report that no job has started or ended for too long."""
        seconds = None if self._progress is None else self._progress.overdue(self.link.now())
        if seconds is not None:
            self.log(alert_text(seconds, self.link.counts()))
            self.stats.inc_value(ALERTS)
            await self.call(self.no_progress_hook, seconds)

    async def _call_live_hooks(self) -> None:
        """Call the hook for each job under way, at most once in `loop_mode` seconds."""
        now = self.link.now().timestamp()
        if self.has_only_ours("running_job_hook"):
            return
        if self._live_hooks_at is not None and now - self._live_hooks_at < self.loop_mode:
            return
        running = list(self.link.running())
        if running:
            self._live_hooks_at = now
        for job in reversed(running) if self.running_jobs_reverse_check else running:
            await self.call(self.running_job_hook, job.key, job=job.key)

    def retry_with(self, job: Job, params: FullJobParams, delay_seconds: float = 0) -> None:
        """Let the item of the ended job have another attempt with these parameters."""
        item = self.item(params)
        if item.request is None:
            self.give_up(job, item.problem or "the parameters are refused")
            return
        try:
            self._retry = Retry(override=item.override, request=item.request, delay_seconds=delay_seconds)
        except ValidationError:
            self.give_up(job, f"retry_delay: expected seconds, at most a year, not {str(delay_seconds)[:100]!r}")

    def give_up(self, job: Job, problem: str) -> None:
        """Report why the ended job's item has no further attempt: the item alone fails, and the manager continues."""
        self.log(f"job {job.number} is not tried again: {problem}")

    # the cycle

    def workflow_loop(self) -> Any:
        return completed(self._cycle())

    async def _cycle(self) -> bool:
        """Make one cycle. Return whether the manager continues."""
        raise NotImplementedError

    # hooks

    def no_progress_hook(self, seconds: float) -> Any:
        """Called once after `alert_after` seconds without a start or an end."""

    def running_job_hook(self, jobkey: JobKey) -> Any:
        """Called for each job under way."""

    def finished_metadata_hook(self, jobkey: JobKey, metadata: JobDict) -> Any:
        """Called for each ended job, before the hook for its outcome."""


def _are_parts(params: FullJobParams) -> bool:
    """Return whether the parameters have parts that can be joined with the manager's."""
    try:
        check_parts(params)
    except BadInput:
        return False
    return True
