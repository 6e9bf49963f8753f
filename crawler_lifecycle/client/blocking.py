"""The client outside async code. A thread has the client's event loop."""

import asyncio
import threading
from collections.abc import Collection, Coroutine
from datetime import timedelta
from typing import Any, Self, TypeVar

from crawler_lifecycle.base.names import ROOT
from crawler_lifecycle.client.workflows import WorkflowClient
from crawler_lifecycle.flows import Graft, Sequence, Workflow
from crawler_lifecycle.flows.model.records import Why
from crawler_lifecycle.flows.ports.records import AttemptRecord
from crawler_lifecycle.flows.rules.pruning import AFTER_A_DAY, Rule

T = TypeVar("T")


class SyncFlows:
    """The client's methods without `await`. `run` does the same for a workflow's verbs: `flows.run(w.status())`."""

    def __init__(self, flows: WorkflowClient) -> None:
        self._flows = flows

    def run(self, verb: Coroutine[Any, Any, T]) -> T:
        """Return the coroutine's result."""
        return asyncio.run_coroutine_threadsafe(verb, self._flows.loop).result()

    def push(self, workflow: Workflow | Sequence) -> str:
        return self.run(self._flows.push(workflow))

    def enqueue_many(self, work: Workflow | Sequence | Graft) -> str:
        return self.run(self._flows.enqueue_many(work))

    def wait(self, id: str, *, timeout: float | timedelta | None = None) -> Workflow:  # noqa: A002
        return self.run(self._flows.wait(id, timeout=timeout))

    def fetch_one(self, id: str) -> Workflow | None:  # noqa: A002
        return self.run(self._flows.fetch_one(id))

    def fetch(
        self,
        *,
        states: Collection[str] | None = None,
        ids: Collection[str] | None = None,
        limit: int = 100,
        before: str | None = None,
    ) -> list[Workflow]:
        return self.run(self._flows.fetch(states=states, ids=ids, limit=limit, before=before))

    def prune(self, rule: Rule = AFTER_A_DAY) -> int:
        return self.run(self._flows.prune(rule))

    def approve(self, flow: str, name: str, *, approved: bool = True, note: str | None = None) -> None:
        self.run(self._flows.approve(flow, name, approved=approved, note=note))

    def pause(self, flow: str) -> None:
        self.run(self._flows.pause(flow))

    def resume(self, flow: str) -> None:
        self.run(self._flows.resume(flow))

    def drain(self, flow: str) -> None:
        self.run(self._flows.drain(flow))

    def stop(
        self,
        id: str,  # noqa: A002
        *,
        drain: bool = False,
        leave: bool = False,
        force: bool = False,
        wait: bool = False,
        reason: str | None = None,
    ) -> None:
        self.run(self._flows.stop(id, drain=drain, leave=leave, force=force, wait=wait, reason=reason))

    def why(self, flow: str, name: str = ROOT) -> Why | None:
        return self.run(self._flows.why(flow, name))

    def attempts(self, flow: str, name: str) -> list[AttemptRecord]:
        return self.run(self._flows.attempts(flow, name))


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
