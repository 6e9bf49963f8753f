"""Steps: calls functions in memory, and turns results and exceptions into the attempts' ends."""

import asyncio
from collections import Counter
from datetime import datetime, timedelta
from typing import Any

from crawler_lifecycle.contract.flows.definition import FlowDefinition
from crawler_lifecycle.contract.flows.limits import LARGEST_RESULT
from crawler_lifecycle.contract.flows.values import TooLarge, encode, to_text
from crawler_lifecycle.contract.flows.work import StepWork
from crawler_lifecycle.contract.states import TaskStatus
from crawler_lifecycle.domain.flows import words
from crawler_lifecycle.domain.flows.ends import AttemptEnd, EndKind
from crawler_lifecycle.domain.flows.plan import Start
from crawler_lifecycle.domain.flows.rows import MemberRow
from crawler_lifecycle.errors import BadInput
from crawler_lifecycle.flows.calling import call_of, meaning, outcome_of, reason_of
from crawler_lifecycle.flows.running import Cancel, Context, RunningJob
from crawler_lifecycle.flows.workflow import Graft
from crawler_lifecycle.testing.calls import Caller
from crawler_lifecycle.testing.memory import MemoryFlow
from crawler_lifecycle.testing.requests import arguments_of
from crawler_lifecycle.testing.runs import PlayedRun
from crawler_lifecycle.testing.scenario import Failure, Scenario, chosen_for

MOST_DEATHS = 3  # processes that die with an attempt before the attempt fails
CAUGHT = (Exception, SystemExit, asyncio.CancelledError)
Called = tuple[AttemptEnd, str | None]  # an attempt's end, and the result as text


class SteppedFlow(MemoryFlow):
    """A flow in memory with calls to functions, and with the ends from the scenario."""

    def __init__(self, definition: FlowDefinition, scenario: Scenario, now: datetime) -> None:
        super().__init__(definition, now)
        self.scenario = scenario
        self.played_runs: dict[str, list[PlayedRun]] = {}  # crawls' runs by path
        self.errors: dict[str, BaseException] = {}  # last exceptions by path
        self.seen: dict[str, Context] = {}  # last contexts by path
        self.caller = Caller()
        self._attempts: Counter[str] = Counter()

    def count_attempt(self, path: str) -> int:
        """Count an attempt, and return the number of earlier attempts with the scenario."""
        self._attempts[path] += 1
        return self._attempts[path] - 1

    def limit(self, row: MemberRow) -> timedelta | None:
        """Return the longest time for a step."""
        seconds = self._work(row).timeout_seconds
        return None if seconds is None else timedelta(seconds=seconds)

    def end_of(self, row: MemberRow, start: Start) -> Called:
        """Return an attempt's end and result."""
        fails, failure = self.scenario.failure(row.path, self.count_attempt(row.path))
        if fails:
            return self._failed(row, failure)
        try:
            value = self._value(row, start)
            if isinstance(value, Cancel):
                return self._end(row, EndKind.CANCELLED, value.reason or None)
            if isinstance(value, Graft):
                self.graft(value.request)
                value = None
            return self._completed(row, value)
        except Cancel as cancel:
            return self._end(row, EndKind.CANCELLED, cancel.reason or None)
        except CAUGHT as error:
            return self._failed(row, error)

    def context_for(self, row: MemberRow) -> Context:
        """Return the present context for the member's function."""
        return self.context_of(row, self._job(row))

    def _value(self, row: MemberRow, start: Start) -> Any:
        """Return the chosen result, or the function's result."""
        self.seen[row.path] = self.context_for(row)
        if self._is_chosen(row.path):
            return chosen_for(self.scenario.results, row.path)
        if not self.scenario.calls:
            return None
        deaths = chosen_for(self.scenario.deaths, row.path) or 0
        for _ in range(min(deaths, MOST_DEATHS)):
            self._called(row, start)
        if deaths >= MOST_DEATHS:
            raise ProcessDied(f"the process died {MOST_DEATHS} times")
        return self._called(row, start)

    def _is_chosen(self, path: str) -> bool:
        missing = object()
        return chosen_for(self.scenario.results, path, default=missing) is not missing

    def _called(self, row: MemberRow, start: Start) -> Any:
        work, job = self._work(row), self._job(row)
        arguments = arguments_of(row.path, self._item(row, work), self.arguments.get(row.number), start.rule)
        return meaning(self.caller(call_of(work, arguments, job, self.seen[row.path])), job)

    def _item(self, row: MemberRow, work: StepWork) -> Any:
        """Return the definition's encoded arguments; for a crawl's task, the task's receipt."""
        task = self.task_of(row)
        if task is None:
            return work.arguments
        return encode("task", self._run_of(*task).task(task[0].path, task[1]))

    def _run_of(self, crawl: MemberRow, task: int) -> PlayedRun:
        """Return the last run in which the task succeeded; without such a run, the last run."""
        runs = self.played_runs[crawl.path]
        ends = [run.outcome.task_ends(run.tasks).get(task) for run in runs]
        succeeded = [run for run, end in zip(runs, ends, strict=True) if end is TaskStatus.SUCCEEDED]
        return (succeeded or runs)[-1]

    def _job(self, row: MemberRow) -> RunningJob:
        flow = self.ledger.flow
        return RunningJob(
            flow.id,
            row.path,
            attempt=row.attempt,
            generation=row.generation,
            flow_name=flow.name,
            is_grafter=self.is_grafter(row),
        )

    def _work(self, row: MemberRow) -> StepWork:
        work = self.definitions[row.number].work
        assert isinstance(work, StepWork), row.path
        return work

    def _completed(self, row: MemberRow, value: Any) -> Called:
        if value is None:
            return self._end(row, EndKind.COMPLETED)
        try:
            text = to_text(f"result of {row.path!r}", value, LARGEST_RESULT)
        except TooLarge as error:
            return self._unusable(row, words.RESULT_TOO_LARGE, error)
        except BadInput as error:
            return self._unusable(row, words.RESULT_UNUSABLE, error)
        return self._end(row, EndKind.COMPLETED)[0], text

    def _unusable(self, row: MemberRow, reason: str, error: Exception) -> Called:
        self.errors[row.path] = error
        return self._end(row, EndKind.FAILED, reason)

    def _failed(self, row: MemberRow, failure: Failure) -> Called:
        if failure is None or isinstance(failure, str):
            return self._end(row, EndKind.FAILED, "chosen by the test", failure)
        self.errors[row.path] = failure
        reason = words.PROCESS_DIED if isinstance(failure, ProcessDied) else reason_of(failure)
        return self._end(row, EndKind.FAILED, reason, outcome_of(failure))

    def _end(self, row: MemberRow, kind: EndKind, reason: str | None = None, outcome: str | None = None) -> Called:
        return AttemptEnd(row.number, row.attempt, kind, self.now, outcome, reason), None


class ProcessDied(Exception):
    """The processes with a step's attempt died too often."""
