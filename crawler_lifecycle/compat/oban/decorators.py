"""oban-py's marks. A marked class or function also has `enqueue`, and Oban's 20 attempts."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from crawler_lifecycle import flows
from crawler_lifecycle.compat.oban.app import Oban
from crawler_lifecycle.errors import BadInput

MAX_ATTEMPTS = 20  # Oban's default


def worker(
    *, oban: str = "oban", cron: object = None, max_attempts: int = MAX_ATTEMPTS, **options: Any
) -> Callable[[type], Any]:
    """Mark a class with a method `process(self, job)`."""
    _refuse_cron(cron)

    def mark(cls: type) -> Any:
        if hasattr(cls, "backoff"):
            raise BadInput("backoff", "is not called; pauses are given as retry=RetryPolicy(pause_seconds=...)")
        marked: Any = flows.worker(max_attempts=max_attempts, **options)(cls)

        async def enqueue(cls: Any, args: Mapping[str, Any] | None = None, /, **overrides: Any) -> Any:
            return await Oban.get_instance(oban).enqueue(cls.new(args, **overrides))

        marked.enqueue = classmethod(enqueue)
        return marked

    return mark


def job(
    *, oban: str = "oban", cron: object = None, max_attempts: int = MAX_ATTEMPTS, **options: Any
) -> Callable[[Callable[..., Any]], Any]:
    """Mark a function: `new` and `enqueue` take the function's own arguments."""
    _refuse_cron(cron)

    def mark(function: Callable[..., Any]) -> Any:
        marked: Any = flows.job(max_attempts=max_attempts, **options)(function)
        signature = inspect.signature(function)

        def new(*args: Any, **kwargs: Any) -> flows.StepJob:
            bound = signature.bind(*args, **kwargs)
            bound.apply_defaults()
            step: flows.StepJob = marked.job.with_kwargs(bound.arguments)
            return step

        async def enqueue(*args: Any, **kwargs: Any) -> Any:
            return await Oban.get_instance(oban).enqueue(new(*args, **kwargs))

        marked.new, marked.enqueue = new, enqueue
        return marked

    return mark


def _refuse_cron(cron: object) -> None:
    if cron is not None:
        raise BadInput("cron", "is no option of a job; `crawlctl schedule` starts a workflow by the clock")
