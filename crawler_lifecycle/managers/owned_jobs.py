"""Owned jobs: a manager's crawls as authors read them."""

import math
from collections.abc import Callable, Collection, Iterable, Iterator
from copy import deepcopy
from typing import Any, cast

from crawler_lifecycle.contract.managers.items import Job, JobState, Waiting
from crawler_lifecycle.errors import BadInput
from crawler_lifecycle.managers.calls import AuthorsCode
from crawler_lifecycle.managers.parameters import FullJobParams, JobDict, JobKey, JobParams

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
    return {
        "key": job.key,
        "spider": job.request.crawler,
        "spider_args": params.get("spider_args") or {},
        "job_settings": params.get("job_settings") or {},
        "units": params.get("units"),
        "tags": list(job.request.tags),
        "state": job.state.value,
        "close_reason": outcome_of(job),
        "stats": dict(job.stats),
        "result": job.result,
        "run_id": job.run_id,
        "number": job.number,
        "attempt": job.attempt,
    }


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
        "result": None,
        "run_id": None,
        "number": waiting.number,
        "attempt": waiting.attempt,
    }


class OwnedJobs(AuthorsCode):
    """Readings of a manager's jobs."""

    acquire_all_jobs = False

    def get_owned_jobs(
        self, project_id: object = None, *, state: Iterable[str] = (), has_tag: Iterable[str] = (), **_more: Any
    ) -> Iterator[JobDict]:
        """Yield the last jobs of the manager's items in these states, by number.

        The jobs that a cycle has chosen, and not started yet, come last. They have no key.
        """
        if project_id is not None:
            raise BadInput("project_id", "an installation has a single cluster, so there are no jobs elsewhere")
        wanted = set(state)
        if not wanted or not wanted <= STATES.keys():
            raise BadInput("state", f"expected a list of {', '.join(STATES)}")
        states, tags = {STATES[name] for name in wanted}, set(has_tag)
        for job_state in sorted(states):
            yield from map(job_dict, self._pages(job_state, tags))
        if JobState.RUNNING in states:
            yield from (job for job in self._chosen_jobs() if tags <= set(job["tags"]))

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
        job_keys: Iterable[JobKey],
        interval: float = 60,
        timeout: float = math.inf,
        heartbeat: Callable[[], object] | None = None,
    ) -> Collection[JobKey]:
        """Wait until the jobs have ended. Return the keys of jobs that still run after the time.

        `heartbeat` is called after each interval.
        """
        if self._phase is not None and self._phase.endswith("_hook"):
            raise BadInput("wait_for", "is not for hooks: a hook that waits holds up all further jobs")
        remaining, rest = timeout, set(job_keys)
        while rest and remaining > 0:
            pause = min(interval, remaining)
            rest = set(self.link.wait_for(rest, pause))
            remaining -= pause
            if heartbeat is not None and rest:
                heartbeat()
        return rest

    def _pages(self, state: JobState, tags: Iterable[str]) -> Iterator[Job]:
        after, wanted = 0, list(tags)
        while page := self.link.jobs(
            state, after=after, limit=JOBS_IN_A_PAGE, tags=wanted, every_flow=self.acquire_all_jobs
        ):
            yield from page
            after = page[-1].number
