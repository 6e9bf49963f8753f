"""Start a step's function where the function has to run: on a loop, in a thread or in a process.

Stops and time-outs can kill a process apart. The process reads a step's inputs through its host, so that only the host
has a connection to the database.
"""

import asyncio
import logging
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any

from pydantic import TypeAdapter

from crawler_lifecycle import logs
from crawler_lifecycle.errors import LifecycleError
from crawler_lifecycle.flows.authors.modules import Modules
from crawler_lifecycle.flows.authors.running import RunningJob, StepLink, running
from crawler_lifecycle.flows.ports.steps import BegunStep
from crawler_lifecycle.flows.rules.words import MOST_DEATHS, PROCESS_DIED
from crawler_lifecycle.hosts.calling import Function, is_async, job_of, work_of
from crawler_lifecycle.hosts.children import KILL_SECONDS, Child
from crawler_lifecycle.hosts.contexts import Inputs, context_of
from crawler_lifecycle.hosts.outcomes import STOPPED, Ended
from crawler_lifecycle.hosts.runners import AuthorsLoops, AuthorsThreads, InThread, OnLoop, Running, StepCall
from crawler_lifecycle.model.flow_states import EndKind
from crawler_lifecycle.settings.installation import environment_for_child

logger = logging.getLogger(__name__)
STEP = TypeAdapter(BegunStep)
ENDED = TypeAdapter(Ended)
SPARE_SECONDS = 60.0  # then an unused process ends
MAIN = "crawler_lifecycle.hosts.isolated"
Surroundings = Callable[[RunningJob], AbstractContextManager[object]]


class StepProcess:
    """A process for a function."""

    def __init__(self, modules: Modules, inputs: Inputs) -> None:
        self._inputs = inputs
        self._is_stopped = False
        self._child = Child(MAIN, environment_for_child(), folder=modules.working_directory)
        self._ended: Future[Ended] = Future()
        self.is_ready = False  # whether the process has loaded the modules
        folder = None if modules.folder is None else str(modules.folder)
        self._child.send({"targets": list(modules.targets), "folder": folder})

    @property
    def is_alive(self) -> bool:
        return self._child.is_alive and not self._is_stopped

    def wait_until_ready(self) -> bool:
        """Wait until the process has loaded the modules. Return False if the process has died."""
        self.is_ready = self._child.channel.receive() is not None
        return self.is_ready

    def call(self, call: StepCall) -> asyncio.Task[Ended]:
        """Call the function. The task returns the end, also if the process dies."""
        self._ended = Future()
        step = STEP.dump_python(call.step, mode="json")
        threading.Thread(target=self._serve, args=(call,), name=call.step.path, daemon=True).start()
        self._child.send({"call": step, "most_bytes": call.most_bytes})
        return asyncio.create_task(_awaited(self._ended))

    def stop(self) -> None:
        """Kill the process with all its children."""
        if self.is_alive:
            self._child.kill(signal.SIGTERM)
            asyncio.get_running_loop().call_later(KILL_SECONDS, self._child.kill_if_alive)
        self._is_stopped = True

    def close(self) -> None:
        """End the process after its last call."""
        self._is_stopped = True
        self._child.kill()

    def _serve(self, call: StepCall) -> None:
        try:
            self._ended.set_result(self._end_of(call))
        except Exception as error:  # a fault of the host: without an end, the attempt and its slot would wait forever
            logger.exception("the process of %s is ended, since its host failed", call.step.path)
            self.close()
            self._ended.set_exception(error)

    def _end_of(self, call: StepCall) -> Ended:
        """Answer the function's questions until its end, and return the end."""
        while (message := self._child.channel.receive()) is not None:
            if "end" in message:
                return ENDED.validate_python(message["end"])
            if "progress" in message:
                with call.around():
                    call.link.progress(*message["progress"])
            else:
                self._child.send(self._answer(call.step, message))
        cause = self._child.cause_of_end()
        return STOPPED if self._is_stopped else _died(cause)

    def _answer(self, step: BegunStep, message: dict[str, Any]) -> dict[str, Any]:
        try:
            return {"answer": self._value(step, message)}
        except LifecycleError as error:
            return {"error": error.message}
        except Exception as error:
            logger.exception("an isolated step's question has no answer")
            return {"error": f"{type(error).__name__}: {error}"}

    def _value(self, step: BegunStep, message: dict[str, Any]) -> Any:
        if "results" in message:
            results = self._inputs.results(step.flow_uid, message["results"], step.reads)
            return {str(number): value for number, value in results.items()}
        if "source" in message:
            return self._inputs.source(step.flow_uid, message["source"])
        inputs = self._inputs.inputs(step.flow_uid, step.start.number)
        return {"context": dict(inputs.context), "sources": dict(inputs.sources)}


