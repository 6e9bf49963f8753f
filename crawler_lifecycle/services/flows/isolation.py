"""Isolation: runs functions in processes apart, which stops and time-outs can kill.

The process reads a step's inputs through its host, so that only the host has a connection to the database.
"""

import asyncio
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

from pydantic import TypeAdapter

from crawler_lifecycle.domain.flows.ends import EndKind
from crawler_lifecycle.errors import LifecycleError
from crawler_lifecycle.ports import ClaimedStep
from crawler_lifecycle.services.flows.channel import Channel
from crawler_lifecycle.services.flows.contexts import Inputs
from crawler_lifecycle.services.flows.modules import Modules
from crawler_lifecycle.services.flows.outcomes import PROCESS_DIED, STOPPED, Ended
from crawler_lifecycle.services.flows.runners import StepCall

logger = logging.getLogger(__name__)
KILL_SECONDS = 5.0  # between SIGTERM and SIGKILL
STEP = TypeAdapter(ClaimedStep)
ENDED = TypeAdapter(Ended)
MAIN = "crawler_lifecycle.services.flows.isolated"


class StepProcess:
    """A process for functions in sequence. The main thread starts the process.

    Linux ends the process together with the thread that has started the process.
    """

    def __init__(self, modules: Modules, inputs: Inputs) -> None:
        self._inputs = inputs
        self._is_stopped = False
        ours, theirs = socket.socketpair()
        with theirs:
            descriptor = theirs.fileno()
            command = [sys.executable, "-P", "-m", MAIN, str(descriptor)]
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, pass_fds=[descriptor], start_new_session=True
            )
        self._channel = Channel(ours)
        self._ended: Future[Ended] = Future()
        threading.Thread(target=self._wait, name=f"isolated-{self._process.pid}", daemon=True).start()
        folder = None if modules.folder is None else str(modules.folder)
        self._send({"targets": list(modules.targets), "folder": folder})

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None and not self._is_stopped

    def call(self, call: StepCall) -> asyncio.Task[Ended]:
        """Call the function. The task returns the end, also if the process dies."""
        self._ended = Future()
        step = STEP.dump_python(call.step, mode="json")
        self._send({"call": step, "most_bytes": call.most_bytes})
        threading.Thread(target=self._serve, args=(call,), name=call.step.path, daemon=True).start()
        return asyncio.create_task(_awaited(self._ended))

    def stop(self) -> None:
        """Kill the process with all its children."""
        if self._process.poll() is None and not self._is_stopped:
            self._kill(signal.SIGTERM)
            asyncio.get_running_loop().call_later(KILL_SECONDS, self._kill_if_alive)
        self._is_stopped = True

    def close(self) -> None:
        """End the process after its last call."""
        self._is_stopped = True
        self._kill(signal.SIGKILL)

    def _serve(self, call: StepCall) -> None:
        """Answer the function's questions until its end."""
        while (message := self._channel.receive()) is not None:
            if "end" in message:
                return self._ended.set_result(ENDED.validate_python(message["end"]))
            if "progress" in message:
                with call.around():
                    call.link.progress(*message["progress"])
            else:
                self._send(self._answer(call.step, message))
        status = self._process.wait()
        return self._ended.set_result(STOPPED if self._is_stopped else _died(status))

    def _answer(self, step: ClaimedStep, message: dict[str, Any]) -> dict[str, Any]:
        try:
            return {"answer": self._value(step, message)}
        except LifecycleError as error:
            return {"error": error.message}
        except Exception as error:
            logger.exception("an isolated step's question has no answer")
            return {"error": f"{type(error).__name__}: {error}"}

    def _value(self, step: ClaimedStep, message: dict[str, Any]) -> Any:
        if "results" in message:
            return {str(n): value for n, value in self._inputs.results(step.flow_uid, message["results"]).items()}
        if "source" in message:
            return self._inputs.source(step.flow_uid, message["source"])
        inputs = self._inputs.inputs(step.flow_uid, step.start.number)
        return {"context": dict(inputs.context), "sources": dict(inputs.sources)}

    def _send(self, message: dict[str, Any]) -> None:
        with suppress(OSError):  # a dead process is noticed by `_serve`
            self._channel.send(message)

    def _wait(self) -> None:
        """Wait for the end of the process, then kill its children: they may hold the connection open."""
        self._process.wait()
        self._kill(signal.SIGKILL)
        self._channel.close()

    def _kill_if_alive(self) -> None:
        if self._process.poll() is None:
            self._kill(signal.SIGKILL)

    def _kill(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)


class InProcess:
    """A function in an isolated process. `at_end` is called after its end."""

    def __init__(self, call: StepCall, process: StepProcess, at_end: Callable[[], None]) -> None:
        self._process = process
        self.end = process.call(call)
        self.end.add_done_callback(lambda _: at_end())

    def stop(self) -> None:
        self._process.stop()


def _died(status: int) -> Ended:
    cause = f"was killed by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"
    return Ended(EndKind.FAILED, outcome=PROCESS_DIED, error=f"the process with the function {cause}")


async def _awaited(future: "Future[Ended]") -> Ended:
    return await asyncio.wrap_future(future)
