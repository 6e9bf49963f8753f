"""A step's context and its client for flows.

The context's values come from the ledger when the function reads them. The client serves the verbs of workflows, such
as `await workflow.status()`. The first use imports the client: without a use, an isolated process starts in half the
time.
"""

import asyncio
import functools
import logging
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from weakref import WeakKeyDictionary

from pydantic import JsonValue

from crawler_lifecycle.errors import TemporaryError
from crawler_lifecycle.flows.authors.open_client import opened_by
from crawler_lifecycle.flows.authors.running import Context, Results, RunningJob, StepLink, running
from crawler_lifecycle.flows.model.values import decode
from crawler_lifecycle.flows.ports.steps import NO_READS, StepInputs
from crawler_lifecycle.flows.rules.contexts import Source

if TYPE_CHECKING:
    from crawler_lifecycle.assembly.control import Control
    from crawler_lifecycle.client import WorkflowClient
    from crawler_lifecycle.client.blocking import LoopThread

logger = logging.getLogger(__name__)
T = TypeVar("T")
READ_SECONDS = 60.0  # time for repeating a read while the database is away; then the function gets the error
READ_PAUSE = 0.5


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


class Inputs(Protocol):
    """The reads for a context: the host's `StepLedger`, or an isolated process's connection to its host."""

    def inputs(self, flow_uid: str, number: int) -> StepInputs: ...

    def results(self, flow_uid: str, numbers: Collection[int], reads: Mapping[int, int]) -> Mapping[int, JsonValue]: ...

    def source(self, flow_uid: str, path: str) -> Source | None: ...


def context_of(
    job: RunningJob, number: int, inputs: Inputs, link: StepLink, reads: Mapping[int, int] = NO_READS
) -> Context:
    """Return the context for the member with this number. No value is read yet."""
    values = _Values(job.flow_uid, number, inputs, link, reads)
    return Context(values, job, values.result, link)


class _Values(Mapping[str, Callable[[], Any]]):
    """Loaders for a context's values by name. The first access reads the names from the ledger."""

    def __init__(self, flow_uid: str, number: int, inputs: Inputs, link: StepLink, reads: Mapping[int, int]) -> None:
        self._reads = reads
        self._flow_uid = flow_uid
        self._number = number
        self._inputs = inputs
        self._link = link
        self._loaders: dict[str, Callable[[], Any]] | None = None

    def result(self, path: str) -> Any:
        """Return the result of the flow's member with this path, or the results of the group. KeyError without it."""
        source = self._read(lambda: self._inputs.source(self._flow_uid, path))
        if source is None:
            raise KeyError(path)
        return self._value(source)

    def __getitem__(self, name: str) -> Callable[[], Any]:
        return self._known()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._known())

    def __len__(self) -> int:
        return len(self._known())

    def _known(self) -> dict[str, Callable[[], Any]]:
        if self._loaders is None:
            inputs = self._read(lambda: self._inputs.inputs(self._flow_uid, self._number))
            self._loaders = {name: _constant(content) for name, content in inputs.context.items()}
            self._loaders |= {name: self._loader(source) for name, source in inputs.sources.items()}
        return self._loaders

    def _loader(self, source: Source) -> Callable[[], Any]:
        return lambda: self._value(source)

    def _value(self, source: Source) -> Any:
        if isinstance(source, int):
            return self._load([source]).get(source)
        return Results(source, self._load)

    def _load(self, numbers: Collection[int]) -> Mapping[int, Any]:
        encoded = self._read(lambda: self._inputs.results(self._flow_uid, numbers, self._reads))
        return {number: decode(content) for number, content in encoded.items()}

    def _read(self, read: Callable[[], T]) -> T:
        """Read, again and again while the database is away, since the function itself is not to blame."""
        deadline = time.monotonic() + READ_SECONDS
        while True:
            try:
                return read()
            except TemporaryError as error:
                if time.monotonic() > deadline or self._link.is_cancelled:
                    raise
                logger.warning("a step waits for its inputs: %s", error.message)
                time.sleep(READ_PAUSE)  # no event shows that the database is back


def _constant(content: JsonValue) -> Callable[[], Any]:
    return lambda: decode(content)
