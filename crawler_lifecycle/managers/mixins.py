"""AsyncSchedulerCrawlManagerMixin: a manager on an event loop, with coroutines for its methods."""

from typing import Any

from crawler_lifecycle.managers.parameters import JobParams


class AsyncSchedulerCrawlManagerMixin:
    """In front of GeneratorCrawlManager. A cycle's jobs start at once, and hooks may be coroutine functions."""

    awaits = True

    async def workflow_loop(self) -> bool:
        goes_on: bool = await self._cycle()  # type: ignore[attr-defined]
        return goes_on

    async def schedule_spider_with_jobargs(
        self, job_args_override: JobParams | None = None, spider: str | None = None
    ) -> Any:
        started = super().schedule_spider_with_jobargs(job_args_override, spider)  # type: ignore[misc]
        return await self._awaited(started)  # type: ignore[attr-defined]

    async def run(self) -> Any:
        answer = super().run()  # type: ignore[misc]
        return await answer if hasattr(answer, "__await__") else answer
