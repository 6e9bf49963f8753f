"""Owned jobs: a manager's crawls as authors read them."""

import logging
import math
from collections.abc import Callable, Collection, Iterable, Iterator
from copy import deepcopy
from datetime import datetime
from itertools import islice
from typing import Any, cast

from crawler_lifecycle.contract.managers.items import Job, JobState, Waiting
from crawler_lifecycle.errors import BadInput
from crawler_lifecycle.managers.calls import AuthorsCode
from crawler_lifecycle.managers.collecting import whole
from crawler_lifecycle.managers.parameters import FullJobParams, JobDict, JobKey, JobParams

log = logging.getLogger(__name__)
JOBS_IN_A_PAGE = 500
STATES = {"pending": JobState.RUNNING, "running": JobState.RUNNING, "finished": JobState.FINISHED}
CHOSEN = "pending"  # state of a job that a cycle has chosen
UNKNOWN = "unknown"  # outcome word of a run that is gone


def outcome_of(job: Job) -> str | None:
    """Return the word for the job's end; None without an end."""
    return None if job.state is JobState.RUNNING else job.outcome or UNKNOWN


def params_of(job: Job | Waiting) -> JobParams:
    """Return a copy of the parameters as the author wrote them."""
    params = cast("dict[str, Any]", deepcopy(job.override))
    params.pop("spider", None)
    return cast("JobParams", params)


def job_dict(job: Job) -> JobDict:
    params = params_of(job)
    stats = {name: whole(value) for name, value in job.stats.items()}
    return {
        "key": job.key,
        "spider": job.request.crawler,
        "spider_args": params.get("spider_args") or {},
        "job_settings": params.get("job_settings") or {},
        "units": params.get("units"),
        "tags": list(job.request.tags),
        "state": job.state.value,
        "close_reason": outcome_of(job),
        "stats": stats,
        "scrapystats": stats,
        "running_time": _milliseconds(job.started_at),
        "finished_time": _milliseconds(job.ended_at),
        "result": job.result,
        "run_id": job.run_id,
        "number": job.number,
        "attempt": job.attempt,
    }


def _milliseconds(time: datetime | None) -> int | None:
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
        "state": CHOSEN,
        "close_reason": None,
        "stats": {},
        "scrapystats": {},
        "running_time": None,
        "finished_time": None,
        "result": None,
        "run_id": None,
        "number": waiting.number,
        "attempt": waiting.attempt,
    }


def _several(value: str | Iterable[str]) -> Iterable[str]:
    """Return the texts of an argument that may be a single text."""
    return [value] if isinstance(value, str) else value


class OwnedJobs(AuthorsCode):
    """Readings of a manager's jobs."""

    acquire_all_jobs = False

    def get_owned_jobs(
        self,
        project_id: object = None,
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
        """Return the last jobs of the manager's items in these states, by number.

        The jobs that a cycle has chosen, and not started yet, come last. They have no key. `has_tag`: jobs with all
        of the tags. `lacks_tag`: jobs with none of them. `start` and `count`: a part of the jobs. `meta` changes
        nothing.
        """
        for name in unknown:
            raise BadInput(name, "is no filter: the filters are state, has_tag, lacks_tag, spider, start and count")
        if project_id is not None:
            raise BadInput("project_id", "an installation has a single cluster, so there are no jobs elsewhere")
        wanted = set(_several(state))
        if not wanted or not wanted <= STATES.keys():
            raise BadInput("state", f"expected a list of {', '.join(STATES)}")
        lacks = set(_several(lacks_tag))
        jobs = (
            job
            for job in self._jobs_in({STATES[name] for name in wanted}, set(_several(has_tag)))
            if spider in (None, job["spider"]) and not lacks.intersection(job["tags"])
        )
        return islice(jobs, start, None if count is None else start + count)

    def _jobs_in(self, states: Collection[JobState], tags: Collection[str]) -> Iterator[JobDict]:
        for job_state in sorted(states):
            yield from map(job_dict, self._pages(job_state, tags))
        if JobState.RUNNING in states:
            yield from (job for job in self._chosen_jobs() if set(tags) <= set(job["tags"]))

    def _chosen_jobs(self) -> Iterable[JobDict]:
        """Return the jobs that the cycle under way has chosen."""
        return ()

    def get_finished_owned_jobs(self, project_id: object = None, **options: Any) -> Iterator[JobDict]:
        return self.get_owned_jobs(project_id, state=["finished"], **options)

    def is_finished(self, key: JobKey) -> str | None:
        """Return the job's outcome; None while the job runs, or for an unknown job."""
        return next((outcome_of(job) for job in self.link.find([key])), None)

    def is_running(self, key: JobKey) -> bool:
        return any(job.state is JobState.RUNNING for job in self.link.find([key]))

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

    def _pages(self, state: JobState, tags: Iterable[str]) -> Iterator[Job]:
        after, wanted = 0, list(tags)
        while page := self.link.jobs(
            state, after=after, limit=JOBS_IN_A_PAGE, tags=wanted, every_flow=self.acquire_all_jobs
        ):
            yield from page
            after = page[-1].number
