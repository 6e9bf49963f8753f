"""`GeneratorCrawlManager` starts jobs from the author's generator, up to a number at once."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from types import MappingProxyType
from typing import Any, cast

from crawler_lifecycle.errors import BadInput
from crawler_lifecycle.flows.model.turns import BREAKERS, FILTERED, Begun, Counts
from crawler_lifecycle.managers.authors.crawl_manager import CrawlManager
from crawler_lifecycle.managers.authors.generator import Generator
from crawler_lifecycle.managers.authors.link import ManagerLink
from crawler_lifecycle.managers.authors.owned_jobs import STOPPED, chosen_dict, params_of
from crawler_lifecycle.managers.authors.parameters import (
    JOBSEQ,
    FullJobParams,
    JobDict,
    JobKey,
    JobParams,
    StopRetry,
    check_parts,
    get_jobseq,
    merged,
)
from crawler_lifecycle.managers.authors.policies import (
    ANY_OUTCOME,
    Breaker,
    Breakers,
    Caps,
    Choice,
    RetryPolicy,
    rule_for,
    was_renewed,
)
from crawler_lifecycle.managers.authors.requesting import KeyFunction, dedup_key, refused_key
from crawler_lifecycle.managers.authors.starting import ITEMS_IN_A_PAGE
from crawler_lifecycle.managers.authors.workflow_manager import FINISHED, WITH_FAILURES
from crawler_lifecycle.model.manager_items import Item, Job, Origin, Waiting

SINGLE_CYCLE = "loop_mode is 0: the manager starts jobs in a single cycle, then closes"
RETRIED_FROM = "RETRIED_FROM="  # tag: key of the job before


class DupeFilter(set[str]):
    """A filter for authors to fill. A manager without an own filter makes none: the ledger knows its repeats."""

    def close(self) -> None:
        """Kept for authors' calls."""


