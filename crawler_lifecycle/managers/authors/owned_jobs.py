"""A manager's crawls as authors read them."""

import logging
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any, cast

from crawler_lifecycle.errors import BadInput
from crawler_lifecycle.managers.authors.collecting import whole
from crawler_lifecycle.managers.authors.link import AuthorsCode
from crawler_lifecycle.managers.authors.parameters import FullJobParams, JobDict, JobKey, JobParams
from crawler_lifecycle.managers.authors.requesting import project_labels
from crawler_lifecycle.model.crawl_results import LONGEST_OUTCOME
from crawler_lifecycle.model.manager_items import Job, JobFilter, JobState, Waiting

log = logging.getLogger(__name__)
JOBS_IN_A_PAGE = 500
STATES = {"pending": JobState.RUNNING, "running": JobState.RUNNING, "finished": JobState.FINISHED}
CHOSEN = "pending"  # state of a job that a cycle has chosen
CANCELLED = "cancelled"  # outcome of a job that people, or the manager, have stopped
STOPPED = (CANCELLED, "cancel_timeout")
UNKNOWN = "unknown"  # outcome word when the run no longer exists


def outcome_of(job: Job) -> str | None:
    """Return the word for the job's end; None without an end."""
    return None if job.state is JobState.RUNNING else job.outcome or UNKNOWN


def checked_word(field: str, word: str) -> str:
    """Return the author's word for an end if it can be kept."""
    if not word or len(word) > LONGEST_OUTCOME:
        raise BadInput(field, f"expected a word of at most {LONGEST_OUTCOME} characters, not {word[:100]!r}")
    return word


def params_of(job: Job | Waiting) -> JobParams:
    """Return a copy of the parameters as the author wrote them."""
    params = cast("dict[str, Any]", deepcopy(job.override))
    params.pop("spider", None)
    return cast("JobParams", params)


def job_dict(job: Job) -> JobDict:
    params = params_of(job)
    is_over = job.state is JobState.FINISHED
    stats = {name: whole(value) for name, value in job.stats.items()} if is_over else None
    return {
        "key": job.key,
        "spider": job.request.crawler,
        "spider_args": params.get("spider_args") or {},
        "job_settings": params.get("job_settings") or {},
        "units": params.get("units"),
        "tags": list(job.request.tags),
        "labels": list(job.request.labels),
        "state": job.state.value,
        "close_reason": outcome_of(job),
        "stats": stats,
        "scrapystats": stats,
        **counts_in(stats),
        "pending_time": milliseconds(job.started_at),
        "running_time": milliseconds(job.running_at),
        "finished_time": milliseconds(job.ended_at),
        "result": job.result,
        "run_id": job.run_id,
        "number": job.number,
        "attempt": job.attempt,
    }


def counts_in(stats: Mapping[str, float] | None) -> JobDict:
    """Return the numbers of items, pages and errors in a crawl's stats: its own, or those of Scrapy.

    None before the end: a crawl reports its stats at its end.
    """

    def number(*names: str) -> int | None:
        return None if stats is None else next((int(stats[name]) for name in names if name in stats), 0)

    return {
        "items": number("items", "item_scraped_count"),
        "pages": number("pages", "downloader/response_count"),
        "errors": number("errors", "log_count/ERROR"),
    }


def milliseconds(time: datetime | None) -> int | None:
    return None if time is None else int(time.timestamp() * 1000)


def chosen_dict(waiting: Waiting, params: FullJobParams, tags: Iterable[str]) -> JobDict:
    """Return a job that a cycle has chosen, and not started yet. `tags`: of all jobs."""
    return {
        "key": "",
        "spider": params["spider"],
        "spider_args": params.get("spider_args") or {},
        "job_settings": params.get("job_settings") or {},
        "units": params.get("units"),
        "tags": sorted({*tags, *(params.get("tags") or ())}),
        "labels": list(waiting.request.labels),
        "state": CHOSEN,
        "close_reason": None,
        "stats": None,
        "scrapystats": None,
        **counts_in(None),
        "pending_time": None,
        "running_time": None,
        "finished_time": None,
        "result": None,
        "run_id": None,
        "number": waiting.number,
        "attempt": waiting.attempt,
    }


def _fits(job: JobDict, chosen: JobFilter) -> bool:
    return (
        chosen.spider in (None, job["spider"])
        and set(chosen.labels) <= set(job["labels"])
        and set(chosen.tags) <= set(job["tags"])
    )


def _several(value: str | Iterable[str]) -> Iterable[str]:
    """Return the texts of an argument that may be a single text."""
    return [value] if isinstance(value, str) else value


@dataclass(frozen=True)
class OwnedJob:
    """A job as `get_job` returns it."""

    key: JobKey
    metadata: JobDict
    _manager: "OwnedJobs"

    def cancel(self) -> None:
        """Ask the job to stop."""
        self._manager.finish(self.key, CANCELLED)


