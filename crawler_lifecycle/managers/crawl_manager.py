"""CrawlManager: one job of a spider, with the starts and the ends of jobs that all crawl managers share."""

from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from itertools import islice, takewhile
from typing import Any
from uuid import uuid4

from pydantic import ValidationError

from crawler_lifecycle.contract.managers.items import Item, Job, Origin, Waiting
from crawler_lifecycle.contract.managers.turns import SCHEDULED, Begun, Reaction, Retry, Start, Verdict
from crawler_lifecycle.errors import BadInput, PermanentError
from crawler_lifecycle.managers.alerts import ALERTS, Progress, sentence
from crawler_lifecycle.managers.calls import completed
from crawler_lifecycle.managers.link import ManagerLink
from crawler_lifecycle.managers.mixins import SpiderStatsAggregatorMixin
from crawler_lifecycle.managers.owned_jobs import UNKNOWN, checked_word, job_dict, outcome_of, params_of
from crawler_lifecycle.managers.parameters import FullJobParams, JobDict, JobKey, JobParams, check_parts
from crawler_lifecycle.managers.requesting import item_of, request_of
from crawler_lifecycle.managers.spider_jobs import SpiderJobs

ENDS_IN_A_PAGE = 100
ITEMS_IN_A_PAGE = 200
HOOKS = (
    *("finished_metadata_hook", "finished_ok_hook", "bad_outcome_hook"),
    *("get_retry_override", "retry_delay", "retry_with", "give_up", "aggregate_spider_stats", "note_end"),
    *("effective", "get_job_settings", "get_tags", "item"),  # for a retry's parameters, and for breakers
)
STARTERS = ("schedule_spider", "async_schedule_spider")
OVER_THE_LINE, AS_GIVEN = "start", "start as given"  # keys of items that the author starts, by their parameters
REFUSED = "refused"  # close reason of a manager whose job can never start


