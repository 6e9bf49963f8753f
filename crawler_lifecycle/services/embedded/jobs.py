"""Finds the jobs under way on this machine, and ends these jobs with the stack if requested."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from crawler_lifecycle.contract.records import RunSummary
from crawler_lifecycle.contract.states import RunStatus
from crawler_lifecycle.control.control import Control
from crawler_lifecycle.domain.looks import JobLook

RUNS_IN_A_PAGE = 1000
GRACE_SECONDS = 5.0
LOOK_PAUSE = 0.1


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
    """Open jobs. `unseen`: a line for every run that may have more jobs, with the problem that hides the jobs."""

    seen: list[OpenJob] = field(default_factory=list)
    unseen: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.seen or self.unseen)


def open_jobs(control: Control) -> OpenJobs:
    """Return jobs that still run or wait, in all open runs."""
    jobs = OpenJobs()
    for run in _open_runs(control):
        look = control.parts.cluster.look(run.run_uid)
        alive = [job for job in look.jobs.values() if not (job.phase.has_ended or job.gone)]
        jobs.seen += [OpenJob(run.run_id, run.run_uid, run.crawler, job) for job in alive]
        if not look.complete:
            jobs.unseen.append(f"run {run.run_id} ({run.crawler}): {look.problem}")
    return jobs


def _open_runs(control: Control) -> Iterator[RunSummary]:
    for status in (status for status in RunStatus if not status.is_over):
        before = None
        while page := control.runs.list(limit=RUNS_IN_A_PAGE, before=before, status=status):
            yield from page
            before = page[-1].run_id


def end_jobs(control: Control, grace: float = GRACE_SECONDS) -> OpenJobs:
    """Stop the jobs, and kill the remaining jobs after the grace period. Return the jobs still open."""
    for end, patience in ((control.parts.cluster.stop, grace), (control.parts.cluster.kill, GRACE_SECONDS)):
        deadline = time.monotonic() + patience
        while alive := open_jobs(control):
            for run_uid in {open_job.run_uid for open_job in alive.seen}:
                jobs = [open_job.job for open_job in alive.seen if open_job.run_uid == run_uid]
                end(run_uid, [(job.task, job.attempt) for job in jobs])
            if time.monotonic() > deadline:
                break
            time.sleep(LOOK_PAUSE)  # no event tells of all jobs: their runners are no children of this process
    return open_jobs(control)