class OwnedJobs(AuthorsCode):
    """Readings of a manager's jobs, and their ends by the author."""

    acquire_all_jobs = False
    project_id: int | str | None = None

    def finish(self, jobkey: JobKey | None = None, close_reason: str | None = None) -> None:
        raise NotImplementedError

    def get_job_metadata(self, jobkey: JobKey | None = None) -> Any:
        """Return the job's fields; None for an unknown job. Without a key, the manager's own.

        A job that has not ended has None as `stats`, `scrapystats`, `items`, `pages` and `errors`.
        """
        job = self._job_by(jobkey) if jobkey else None
        return None if job is None else job_dict(job)

    def _job_by(self, key: JobKey) -> Job | None:
        """Return the manager's job with the author's changes, or a further run in the installation."""
        jobs = self.link.find([key]) or self.link.runs(JobFilter(keys=(key,), limit=1))
        return next(map(self.as_the_author_left, jobs), None)

    @staticmethod
    def get_metadata_key(metadata: Mapping[str, Any], key: str) -> Any:
        """Return a field of a job; None without the field."""
        return metadata.get(key)

    def get_job(self, jobkey: JobKey | None = None) -> OwnedJob | None:
        """Return the job with its key and its metadata; None for an unknown job."""
        metadata = self.get_job_metadata(jobkey)
        return None if metadata is None else OwnedJob(metadata["key"], metadata, self)

    def get_job_tags(self, jobkey: JobKey | None = None) -> list[str]:
        """Return the job's tags; without a key, the manager's own."""
        metadata = self.get_job_metadata(jobkey) or {}
        return list(metadata.get("tags") or [])

    @staticmethod
    def get_keyvalue_job_tag(key: str, tags: Iterable[str]) -> str | None:
        """Return the value in the first tag `key=value`; None without such a tag."""
        return next((tag.removeprefix(f"{key}=") for tag in tags if tag.startswith(f"{key}=")), None)

    def get_jobs(self, project_id: int | str | None = None, **filters: Any) -> Iterator[JobDict]:
        """Return jobs as `get_owned_jobs` does: the project's runs, newest first, by default in all states.

        The default project is the manager's. Without a project, the jobs are the installation's runs.
        """
        project_id = self.project_id if project_id is None else project_id
        return self._listed(self._project_jobs, project_id, **{"state": list(STATES), **filters})

    def get_jobs_with_tags(
        self, spider: str, tags: Iterable[str], project_id: int | str | None = None, **filters: Any
    ) -> Iterator[OwnedJob]:
        """Return the spider's jobs with all of the tags."""
        for job in self.get_jobs(project_id, **{**filters, "spider": spider, "has_tag": tags}):
            if job["key"]:
                yield OwnedJob(job["key"], job, self)

    def get_canonical_spidername(self, spidername: str) -> str:
        """Return the name under which the spider's stats are summed."""
        return spidername

    def get_project_running_spiders(
        self,
        canonical: bool = False,
        crawlmanagers: Sequence[str] = (),  # noqa: ARG002 - a manager is no job
        only_crawlmanagers: bool = False,
    ) -> set[str]:
        """Return the spiders of the project's, or else the installation's, jobs under way."""
        spiders = set() if only_crawlmanagers else {job["spider"] for job in self.get_jobs(state=["running"])}
        return {self.get_canonical_spidername(spider) for spider in spiders} if canonical else spiders

    def get_running_jobs(self) -> dict[JobKey, tuple[str, JobParams]]:
        """Return the spiders and the parameters of the jobs under way by key."""
        return {job.key: (job.request.crawler, self.hooks_params(job)) for job in self.link.running()}

    @property
    def _running_job_keys(self) -> dict[JobKey, tuple[str, JobParams]]:
        return self.get_running_jobs()

    def hooks_params(self, job: Job) -> JobParams:
        """Return a copy of the job's parameters for hooks."""
        return params_of(job)

    def as_the_author_left(self, job: Job) -> Job:
        """Return the job with the author's changes that are not stored yet: tags, and the reason of the end."""
        reason, tags = self.finishing.get(job.key), self.new_tags.get(job.key)
        if reason is not None and job.outcome in STOPPED:
            job = job.model_copy(update={"outcome": reason, "is_failed": False})  # the word alone decides
        if tags is not None:
            job = job.model_copy(update={"request": job.request.model_copy(update={"tags": tags})})
        return job

    @property
    def new_tags(self) -> dict[JobKey, list[str]]:
        """The tags of jobs whose tags the author has changed, by key."""
        return {}

    @property
    def finishing(self) -> dict[JobKey, str]:
        """The author's reasons for the ends of jobs under way, by key."""
        return {}

    def get_owned_jobs(
        self,
        project_id: int | str | None = None,
        *,
        state: str | Iterable[str] = (),
        has_tag: str | Iterable[str] = (),
        lacks_tag: str | Iterable[str] = (),
        spider: str | None = None,
        start: int = 0,
        count: int | None = None,
        meta: object = None,  # noqa: ARG002 - every job has all fields
        **unknown: Any,
    ) -> Iterator[JobDict]:
        """Return the manager's jobs in these states, by number. An item that was tried again has several jobs.

        The jobs that a cycle has chosen, and not started yet, come last. They have no key. `has_tag`: jobs with all
        of the tags. `lacks_tag`: jobs with none of them. `start` and `count`: a part of the jobs. `meta` changes
        nothing. `project_id`: jobs of the project alone.
        """
        return self._listed(
            *(self._jobs_in, project_id),
            state=state,
            has_tag=has_tag,
            lacks_tag=lacks_tag,
            spider=spider,
            start=start,
            count=count,
            **unknown,
        )

    def _listed(
        self,
        source: Callable[[JobFilter], Iterator[JobDict]],
        project_id: int | str | None,
        *,
        state: str | Iterable[str],
        has_tag: str | Iterable[str] = (),
        lacks_tag: str | Iterable[str] = (),
        spider: str | None = None,
        start: int = 0,
        count: int | None = None,
        meta: object = None,  # noqa: ARG002 - every job has all fields
        **unknown: Any,
    ) -> Iterator[JobDict]:
        for name in unknown:
            raise BadInput(name, "is no filter: the filters are state, has_tag, lacks_tag, spider, start and count")
        wanted = set(_several(state))
        if not wanted or not wanted <= STATES.keys():
            raise BadInput("state", f"expected a list of {', '.join(STATES)}")
        lacks, labels = set(_several(lacks_tag)), project_labels(project_id)
        chosen = JobFilter(
            states=tuple(sorted({STATES[name] for name in wanted})),
            spider=spider,
            tags=tuple(_several(has_tag)),
            labels=tuple(labels),
            limit=JOBS_IN_A_PAGE,
        )
        jobs = (job for job in source(chosen) if _fits(job, chosen) and not lacks.intersection(job["tags"]))
        return islice(jobs, start, None if count is None else start + count)

    def _jobs_in(self, chosen: JobFilter) -> Iterator[JobDict]:
        for state in chosen.states:
            yield from map(job_dict, self._pages(state))
        if JobState.RUNNING in chosen.states:
            yield from self._chosen_jobs()

    def _project_jobs(self, chosen: JobFilter) -> Iterator[JobDict]:
        """Return the chosen runs. The manager's own jobs without a run come first."""
        seen: set[JobKey] = set()
        if JobState.RUNNING in chosen.states:
            unstarted = [job for job in self.link.running() if job.run_id is None]
            seen = {job.key for job in unstarted}
            yield from [*self._chosen_jobs(), *(job_dict(self.as_the_author_left(job)) for job in reversed(unstarted))]
        while page := self.link.runs(chosen):
            yield from (job_dict(self.as_the_author_left(job)) for job in page if job.key not in seen)
            chosen = chosen.model_copy(update={"before": page[-1].run_id})

    def _chosen_jobs(self) -> Iterable[JobDict]:
        """Return the jobs that the cycle under way has chosen."""
        return ()

    def get_finished_owned_jobs(self, project_id: int | str | None = None, **options: Any) -> Iterator[JobDict]:
        return self.get_owned_jobs(project_id, state=["finished"], **options)

    def is_finished(self, key: JobKey) -> str | None:
        """Return the job's outcome; None while the job runs, or for an unknown job."""
        job = self._job_by(key)
        return None if job is None else outcome_of(job)

    def is_running(self, key: JobKey) -> bool:
        job = self._job_by(key)
        return job is not None and job.state is JobState.RUNNING

    def wait_for(
        self,
        jobs_keys: JobKey | Iterable[JobKey],
        interval: float = 60,
        timeout: float = math.inf,
        heartbeat: float | Callable[[], object] | None = None,
    ) -> Collection[JobKey]:
        """Wait until the jobs, or the single job, have ended. Return the keys of jobs that still run after the time.

        `heartbeat`: seconds between two lines in the log, or a function that is called after each interval. A hook
        that waits holds up the reactions to all further ends.
        """
        waited, rest = 0.0, set(_several(jobs_keys))
        every = interval if heartbeat is None or callable(heartbeat) else max(heartbeat, interval)
        next_line = every
        while rest and waited < timeout:
            pause = min(interval, timeout - waited)
            rest = set(self.link.wait_for(rest, pause))
            waited += pause
            if not rest:
                break
            if callable(heartbeat):
                heartbeat()
            elif waited >= next_line:
                next_line += every
                log.info("%s still running", ", ".join(sorted(rest)))
        return rest

    def _pages(self, state: JobState) -> Iterator[Job]:
        after = 0
        while page := self.link.jobs(state, after=after, limit=JOBS_IN_A_PAGE, every_flow=self.acquire_all_jobs):
            yield from map(self.as_the_author_left, page)
            after = page[-1].number
