"""The client outside async code. A thread has the client's event loop."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from crawler_lifecycle.client.workflows import WorkflowClient

P = ParamSpec("P")
T = TypeVar("T")


def _blocking(
    verb: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate["SyncFlows", P], T]:
    """Return the client's method as a method without `await`."""

    @wraps(verb)
    def call(sync: "SyncFlows", /, *args: P.args, **kwargs: P.kwargs) -> T:
        of_client: Callable[P, Coroutine[Any, Any, T]] = getattr(sync._flows, verb.__name__)  # a subclass may override
        return sync.run(of_client(*args, **kwargs))

    return call


class SyncFlows:
    """The client's methods without `await`. `run` does the same for a workflow's verbs: `flows.run(w.status())`."""

    def __init__(self, flows: WorkflowClient) -> None:
        self._flows = flows

    def run(self, verb: Coroutine[Any, Any, T]) -> T:
        """Return the coroutine's result."""
        return asyncio.run_coroutine_threadsafe(verb, self._flows.loop).result()

    push = _blocking(WorkflowClient.push)
    enqueue_many = _blocking(WorkflowClient.enqueue_many)
    wait = _blocking(WorkflowClient.wait)
    fetch_one = _blocking(WorkflowClient.fetch_one)
    fetch = _blocking(WorkflowClient.fetch)
    prune = _blocking(WorkflowClient.prune)
    approve = _blocking(WorkflowClient.approve)
    pause = _blocking(WorkflowClient.pause)
    resume = _blocking(WorkflowClient.resume)
    drain = _blocking(WorkflowClient.drain)
    stop = _blocking(WorkflowClient.stop)
    why = _blocking(WorkflowClient.why)
    attempts = _blocking(WorkflowClient.attempts)


class LoopThread:
    """A thread with an event loop, during a block."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="flows", daemon=True)

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