class InProcess:
    """A function in a process of its own."""

    def __init__(self, call: StepCall, process: StepProcess) -> None:
        self._process = process
        self.end = process.call(call)

    def stop(self) -> None:
        self._process.stop()


@dataclass
class Functions:
    """The authors' functions in a host. `surroundings`: entered around every call, such as an open client."""

    modules: Modules
    inputs: Inputs
    threads: Executor  # for the host's own work before and after a call
    largest_result: int
    surroundings: Surroundings = running
    loops: AuthorsLoops = field(default_factory=AuthorsLoops)
    authors_threads: AuthorsThreads = field(default_factory=AuthorsThreads)
    _spare: dict[StepProcess, asyncio.TimerHandle] = field(default_factory=dict)  # with their ends

    def start(self, step: BegunStep, function: Function, link: StepLink) -> Running:
        """Start the function in the host."""
        call = self._call(step, function, link)
        if is_async(function, work_of(step).form):
            return OnLoop(call, self.loops, self.threads)
        return InThread(call, self.authors_threads)

    def start_in(self, process: StepProcess, step: BegunStep, function: Function, link: StepLink) -> Running:
        """Start the function in the process."""
        return InProcess(self._call(step, function, link), process)

    async def ready_process(self) -> StepProcess:
        """Return a process that has loaded the modules; after some deaths of processes, a dead process."""
        while self._spare:
            process, timer = self._spare.popitem()
            timer.cancel()
            if process.is_alive:
                return process
        for _ in range(MOST_DEATHS):
            process = StepProcess(self.modules, self.inputs)
            if await asyncio.to_thread(process.wait_until_ready):
                break
        return process

    def keep(self, process: StepProcess) -> None:
        """Keep an unused process for the next call, for some time.

        Otherwise an isolated step would never begin in a flow that gets requests faster than a process loads.
        """
        self._spare[process] = asyncio.get_running_loop().call_later(SPARE_SECONDS, self._end_spare, process)

    def end_spare_processes(self) -> None:
        for process in [*self._spare]:
            self._end_spare(process)

    def _end_spare(self, process: StepProcess) -> None:
        self._spare.pop(process).cancel()
        process.close()

    def _call(self, step: BegunStep, function: Function, link: StepLink) -> StepCall:
        job = job_of(step)
        context = context_of(job, step.start.number, self.inputs, link, step.reads)

        @contextmanager
        def around() -> Iterator[None]:
            with logs.about(flow=step.flow_id, step=step.path, attempt=step.start.attempt), self.surroundings(job):
                yield

        return StepCall(step, function, context, link, around, self.largest_result)


def new_link(step: BegunStep) -> StepLink:
    """Return a link with a log under the name of the function's module."""
    return StepLink(logging.getLogger(work_of(step).function.partition(":")[0]))


def _died(cause: str) -> Ended:
    problem = f"the process with the function {cause}"
    return Ended(EndKind.FAILED, reason=problem, outcome=PROCESS_DIED, error=problem)


async def _awaited(future: "Future[Ended]") -> Ended:
    return await asyncio.wrap_future(future)
