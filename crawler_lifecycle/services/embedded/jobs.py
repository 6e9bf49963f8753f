"""Which crawls are under way on this machine, and how are they ended with the stack?"""

import time
from dataclasses import dataclass

from crawler_lifecycle.contract.states import RunStatus
from crawler_lifecycle.control.control import Control
from crawler_lifecycle.domain.looks import JobLook

MOST_RUNS = 1000
GRACE = 5.0
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


def open_jobs(control: Control) -> list[OpenJob]:
    """The jobs that have not ended, of all runs that are not over."""
    runs = [run for status in RunStatus if not status.is_over for run in control.list(limit=MOST_RUNS, status=status)]
    return [
        OpenJob(run.run_id, run.run_uid, run.crawler, job)
        for run in runs
        for job in control.cluster.look(run.run_uid).jobs.values()
        if not (job.phase.has_ended or job.gone)
    ]


def end_jobs(control: Control, grace: float = GRACE) -> list[OpenJob]:
    """Asked first, made to after the grace period; answers what is left."""
    for act, patience in ((control.cluster.stop, grace), (control.cluster.kill, GRACE)):
        deadline = time.monotonic() + patience
        while left := open_jobs(control):
            for run_uid in {job.run_uid for job in left}:
                act(run_uid, [(each.job.task, each.job.attempt) for each in left if each.run_uid == run_uid])
            if time.monotonic() > deadline:
                break
            time.sleep(LOOK_PAUSE)
    return open_jobs(control)
