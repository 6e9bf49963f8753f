"""Which jobs go on when the stack ends: of all runs, and what could not be seen is not taken for nothing."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from crawler_lifecycle.assembly.control import Control
from crawler_lifecycle.model.looks import JobKey, JobLook, JobPhase, Look
from crawler_lifecycle.model.records import RunFilter
from crawler_lifecycle.model.states import RunStatus
from crawler_lifecycle.stack import jobs, up
from crawler_lifecycle.stack.jobs import RUNS_IN_A_PAGE, end_jobs, open_jobs

RUNS = 2 * RUNS_IN_A_PAGE + 1
JOB = JobLook(name="job", uid="1", task=0, attempt=1, phase=JobPhase.RUNNING)


@dataclass
class Installation:
    """Runs that are PROCESSING, each with one job, and a cluster that can be seen or not."""

    count: int = 0
    problem: str | None = None
    ended: list[str] = field(default_factory=list)

    @property
    def cluster(self) -> Any:
        return self

    parts = runs = cluster

    def select(self, chosen: RunFilter, *, limit: int, before: int | None) -> Sequence[Any]:
        assert RunStatus.PROCESSING in chosen.status
        assert chosen.flows, "the crawls of a flow have jobs, too"
        newest = min(self.count, (before or self.count + 1) - 1)
        numbers = range(newest, max(0, newest - limit), -1)
        return [SimpleNamespace(run_id=number, run_uid=str(number), crawler="books") for number in numbers]

    def look(self, run_uid: str) -> Look:
        seen = {} if self.problem or run_uid in self.ended else {(0, 1): JOB}
        return Look(complete=not self.problem, jobs=seen, problem=self.problem)

    def stop(self, run_uid: str, jobs: Sequence[JobKey], *, hurried: bool = False) -> None:
        assert jobs == [(0, 1)]
        self.ended.append(run_uid)

    kill = stop


def test_no_run_is_left_out_however_many_there_are() -> None:
    found = open_jobs(cast("Control", Installation(RUNS)))
    assert [job.run_id for job in found.seen] == list(range(RUNS, 0, -1))
    assert found.unseen == []


def test_all_are_ended_if_that_is_asked_for() -> None:
    here = Installation(RUNS)
    assert not end_jobs(cast("Control", here))
    assert len(here.ended) == RUNS


def test_what_cannot_be_seen_is_not_called_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    here, lines = cast("Control", Installation(2, problem="its folder is not there")), list[str]()
    up._report_jobs(here, lines.append, stop_jobs=False)
    assert lines == [f"jobs may still run in run {number} (books): its folder is not there" for number in (2, 1)]
    monkeypatch.setattr(jobs, "GRACE_SECONDS", 0)
    assert len(end_jobs(here, grace=0).unseen) == 2
