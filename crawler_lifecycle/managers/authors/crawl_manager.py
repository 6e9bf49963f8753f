"""CrawlManager: one job of a spider."""

from typing import Any

from crawler_lifecycle.managers.authors.crawl_ends import CrawlEnds
from crawler_lifecycle.managers.authors.owned_jobs import params_of
from crawler_lifecycle.managers.authors.parameters import JobKey, JobParams
from crawler_lifecycle.model.manager_items import Job

REFUSED = "refused"  # close reason of a manager whose job can never start


class CrawlManager(CrawlEnds):
    """Schedules one job of a spider, and closes with the job's outcome."""

    async def process_outcome(self, job: Job, outcome: str, *, tells: bool) -> None:
        hook = self.bad_outcome_hook if self._ended_badly else self.finished_ok_hook
        override = self.hooks_params(job)
        await self.call(hook, job.request.crawler, outcome, override, job.key, job=job.key, tells=tells)

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
        return True

    async def _start_the_job(self) -> JobKey | None:
        chosen = self._chosen = next(iter(self.link.waiting(1)), None)
        parameters = () if chosen is None else (params_of(chosen), chosen.request.crawler)
        key: JobKey | None = await self.call(self.schedule_spider_with_jobargs, *parameters)
        return key

    def _goes_on_after_its_job(self) -> bool:
        return False
