"""`CrawlManager` has one job of a spider, and `PeriodicCrawlManager` starts one spider again and again."""

from typing import Any

from crawler_lifecycle.flows.model.turns import Begun
from crawler_lifecycle.managers.authors.crawl_ends import CrawlEnds
from crawler_lifecycle.managers.authors.link import ManagerLink
from crawler_lifecycle.managers.authors.owned_jobs import params_of
from crawler_lifecycle.managers.authors.parameters import JobKey, JobParams
from crawler_lifecycle.model.manager_items import Job

REFUSED = "refused"  # close reason of a manager whose job can never start
IN_A_ROW = "crawlmanager/failures_in_a_row"  # stat
MOST_DOUBLINGS = 60  # a larger power of two is no number of seconds
QUICK_ENDS = "quick_ends"  # subject in the stored memory


class CrawlManager(CrawlEnds):
    """Schedules one job of a spider, and closes with the job's outcome."""

    async def process_outcome(self, job: Job, outcome: str, *, notifies_host: bool) -> None:
        hook = self.bad_outcome_hook if self._ended_badly else self.finished_ok_hook
        override = self.hooks_params(job)
        await self.call(hook, job.request.crawler, outcome, override, job.key, job=job.key, notifies_host=notifies_host)

    # hooks

    def bad_outcome_hook(self, spider: str, outcome: str, job_args_override: JobParams, jobkey: JobKey) -> Any:  # noqa: ARG002
        """Called for each job with a failed outcome. The first close reason stays."""
        if self.get_close_reason() is None:
            self.set_close_reason(outcome)

    def finished_ok_hook(self, spider: str, outcome: str, job_args_override: JobParams, jobkey: JobKey) -> Any:
        """Called for each job with another outcome."""

    # the cycle

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
            self._own_reason = REFUSED if self.link.counts().refused else None  # a single cycle may end here
        return True

    async def _start_the_job(self) -> JobKey | None:
        chosen = self._chosen = next(iter(self.link.waiting(1)), None)
        parameters = () if chosen is None else (params_of(chosen), chosen.request.crawler)
        key: JobKey | None = await self.call(self.schedule_spider_with_jobargs, *parameters)
        return key

    def _goes_on_after_its_job(self) -> bool:
        return False


class PeriodicCrawlManager(CrawlManager):
    """Schedules the same job again after each end, indefinitely."""

    needs_cycles = True
    longest_failure_pause: float = 900.0  # seconds between jobs that end at once
    quick_end: float = 10.0  # seconds; a job that fails sooner makes the next pause longer
    max_failures_in_a_row: int | None = None  # number after which the manager closes
    _pause: dict[str, float]  # failures at once, and the time of the next job's start

    def attach(self, link: ManagerLink, begun: Begun) -> None:
        super().attach(link, begun)
        self._pause = self._collected.memory.setdefault(QUICK_ENDS, {"number": 0, "next_at": 0.0})
        if self.has_failed_too_often and begun.close_reason is None:  # people let the closed manager begin again
            self.stats.set_value(IN_A_ROW, 0)

    def bad_outcome_hook(self, spider: str, outcome: str, job_args_override: JobParams, jobkey: JobKey) -> Any:
        """Called for each job with a failed outcome."""

    def pause_before_next(self) -> float:
        """Return the pause in seconds before the next job."""
        number = self._pause["number"]
        return min(self.longest_failure_pause, 2.0 ** min(number, MOST_DOUBLINGS)) if number else 0.0

    def note_end(self, job: Job, *, is_bad: bool) -> None:
        super().note_end(job, is_bad=is_bad)
        self._count_failures_in_a_row(is_bad=is_bad)
        if job.started_at is None or job.ended_at is None:
            return
        is_quick = (job.ended_at - job.started_at).total_seconds() < self.quick_end
        if is_quick and is_bad:
            self._note_quick_end(job.ended_at.timestamp())
        else:
            self._pause.update(number=0, next_at=0.0)

    def _count_failures_in_a_row(self, *, is_bad: bool) -> None:
        former = self.stats.get_value(IN_A_ROW, 0)
        failures = former + 1 if is_bad else 0
        if failures != former:
            self.stats.set_value(IN_A_ROW, failures)
        if self.max_failures_in_a_row is not None and failures >= self.max_failures_in_a_row:
            self.set_close_reason("max_failures_in_a_row")

    @property
    def has_failed_too_often(self) -> bool:
        most = self.max_failures_in_a_row
        return most is not None and self.stats.get_value(IN_A_ROW, 0) >= most

    async def _cycle(self) -> bool:
        await self.call(self.check_running_jobs)
        if self.has_failed_too_often:
            return False
        now, is_idle = self.link.now().timestamp(), not self.link.counts().running
        may_start = is_idle and self.may_start and now >= self._pause["next_at"]
        if may_start and await self._start_the_job() is None:
            self._note_quick_end(now)
        return True

    def _note_quick_end(self, at: float) -> None:
        self._pause["number"] += 1
        self._pause["next_at"] = at + self.pause_before_next()

    @property
    def seconds_to_next(self) -> float | None:
        """Seconds until the next job may start; None without a pause."""
        remaining = self._pause["next_at"] - self.link.now().timestamp()
        return remaining if remaining > 0 else None
