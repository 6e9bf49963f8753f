"""AsyncSchedulerCrawlManagerMixin: a manager on an event loop, with coroutines for its methods."""

from typing import Any

from crawler_lifecycle.managers.parameters import JobParams


class AsyncSchedulerCrawlManagerMixin:
    """In front of GeneratorCrawlManager. A cycle's jobs start at once, and hooks may be coroutine functions."""

    awaits = True

    async def workflow_loop(self) -> bool:
        goes_on: bool = await self._cycle()  # type: ignore[attr-defined]
        return goes_on

    async def check_running_jobs(self) -> None:
        await self._check_running_jobs()  # type: ignore[attr-defined]

    async def bad_outcome_hook(self, spider: str, outcome: str, job_args_override: JobParams, jobkey: str) -> None:
        await self._try_again(spider, outcome, job_args_override, jobkey)  # type: ignore[attr-defined]

    async def schedule_spider_with_jobargs(
        self, job_args_override: JobParams | None = None, spider: str | None = None
    ) -> Any:
        return super().schedule_spider_with_jobargs(job_args_override, spider)  # type: ignore[misc]

    async def run(self) -> Any:
        answer = super().run()  # type: ignore[misc]
        return await answer if hasattr(answer, "__await__") else answer

    @property
    def starts_by_itself(self) -> bool:
        """Whether no author's method is around a start."""
        return type(self).schedule_spider_with_jobargs is AsyncSchedulerCrawlManagerMixin.schedule_spider_with_jobargs