class CrawlManager(SpiderStatsAggregatorMixin, SpiderJobs):
    """Schedules one job of a spider, and closes with the job's outcome."""

    running_jobs_reverse_check: bool = False
    starter = "schedule_spider"  # method that `schedule_spider_with_jobargs` calls
    alert_after: float = 0  # seconds without a start or an end until an alert; 0: no alert

    def __init__(self) -> None:
        super().__init__()
        self._chosen: Waiting | None = None
        self._has_pending_jobs = False
        self._unnamed: FullJobParams = {}  # the chosen item's parameters without a name in `schedule_spider`
        self._retry: Retry | None = None
        self._own_words: dict[JobKey, str | None] = {}  # the author's for the ends of jobs
        self._ended_job: Job | None = None  # while the hooks for its end are called
        self._ended_badly = False
        self._live_hooks_at: float | None = None
        self._progress: Progress | None = None

    def attach(self, link: ManagerLink, begun: Begun) -> None:
        super().attach(link, begun)
        self._has_pending_jobs = begun.incarnation > 1
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
            chosen = self._added(self.item(params, key=_new_key(OVER_THE_LINE)))
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

    def schedule_spider(
        self,
        spider: str,
        tags: Sequence[str] | None = None,
        units: float | None = None,
        project_id: int | str | None = None,
        **kwargs: Any,
    ) -> Any:
        """Start a job with these parameters alone, without those of the command line, and return its key.

        An override is called for each start, with all parameters of the job.
        """
        settings = kwargs.pop("job_settings", None)
        params: FullJobParams = {
            **self._unnamed,
            "spider": spider,
            "spider_args": kwargs,
            "job_settings": settings,
            "tags": list(tags or ()),
            "units": units,
            "project_id": project_id,
        }
        chosen, self._chosen = self._chosen, None
        if chosen is None:
            chosen = self._added(item_of(params, deepcopy, self.get_tags(), Origin.ADDED, _new_key(AS_GIVEN)))
        return None if chosen is None else self.start_all([(chosen, params)], deepcopy)[0]

    async def async_schedule_spider(self, spider: str, **parameters: Any) -> Any:
        """Start a job as `schedule_spider` does."""
        return self.schedule_spider(spider, **parameters)

    def _added(self, item: Item) -> Waiting | None:
        """Store a further item. None: the item is refused."""
        self._collected.add.append(item)
        number = self.commit()[-1]
        if item.request is None:
            return None
        return Waiting(number=number, attempt=1, origin=Origin.ADDED, override=item.override, request=item.request)

    async def start_pending_jobs(self) -> None:
        if not self._has_pending_jobs:
            return
        room = max(0, self.max_running_jobs - self.link.counts().running)
        added = takewhile(_is_before_the_generators, self._waiting())
        pending = list(islice(filter(_is_start_by_author, added), room + 1))
        self._has_pending_jobs = len(pending) > room
        for waiting in pending[:room]:
            await self.call(self.start_pending_job, waiting)

    async def start_pending_job(self, waiting: Waiting) -> None:
        """Start the job with the parameters of the author's own start."""
        params, spider = params_of(waiting), waiting.request.crawler
        if _kind(waiting) == AS_GIVEN:
            self.start_all([(waiting, {**params, "spider": spider})], deepcopy)
            return
        self._chosen = waiting
        await self._awaited(CrawlManager.schedule_spider_with_jobargs(self, params, spider))

    def _waiting(self) -> Iterator[Waiting]:
        after: Waiting | None = None
        while page := self.link.waiting(ITEMS_IN_A_PAGE, after=after):
            yield from page
            after = page[-1]

    def start_all(
        self,
        chosen: Sequence[tuple[Waiting, FullJobParams]],
        effective: Callable[[FullJobParams], FullJobParams] | None = None,
    ) -> list[JobKey | None]:
        """Start the items at once, and return the keys of their jobs. An item without a possible request is refused.

        `effective`: completes the parameters; by default, with those of the command line.
        """
        complete = effective or self.effective
        starts = [
            start for waiting, params in chosen if (start := self._start_of(waiting, params, complete)) is not None
        ]
        answers = self.link.start(starts) if starts else ()
        self._has_pending_jobs |= None in answers
        keys = {
            start.number: answer.key for start, answer in zip(starts, answers, strict=True) if isinstance(answer, Job)
        }
        if keys:
            self.stats.note(SCHEDULED, len(keys))
            self.note_progress()
        for start, answer in zip(starts, answers, strict=True):
            if isinstance(answer, str):
                request = start.request
                self._handle_refusal(
                    answer,
                    spider=request.crawler,
                    add_tag=list(request.tags),
                    units=request.memory_factor,
                    job_args=dict(request.arguments),
                    job_settings=dict(request.settings),
                )
        return [keys.get(waiting.number) for waiting, _ in chosen]

    def _start_of(
        self, waiting: Waiting, params: FullJobParams, effective: Callable[[FullJobParams], FullJobParams]
    ) -> Start | None:
        """Return the item's start. None: the item is refused, as its parameters over the manager's make no request."""
        tags, shown = self.own_tags(waiting), params
        try:
            check_parts(params)
            shown = effective(params)
            tags = list(self._make_children_tags([*(shown.get("tags") or []), *tags]) or [])
            request = request_of({**shown, "tags": None}, tags)
            return Start(number=waiting.number, attempt=waiting.attempt, generation=waiting.generation, request=request)
        except BadInput as error:
            general = self._make_children_tags([]) or []
            request_of(
                self.effective({"spider": waiting.request.crawler}), general
            )  # raises if the manager is to blame
            problem = error.message
        self.link.refuse(waiting.number, waiting.attempt, problem)
        self._handle_refusal(
            problem,
            spider=shown.get("spider") or waiting.request.crawler,
            add_tag=tags,
            units=shown.get("units"),
            job_args=shown.get("spider_args") or {},
            job_settings=shown.get("job_settings") or {},
        )
        return None

    def _handle_refusal(self, problem: str, **schedule_kwargs: Any) -> None:
        self.link.enter("handle_schedule_error")
        self.handle_schedule_error(PermanentError(problem), **schedule_kwargs)

    def handle_schedule_error(self, e: Exception, **schedule_kwargs: Any) -> Any:
        """Called for each permanently refused start. The job is stored as refused."""
        self.log(f"{schedule_kwargs['spider']} is refused: {e}")

    def handle_schedule_duplicate_error(self, **schedule_kwargs: Any) -> Any:
        """Kept for `super()`: a start has a key, so a repeated start is no second job, and never an error."""

    # ends

    def check_running_jobs(self) -> Any:
        """React to the ends of jobs, then to the jobs under way. Return the outcomes of the ended jobs by key."""
        return self.act(self._check_running_jobs())

    async def _check_running_jobs(self) -> dict[JobKey, str]:
        outcomes: dict[JobKey, str] = {}
        denied: set[JobKey] = set()  # jobs that the author's `is_finished` has called unfinished
        while page := [job for job in self.link.ended(ENDS_IN_A_PAGE + len(denied)) if job.key not in denied]:
            words = {job.key: await self._word(job) for job in page}
            denied |= {key for key, word in words.items() if word is None}
            self._own_words = {job.key: words[job.key] for job in page if words[job.key] != outcome_of(job)}
            known = [self.as_the_author_left(job) for job in page if job.key not in denied]
            ended = [job.model_copy(update={"outcome": words[job.key]}) for job in known]
            outcomes |= {job.key: job.outcome or UNKNOWN for job in ended}
            if self.running_jobs_reverse_check:
                ended = sorted(ended, key=lambda job: (job.number, job.attempt), reverse=True)
            if self.has_only_ours(*HOOKS):
                await self._react_together(ended)
                continue
            for job in ended:
                self.link.react([await self._reaction(job)])
        await self._tell_live_jobs()
        await self._alert()
        return outcomes

    async def _word(self, job: Job) -> str | None:
        """Return the word for the job's end: the author's own, if the author has one."""
        if self.has_only_ours("is_finished"):
            return outcome_of(self.as_the_author_left(job))
        word: str | None = await self.call(self.is_finished, job.key, job=job.key)
        return None if word is None else checked_word("is_finished", word)

    async def _react_together(self, ended: Sequence[Job]) -> None:
        """Store the reactions at once: no author's hook would be called again after the process's death."""
        self.begin_time_anew()
        reactions: list[Reaction] = []
        try:
            for job in ended:
                reactions += [await self._reaction(job, tells=False)]
        finally:
            if reactions:  # a failing job does not hold up the jobs before
                self.link.react(reactions)

    async def _reaction(self, job: Job, *, tells: bool = True) -> Reaction:
        """Call the hooks for the end. Return the reaction with their effects."""
        outcome = outcome_of(job) or ""
        is_bad = job.is_failed or outcome == UNKNOWN or outcome in self.failed_outcomes
        self._retry, self._ended_job, self._ended_badly = None, job, is_bad
        try:
            await self.call(self.finished_metadata_hook, job.key, job_dict(job), job=job.key, tells=tells)
            hook = self.bad_outcome_hook if is_bad else self.finished_ok_hook
            override = self.hooks_params(job)
            await self.call(hook, job.request.crawler, outcome, override, job.key, job=job.key, tells=tells)
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
            outcome=self._own_words.get(job.key),
            retry=self._retry,
            effects=effects,
        )

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
            self.log(sentence(seconds, self.link.counts()))
            self.stats.inc_value(ALERTS)
            await self.call(self.no_progress_hook, seconds)

    async def _tell_live_jobs(self) -> None:
        """Call the hook for live jobs, at most once in the longest pause."""
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

    # hooks

    def no_progress_hook(self, seconds: float) -> Any:
        """Called once after `alert_after` seconds without a start or an end."""

    def running_job_hook(self, jobkey: JobKey) -> Any:
        """Called for each job under way."""

    def finished_metadata_hook(self, jobkey: JobKey, metadata: JobDict) -> Any:
        """Called for each ended job, before the hook for its outcome."""

    def bad_outcome_hook(self, spider: str, outcome: str, job_args_override: JobParams, jobkey: JobKey) -> Any:  # noqa: ARG002
        """Called for each job with a failed outcome. The first close reason stays."""
        if self.get_close_reason() is None:
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
            self._own_reason = REFUSED if counts.refused else None
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


def _new_key(kind: str) -> str:
    """Return the key of an item that the author starts: if the process dies, the next knows the start by it."""
    return f"{kind}:{uuid4().hex}"


def _is_before_the_generators(waiting: Waiting) -> bool:
    return waiting.is_delayed or waiting.origin is Origin.ADDED or bool(waiting.tries)


def _is_start_by_author(waiting: Waiting) -> bool:
    """Return whether the author has started the item: its first attempt waits, and the cycle has not delayed it."""
    return waiting.attempt == 1 and not waiting.is_delayed and _kind(waiting) in (OVER_THE_LINE, AS_GIVEN)


def _kind(waiting: Waiting) -> str:
    return (waiting.key or "").partition(":")[0]


def _are_parts(params: FullJobParams) -> bool:
    """Return whether the parameters have parts that can be joined with the manager's."""
    try:
        check_parts(params)
    except BadInput:
        return False
    return True
