"""Finds the jobs under way on this machine, and ends these jobs with the stack if requested."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from crawler_lifecycle.assembly.control import Control
from crawler_lifecycle.model.looks import JobKey, JobLook
from crawler_lifecycle.model.records import OPEN_RUNS, RunSummary

RUNS_IN_A_PAGE = 1000
GRACE_SECONDS = 5.0  # time for jobs to end after a stop, and again after a kill
LOOK_PAUSE = 0.1  # seconds


@dataclass(frozen=True, slots=True)
class OpenJob:
    run_id: int
    run_uid: str
    crawler: str
    job: JobLook

    @property
    def line(self) -> str:
        return f"run {self.run_id} ({self.crawler}), task {self.job.task}: {self.job.phase}"


@dataclass(slots=True)
class OpenJobs:
    """Jobs that run or wait. `bool` is False only if there is certainly no such job.

    `unseen` has a line for every run with possible further jobs, and says why the jobs are hidden.
    """

    seen: list[OpenJob] = field(default_factory=list)
    unseen: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.seen or self.unseen)


def open_jobs(control: Control) -> OpenJobs:
    """Return open runs' running and waiting jobs."""
    jobs = OpenJobs()
    for run in _open_runs(control):
        look = control.parts.cluster.look(run.run_uid)
        alive = [job for job in look.jobs.values() if not (job.phase.has_ended or job.gone)]
        jobs.seen += [OpenJob(run.run_id, run.run_uid, run.crawler, job) for job in alive]
        if not look.complete:
            jobs.unseen.append(f"run {run.run_id} ({run.crawler}): {look.problem}")
    return jobs


def _open_runs(control: Control) -> Iterator[RunSummary]:
    before = None
    while page := control.runs.select(OPEN_RUNS, limit=RUNS_IN_A_PAGE, before=before):
        yield from page
        before = page[-1].run_id


def end_jobs(control: Control, grace: float = GRACE_SECONDS) -> OpenJobs:
    """Stop the jobs, and kill the remaining jobs after the grace period. Return the jobs that are still open."""
    cluster = control.parts.cluster
    _repeat_until_ended(control, cluster.stop, grace)
    _repeat_until_ended(control, cluster.kill, GRACE_SECONDS)
    return open_jobs(control)


def _repeat_until_ended(control: Control, end: Callable[[str, Sequence[JobKey]], object], patience: float) -> None:
    """Apply `end` to all open jobs, also to jobs that start meanwhile, until no job is open or `patience` is over."""
    deadline = time.monotonic() + patience
    while jobs := open_jobs(control):
        keys = defaultdict[str, list[JobKey]](list)
        for open_job in jobs.seen:
            keys[open_job.run_uid].append((open_job.job.task, open_job.job.attempt))
        for run_uid, keys_of_run in keys.items():
            end(run_uid, keys_of_run)
        if time.monotonic() > deadline:
            return
        time.sleep(LOOK_PAUSE)  # no event announces the end: the jobs are not our children