class GeneratorCrawlManager(CrawlManager):
    """Schedules jobs from `set_parameters_gen` until the generator ends and all jobs have ended.

    The base classes share their state of the moment with this class. `_collected` has what authors' code has asked for
    since the last `commit`. During the hooks for an end, `_ended_job` is its job, `_ended_badly` says how it ended, and
    `_retry` is the further try that a hook has asked for. After a cycle, `_has_refusals` says whether a start was
    refused, and `_own_reason` is the close reason, or None for another cycle.
    """

    MAX_RETRIES: int = 0
    retry_policy: RetryPolicy = MappingProxyType({})  # rules by outcome; `*`: for all other failed outcomes
    pass_retry_num: bool = True  # whether a retry has the argument `retry_num`
    dedup: bool | KeyFunction = True
    max_delayed: int = 1000  # number of delayed items at which the generator waits
    max_failures: int | None = None  # failed items after which no further job starts
    breakers: Sequence[Breaker] = ()
    limits: Mapping[str, int] = MappingProxyType({})  # most jobs at once by key template, such as `site:{site}`
    read_ahead: int = 0  # parameter sets that are read before there is room for their jobs
    on_refused: str = "fail"  # whether refused items count as failures; or `skip`

    def __init__(self) -> None:
        super().__init__()
        self._generator: Generator | None = None
        self._choice: Choice | None = None  # under way
        self._breakers: Breakers | None = None
        words = [word for word in self.retry_policy if word != ANY_OUTCOME]
        self.failed_outcomes += [word for word in words if word not in self.failed_outcomes]

    def attach(self, link: ManagerLink, begun: Begun) -> None:
        super().attach(link, begun)
        if self.breakers:
            self._breakers = Breakers(self.breakers, self._collected.memory.setdefault(BREAKERS, {}))
        if not self.loop_mode and not self.is_resumed:
            self.log(SINGLE_CYCLE)

    def add_spider_argument(self) -> None:
        if self.spider is None:
            self.argparser.add_argument("spider", nargs="?", help="spider of parameter sets without a spider")

    # methods for authors

    def set_parameters_gen(self) -> Iterable[Any]:
        """Yield a dict with parameters for each job."""
        raise NotImplementedError(f"{type(self).__name__} has to define set_parameters_gen")

    @classmethod
    def create_dupe_filter(cls) -> Any:
        """Return an object with `in` and `add` that rejects further sets. Repeats are left out in any case.

        A set that the filter rejects is stored as refused. The filter gets keys of parameter sets.
        """
        return DupeFilter()

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

    def retry_delay(self, outcome: str, number: int) -> float:
        """Return the pause in seconds before the further try with this number, from 1."""
        return rule_for(self.retry_policy, outcome).seconds_before(number)

    def add_job(self, spider: str, job_args_override: JobParams, *, again: bool = False) -> None:
        """Add a job ahead of the generator, unless a job with the same spider and arguments was there.

        In a hook for an end, the call may mean the ended job, which is then tried again, as in shub-workflow. The call
        means this job if its tags have the job's JOBSEQ, as the hook's override has; after a good end, only with the
        job's own spider. After a bad end, a call without JOBSEQ means the job, too, if spider and arguments are the
        job's.

        `again`: add a new job in any case.
        """
        params: FullJobParams = {**(job_args_override or {}), "spider": spider or self.spider or ""}
        if again:
            self._collected.add.append(self.item(params))
            return
        item = self._item_with_key(params)
        job = self._ended_job
        if job is not None and item.problem is None and self._means_ended_job(job, params):
            self._retry_as_added(job, params)
        else:
            self._collected.add.append(item)

    def _item_with_key(self, params: FullJobParams) -> Item:
        """Return the item with the key by which the ledger leaves out its repeats."""
        item = self.item(params)
        key = refused_key(item.override, "added") if item.problem is not None else self.repeat_key(params)
        return item.model_copy(update={"key": key})

    def repeat_key(self, params: FullJobParams, own: object = None) -> str | None:
        """Return the key by which a repeat of the parameters is known. `own`: the author's own key for them."""
        effective = self.effective(params)
        if own is None and self.dedup is True and not self.has_only_ours("get_job_unique_id"):
            job: JobDict = {"spider": effective["spider"], "spider_args": effective["spider_args"] or {}}
            own = self.get_job_unique_id(job)
        return dedup_key(effective, self.dedup, own)

    @staticmethod
    def get_job_unique_id(job: JobDict) -> str:
        """Return the text by which a repeat of the job's spider and arguments is known."""
        return dedup_key({"spider": job["spider"], "spider_args": job.get("spider_args") or {}}, dedup=True) or ""

    def _means_ended_job(self, job: Job, params: FullJobParams) -> bool:
        """Return whether an added job is another try of the ended job, by the rules in `add_job`."""
        if self._retry is not None:  # the hook has asked for a try already
            return False
        number, _ = get_jobseq(params.get("tags") or [])
        if not self._ended_badly:
            return number == job.number and params["spider"] == job.request.crawler
        return number == job.number if number else self._is_same_crawl(job, params)

    def _is_same_crawl(self, job: Job, params: FullJobParams) -> bool:
        """Return whether the job had the same spider and arguments, whatever their number of the try."""
        former = cast("FullJobParams", {**params_of(job), "spider": job.request.crawler})
        return _untried(self.effective(params)) == _untried(self.effective(former))

    def _retry_as_added(self, job: Job, params: FullJobParams) -> None:
        """Try the ended job again with the added parameters. Unchanged arguments get the number of the try."""
        again: FullJobParams = {**params, "tags": _retried_from(job.key, params)}
        if self.pass_retry_num and self._is_same_crawl(job, params):
            again["spider_args"] = {**(params.get("spider_args") or {}), "retry_num": str(job.tries)}
        self.retry_with(job, again)

    # jobs of the present moment

    def _chosen_jobs(self) -> Iterable[JobDict]:
        chosen = () if self._choice is None else self._choice.chosen
        return [chosen_dict(waiting, params, [*self.get_tags(), *self.own_tags(waiting)]) for waiting, params in chosen]

    def get_running_spiders(self) -> set[str]:
        return set(self._running_spiders())

    def spider_running_count(self, spider: str) -> int:
        return self._running_spiders().count(spider)

    def _running_spiders(self) -> list[str]:
        """Return the spiders of running jobs and of jobs chosen in this cycle."""
        return (self._choice or Choice(self.link)).spiders

    def get_delayed_jobs(self) -> list[FullJobParams]:
        """Return copies of the delayed jobs' parameters."""
        return [self._params(item) for item in self._delayed()]

    def get_delayed_spiders(self) -> set[str]:
        return {params["spider"] for params in self.get_delayed_jobs()}

    def spider_delayed_count(self, spider: str) -> int:
        return [params["spider"] for params in self.get_delayed_jobs()].count(spider)

    def add_delayed_jobs(self, params: FullJobParams | Sequence[FullJobParams]) -> None:
        """Add a job or several jobs, unless they were there, and let them wait as delayed jobs."""
        jobs = [params] if isinstance(params, Mapping) else params
        new = [self._item_with_key({**job, "spider": job.get("spider") or self.spider or ""}) for job in jobs]
        if new:
            self._collected.add.extend(new)
            self.link.delay(self.commit()[-len(new) :])  # the numbers before are those of jobs added earlier

    # retries

    def bad_outcome_hook(self, spider: str, outcome: str, job_args_override: JobParams, jobkey: JobKey) -> Any:
        """Try the job again, as `retry_policy` or MAX_RETRIES allows."""
        return self.act(self._try_again(spider, outcome, job_args_override, jobkey))

    async def _try_again(self, spider: str, outcome: str, override: JobParams, jobkey: JobKey) -> None:
        job, rule = self._ended_job, rule_for(self.retry_policy, outcome)
        most = self.MAX_RETRIES if rule.tries is None else rule.tries
        if job is None or job.tries > most or (outcome in STOPPED and outcome not in self.retry_policy):
            return
        again = {"retry_num": str(job.tries)} if self.pass_retry_num else {}
        override["tags"] = _retried_from(jobkey, override)
        override["spider_args"] = {**(override.get("spider_args") or {}), **again}
        try:
            extra: JobParams = await self._awaited(self.get_retry_override(spider, outcome, override, jobkey))
            check_parts(extra or {})
        except StopRetry as stop:
            if reason := str(stop):
                self.give_up(job, reason)
            return
        except BadInput as error:
            self.give_up(job, f"get_retry_override: {error.message}")
            return
        changed = merged(merged(override, rule.changes(job.request.memory_factor)), extra or {})
        self.retry_with(job, {**changed, "spider": spider}, self.retry_delay(outcome, job.tries))

    def own_tags(self, waiting: Waiting) -> list[str]:
        suffix = f".r{waiting.tries}" if waiting.tries else ""
        return [f"{JOBSEQ}{waiting.number:010d}{suffix}"]

    def hooks_params(self, job: Job) -> JobParams:
        """Return a copy of the job's parameters for the hooks of its end, with the tag JOBSEQ."""
        params = super().hooks_params(job)
        params["tags"] = [*(params.get("tags") or []), *(tag for tag in job.request.tags if tag.startswith(JOBSEQ))]
        return params

    def effective(self, params: FullJobParams) -> FullJobParams:
        return super().effective(_without_jobseq(params))

    def item(self, params: FullJobParams, origin: Origin = Origin.ADDED, key: str | None = None) -> Item:
        return super().item(_without_jobseq(params), origin, key)

    def note_end(self, job: Job, *, is_bad: bool) -> None:
        super().note_end(job, is_bad=is_bad)
        if self._breakers is not None:
            params, now = self._effective_of(job), self.link.now().timestamp()
            for line in self._breakers.note(params, is_failed=is_bad, now=now):
                self.log(line)

    # the cycle

    async def _cycle(self) -> bool:
        """Call the hooks for ended jobs, store what they have asked for, and start jobs. Return whether to go on.

        Stored items start first; then the generator is read, as far as jobs may start.
        """
        self._has_refusals = False
        await self.call(self.check_running_jobs)
        self.commit()
        if self._generator is not None:
            self._generator.begin_cycle()
        if self.may_start:
            await self._start_jobs()
        counts = self.link.counts()
        goes_on = self._goes_on(counts)
        self._own_reason = None if goes_on else self._reason(counts)
        return goes_on

    def _reason(self, counts: Counts) -> str:
        """Return the reason for a close after this cycle."""
        if self._has_too_many_failures(counts):
            return "max_failures"
        return WITH_FAILURES if counts.failed + self.refusals(counts) else FINISHED

    def refusals(self, counts: Counts) -> int:
        """Return the number of refused items that count as failures; items that the own filter refused never count."""
        return counts.refused - self.stats.get_value(FILTERED, 0) if self.on_refused == "fail" else 0

    def _goes_on(self, counts: Counts) -> bool:
        """Return whether another cycle follows: a job runs, an item may start, or the generator may yield more."""
        if counts.running:
            return True
        if self._has_too_many_failures(counts):  # then only items that people have retried may start
            return any(was_renewed(item) for item in self._waiting())
        return bool(counts.waiting or counts.delayed or counts.retrying) or not self._opened().is_exhausted

    def _has_too_many_failures(self, counts: Counts) -> bool:
        return self.max_failures is not None and counts.failed > self.max_failures

    def _opened(self) -> Generator:
        if self._generator is None:
            self._generator = Generator(self)
        return self._generator

    @property
    def seconds_to_next(self) -> float | None:
        """Seconds until the next cycle; None for the usual pause.

        The next cycle follows at once if the generator's reading was cut short, or if a start was refused, since
        another item may start instead.
        """
        if (self._generator is not None and self._generator.is_cut) or (self._has_refusals and self.wake_on_end):
            return 0.0
        return None if self._breakers is None else self._breakers.seconds_to_next(self.link.now().timestamp())

    async def _start_jobs(self) -> None:
        choice = self._choice = Choice(self.link, await self.call(self.get_max_next_params))
        choice.is_limited = self._has_too_many_failures(self.link.counts())
        if self.limits:
            choice.caps = Caps(self.limits, map(self._effective_of, choice.running))
        try:
            while choice.missing > 0:
                await self._choose(choice)
                if choice.missing <= 0 or choice.is_limited or self.link.counts().delayed >= self.max_delayed:
                    break
                if not await self._opened().pull(choice.missing + self.read_ahead):
                    break
            if self._opened().is_cut and self._opened().is_reread:
                self.log(self._opened().progress)
            await self.start_chosen(choice.chosen)
        finally:
            self._choice = None

    async def _choose(self, choice: Choice) -> None:
        """Choose further items one by one. An item that the author refuses is delayed."""
        delayed: list[int] = []
        while choice.missing > 0 and (page := self.link.waiting(ITEMS_IN_A_PAGE, after=choice.after)):
            self.begin_time_anew()
            for waiting in page:
                if choice.is_limited and not was_renewed(waiting):
                    continue
                params = self._params(waiting)
                if await self._may_start(params, choice.caps):
                    choice.chosen.append((waiting, params))
                    choice.caps.take(self.effective(params))
                elif not waiting.is_delayed:
                    delayed.append(waiting.number)
                if choice.missing <= 0:
                    break
            choice.after = page[-1]
        if delayed:
            self.link.delay(delayed)

    async def _may_start(self, params: FullJobParams, caps: Caps) -> bool:
        """Return whether limits, breakers and the author let the job start now."""
        if self.limits or self._breakers is not None:
            effective, now = self.effective(params), self.link.now().timestamp()
            if not caps.admit(effective) or (self._breakers is not None and self._breakers.hold(effective, now)):
                return False
        is_authors = not self.has_only_ours("can_schedule_job_with_params")
        return bool(await self.call(self.can_schedule_job_with_params, params, notifies_host=is_authors))

    def _params(self, waiting: Waiting) -> FullJobParams:
        """Return the item's parameters as the author wrote them."""
        params = cast("FullJobParams", dict(waiting.override))
        params["spider"] = waiting.request.crawler
        return params

    def _effective_of(self, job: Job) -> FullJobParams:
        """Return the parameters of a job with those of the command line."""
        params = cast("FullJobParams", {**params_of(job), "spider": job.request.crawler})
        return self.effective(params)

    def _delayed(self) -> Iterator[Waiting]:
        return takewhile(lambda item: item.is_delayed, self._waiting())


def _retried_from(jobkey: JobKey, params: JobParams) -> list[str]:
    """Return the tags of the parameters with the job as the source of the retry."""
    return [*(tag for tag in params.get("tags") or [] if not tag.startswith(RETRIED_FROM)), f"{RETRIED_FROM}{jobkey}"]


def _untried(params: FullJobParams) -> str | None:
    """Return the key of the spider and its arguments without the number of the try."""
    arguments = {name: value for name, value in (params.get("spider_args") or {}).items() if name != "retry_num"}
    return dedup_key({"spider": params["spider"], "spider_args": arguments}, dedup=True)


def _without_jobseq(params: FullJobParams) -> FullJobParams:
    """Return the parameters without the tag that a hook has shown: each job gets its own."""
    tags = params.get("tags")
    if not isinstance(tags, list):
        return params  # none, or refused
    return {**params, "tags": [tag for tag in tags if not str(tag).startswith(JOBSEQ)]}
