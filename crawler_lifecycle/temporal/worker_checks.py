"""The checks of the workers by `crawlctl doctor`: which workers have asked Temporal for work lately."""

import time
from collections.abc import Mapping

from crawler_lifecycle.errors import NotReady
from crawler_lifecycle.model.naming import archive_queue
from crawler_lifecycle.temporal.engine import Engine

LONGEST_POLL = 75.0  # seconds; a worker asks again after a minute without work, and Temporal lists it for five minutes
START = "start `python -m workers.lifecycle`"


async def check_worker(engine: Engine) -> str:
    """Return the workers of the task queue. NotReady if no worker has asked for work lately."""
    pollers = await engine.pollers()
    if not any(_is_recent(asked_at) for asked_at in pollers.values()):
        silence = f": {_silent(pollers)}" if pollers else ""
        raise NotReady(f"no worker asks task queue {engine.task_queue} for work{silence}; {START}")
    return f"task queue {engine.task_queue}: {_workers(pollers)}"


async def check_archive_worker(engine: Engine) -> str:
    """Return the workers that make archives. NotReady if there is none.

    A worker whose slots are all taken does not ask, and an archive may take hours, so silence alone is no fault.
    """
    queue, pollers = archive_queue(engine.task_queue), await engine.archive_pollers()
    if not pollers:
        raise NotReady(f"no worker asks task queue {queue} for archives to make; {START}")
    return f"task queue {queue}: {_workers(pollers)}"


def _workers(pollers: Mapping[str, float]) -> str:
    """Return the workers, with the time since the last request of each worker, and the silent workers last."""
    recent = [f"{name} ({_ago(asked_at)})" for name, asked_at in sorted(pollers.items()) if _is_recent(asked_at)]
    silent = _silent(pollers)
    return "; ".join(part for part in (", ".join(recent), silent) if part)


def _silent(pollers: Mapping[str, float]) -> str:
    """Return the workers that have not asked lately; an empty text without such a worker."""
    silent = [f"{name} ({_ago(asked_at)})" for name, asked_at in sorted(pollers.items()) if not _is_recent(asked_at)]
    return f"ended or without a free slot: {', '.join(silent)}" if silent else ""


def _is_recent(asked_at: float) -> bool:
    return time.time() - asked_at <= LONGEST_POLL


def _ago(asked_at: float) -> str:
    return f"asked {max(0.0, time.time() - asked_at):.0f} s ago"
