"""Functions: starts a step's function where the function has to run: on a loop, in a thread or in a process."""

import logging
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field

from crawler_lifecycle import logs
from crawler_lifecycle.flows.authors.modules import Modules
from crawler_lifecycle.flows.authors.running import RunningJob, StepLink, running
from crawler_lifecycle.flows.ports.claims import ClaimedStep
from crawler_lifecycle.hosts.calling import Function, is_async, job_of, work_of
from crawler_lifecycle.hosts.contexts import Inputs, context_of
from crawler_lifecycle.hosts.isolation import InProcess, StepProcess
from crawler_lifecycle.hosts.loops import AuthorsLoops
from crawler_lifecycle.hosts.runners import InThread, OnLoop, Running, StepCall
from crawler_lifecycle.hosts.threads import AuthorsThreads

Surroundings = Callable[[RunningJob], AbstractContextManager[object]]


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

    def start(
        self, step: ClaimedStep, function: Function, link: StepLink, begin: Callable[[], bool] = lambda: True
    ) -> Running:
        """Start the function. `begin`: called just before an isolated process calls the function."""
        call, work = self._call(step, function, link, begin), work_of(step)
        if work.isolate:
            process = self.new_process()
            return InProcess(call, process, process.close)
        if is_async(function, work.form):
            return OnLoop(call, self.loops, self.threads)
        return InThread(call, self.authors_threads)

    def start_in(
        self, process: StepProcess, step: ClaimedStep, function: Function, link: StepLink, begin: Callable[[], bool]
    ) -> Running:
        """Start the function in a process for several calls. `begin`: as for `start`."""
        return InProcess(self._call(step, function, link, begin), process, lambda: None)

    def new_process(self) -> StepProcess:
        return StepProcess(self.modules, self.inputs)

    def _call(self, step: ClaimedStep, function: Function, link: StepLink, begin: Callable[[], bool]) -> StepCall:
        job = job_of(step)
        context = context_of(job, step.start.number, self.inputs, link)

        @contextmanager
        def around() -> Iterator[None]:
            with logs.about(flow=step.flow_id, step=step.path, attempt=step.start.attempt), self.surroundings(job):
                yield

        return StepCall(step, function, context, link, around, self.largest_result, begin)


def new_link(step: ClaimedStep) -> StepLink:
    """Return a link with a log under the name of the function's module."""
    return StepLink(logging.getLogger(work_of(step).function.partition(":")[0]))
