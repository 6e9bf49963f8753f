"""Clients: the client for flows inside a step, for the verbs of workflows such as `await workflow.status()`.

The first use imports the client: without a use, an isolated process starts in half the time.
"""

import asyncio
import functools
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from crawler_lifecycle.flows.authors.open_client import opened_by
from crawler_lifecycle.flows.authors.running import RunningJob, running

if TYPE_CHECKING:
    from crawler_lifecycle.assembly.control import Control
    from crawler_lifecycle.client import WorkflowClient
    from crawler_lifecycle.client.blocking import LoopThread


class StepClients:
    """Clients of a process. Async functions use a client on their own event loop, functions in threads share a loop.

    A connection to Temporal belongs to its event loop. No client connects before its first use.
    """

    def __init__(self) -> None:
        self._controls: WeakKeyDictionary[asyncio.AbstractEventLoop, Control] = WeakKeyDictionary()
        self._lock = Lock()
        self._thread: LoopThread | None = None

    @contextmanager
    def around(self, job: RunningJob) -> Iterator[None]:
        """Make a client the innermost open client in the block, which is a step's function."""
        with running(job), opened_by(functools.partial(self._client, f"step {job.path} of {job.flow_id}")):
            yield

    def _client(self, actor: str) -> "WorkflowClient":
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return self._started_thread().run(self._made(actor))
        return self._on_this_loop(actor)

    async def _made(self, actor: str) -> "WorkflowClient":
        return self._on_this_loop(actor)

    def _on_this_loop(self, actor: str) -> "WorkflowClient":
        from crawler_lifecycle.assembly.control import Control
        from crawler_lifecycle.client import WorkflowClient

        loop = asyncio.get_running_loop()
        with self._lock:
            control = self._controls.get(loop)
            if control is None:
                control = self._controls[loop] = Control.open()
        return WorkflowClient(control, actor=actor)

    def _started_thread(self) -> "LoopThread":
        from crawler_lifecycle.client.blocking import LoopThread

        with self._lock:
            if self._thread is None:
                self._thread = LoopThread().__enter__()
            return self._thread
