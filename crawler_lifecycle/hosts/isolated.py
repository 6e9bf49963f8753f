"""Main for isolated processes: imports the authors' modules, and calls functions by name for its host.

The process ends with its host: the process kills itself as soon as the connection to the host breaks.
"""

import asyncio
import logging
import queue
import signal
import socket
import sys
import threading
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, NoReturn

from pydantic import JsonValue

from crawler_lifecycle import logs
from crawler_lifecycle.base.hiding import hide_process
from crawler_lifecycle.errors import LifecycleError, NotFound, NotReady, TemporaryError
from crawler_lifecycle.flows.authors.modules import Modules, load
from crawler_lifecycle.flows.authors.running import StepLink
from crawler_lifecycle.flows.ports.steps import BegunStep, StepInputs
from crawler_lifecycle.flows.rules.contexts import Source
from crawler_lifecycle.hosts.calling import check_of, is_async, job_of, prepared, work_of
from crawler_lifecycle.hosts.children import Channel, end_with_children, end_with_parent
from crawler_lifecycle.hosts.contexts import StepClients, context_of
from crawler_lifecycle.hosts.functions import ENDED, STEP
from crawler_lifecycle.hosts.outcomes import Ended, end_of
from crawler_lifecycle.model.flow_states import EndKind
from crawler_lifecycle.settings.installation import keep_installation

CLIENTS = StepClients()
logger = logging.getLogger("crawler_lifecycle.steps")


class HostConnection:
    """The connection to the host. A thread receives, so that the process notices the host's end at any time."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._calls: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._asking = threading.Lock()
        threading.Thread(target=self._receive, name="host", daemon=True).start()

    def next_message(self) -> dict[str, Any]:
        return self._calls.get()

    def tell(self, message: dict[str, Any]) -> None:
        try:
            self._channel.send(message)
        except OSError:
            end_with_children()

    def inputs(self, flow_uid: str, number: int) -> StepInputs:  # noqa: ARG002 - the host knows the step
        return StepInputs(**self._ask({"inputs": number}))

    def results(self, flow_uid: str, numbers: Collection[int], reads: Mapping[int, int]) -> Mapping[int, JsonValue]:  # noqa: ARG002 - the same
        return {int(number): value for number, value in self._ask({"results": list(numbers)}).items()}

    def source(self, flow_uid: str, path: str) -> Source | None:  # noqa: ARG002 - the same
        source: Source | None = self._ask({"source": path})
        return source

    def _ask(self, question: dict[str, Any]) -> Any:
        with self._asking:
            self.tell(question)
            message = self._answers.get()
        if "error" in message:
            raise TemporaryError(message["error"])
        return message["answer"]

    def _receive(self) -> None:
        while (message := self._channel.receive()) is not None:
            is_answer = "answer" in message or "error" in message
            (self._answers if is_answer else self._calls).put(message)
        end_with_children()


class LinkToHost(StepLink):
    """Sends the progress to the host."""

    def __init__(self, host: HostConnection) -> None:
        super().__init__(logger)
        self._host = host

    def progress(self, done: float, total: float | None = None) -> None:
        self._host.tell({"progress": [done, total]})


def main() -> NoReturn:
    hide_process()
    end_with_parent(signal.SIGKILL)  # also if the function holds the interpreter's lock
    host = HostConnection(Channel(socket.socket(fileno=int(sys.argv[1]))))
    settings = keep_installation()  # secrets for the function's clients, which programs of the function do not inherit
    logs.configure(settings.log.format, settings.log.level)
    first = host.next_message()
    modules = _loaded(first["targets"], first["folder"])
    host.tell({"ready": True})
    while True:
        message = host.next_message()
        step = STEP.validate_python(message["call"])
        end = modules if isinstance(modules, Ended) else _end_of(step, modules, host, message["most_bytes"])
        sys.stdout.flush()
        sys.stderr.flush()
        host.tell({"end": ENDED.dump_python(end, mode="json")})


def _loaded(targets: list[str], folder: str | None) -> Modules | Ended:
    try:
        return load(targets, None if folder is None else Path(folder))
    except NotReady as error:
        return _failed(error)


def _end_of(step: BegunStep, modules: Modules, host: HostConnection, most_bytes: int) -> Ended:
    work, job = work_of(step), job_of(step)
    function = modules.function(work.function)
    if function is None:
        return _failed(NotFound(f"{work.function} is not in the modules any more"))
    context = context_of(job, step.start.number, host, LinkToHost(host))

    def call() -> Any:
        called = prepared(function, step, context)
        if not is_async(function, work.form):
            return called()
        return asyncio.run(_awaited(called()))

    with logs.about(flow=step.flow_id, step=step.path, attempt=step.start.attempt), CLIENTS.around(job):
        return end_of(call, job, most_bytes, check_of(function, step))


def _failed(error: LifecycleError) -> Ended:
    """Return the end for a function that was not called."""
    return Ended(EndKind.FAILED, reason=error.message, outcome=type(error).__name__, error=error.message)


async def _awaited(value: Any) -> Any:
    return await value


if __name__ == "__main__":
    main()
