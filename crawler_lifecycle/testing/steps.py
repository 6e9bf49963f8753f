"""Call functions in memory by the host's rules, and end attempts as a scenario says.

`SteppedFlow.end_step` plays a whole attempt: the scenario's failure, its result, or the function's call.
"""

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from pydantic import JsonValue

from crawler_lifecycle.base.limits import LARGEST_RESULT
from crawler_lifecycle.base.names import joined
from crawler_lifecycle.errors import BadInput
from crawler_lifecycle.flows.authors.running import Context, RunningJob, StepLink, running
from crawler_lifecycle.flows.model.definition import CallForm, FlowDefinition, ManagerWork, StepWork
from crawler_lifecycle.flows.model.values import encode
from crawler_lifecycle.flows.ports.steps import BegunStep, StepInputs
from crawler_lifecycle.flows.rules import contexts
from crawler_lifecycle.flows.rules.contexts import Source
from crawler_lifecycle.flows.rules.ends import AttemptEnd
from crawler_lifecycle.flows.rules.messages import AttemptRef
from crawler_lifecycle.flows.rules.plan import AttemptStart
from crawler_lifecycle.flows.rules.requesting import changed_arguments
from crawler_lifecycle.flows.rules.rows import MemberRow
from crawler_lifecycle.flows.rules.words import MOST_DEATHS, PROCESS_DIED
from crawler_lifecycle.hosts.calling import Function, check_of, job_of, prepared
from crawler_lifecycle.hosts.contexts import context_of
from crawler_lifecycle.hosts.outcomes import Ended, failure, result_end
from crawler_lifecycle.model.flow_states import EndKind
from crawler_lifecycle.model.states import TaskStatus
from crawler_lifecycle.testing.calls import FunctionCaller, loaded
from crawler_lifecycle.testing.manager_link import StartedJob
from crawler_lifecycle.testing.manager_play import ManagerPlay
from crawler_lifecycle.testing.memory import MemoryFlow
from crawler_lifecycle.testing.outcomes import CrawlOutcome, RefusedCrawl
from crawler_lifecycle.testing.runs import PlayedRun
from crawler_lifecycle.testing.scenario import Failure, Scenario, chosen_for

CAUGHT = (Exception, SystemExit, asyncio.CancelledError)
IN_CATALOGUE = (
    "catalogue:manager"  # replaces a manager's class: only the catalogue has the class, and a play has no catalogue
)
CHOSEN = "chosen by the test"  # reason for a failure
EndAndResult = tuple[AttemptEnd, str | None]  # the result as text


class MemoryInputs:
    """The reads for a host's contexts."""

    def __init__(self, flow: MemoryFlow) -> None:
        self._flow = flow

    def inputs(self, flow_uid: str, number: int) -> StepInputs:  # noqa: ARG002 - a single flow exists
        ledger = self._flow.ledger
        row = ledger.members[number]
        context = contexts.merged_context(self._flow.group_contexts, ledger, row.group)
        return StepInputs(context, contexts.sources(ledger, row))

    def results(self, flow_uid: str, numbers: Collection[int], reads: Mapping[int, int]) -> Mapping[int, JsonValue]:  # noqa: ARG002 - the same
        texts = {number: self._flow.result_text(number) for number in numbers}
        return {number: None if text is None else json.loads(text) for number, text in texts.items()}

    def source(self, flow_uid: str, path: str) -> Source | None:  # noqa: ARG002 - the same
        ledger = self._flow.ledger
        groups, members = ledger.paths_of_groups(), ledger.paths_of_members()
        return contexts.results_of_group(ledger, groups[path]) if path in groups else members.get(path)


class SteppedFlow(MemoryFlow):
    """A flow in memory with calls to functions, and with the ends from the scenario."""

    def __init__(self, definition: FlowDefinition, scenario: Scenario, now: datetime) -> None:
        super().__init__(definition, now)
        self.scenario = scenario
        self.surroundings: Callable[[], AbstractContextManager[object]] = nullcontext  # entered around calls
        self.played_runs: dict[str, list[PlayedRun]] = {}  # crawls' runs by path
        self.errors: dict[str, BaseException] = {}  # last exceptions by path
        self.seen: dict[str, Context] = {}  # last contexts by path
        self.caller = FunctionCaller()
        self._attempts: Counter[str] = Counter()
        self._failed_attempts: dict[str, list[dict[str, Any]]] = {}  # by path, as functions see them in `errors`

    def count_attempt(self, path: str) -> int:
        """Count an attempt, and return the number of earlier attempts with the scenario."""
        self._attempts[path] += 1
        return self._attempts[path] - 1

    def limit(self, row: MemberRow) -> timedelta | None:
        """Return the longest time for a step."""
        seconds = self._work(row).timeout_seconds
        return None if seconds is None else timedelta(seconds=seconds)

    def arguments_for(self, row: MemberRow, start: AttemptStart) -> JsonValue:
        """Return the arguments for an attempt; None for the definition's arguments. A retry rule may change them."""
        former = self.arguments.get(row.number)
        if start.rule is not None and start.rule.arguments:
            work = self.definitions[row.number].work
            former = self.arguments[row.number] = changed_arguments(row.path, work, former, start.rule.arguments)
        return former

    def end_step(self, row: MemberRow, start: AttemptStart) -> EndAndResult:
        """End an attempt. Attach its sub-workflow first: a refused sub-workflow makes the attempt a failure."""
        fails, chosen = self.scenario.failure(row.path, self.count_attempt(row.path))
        ended = self._chosen_failure(row, chosen) if fails else self._end_by_call(row, start)
        if ended.graft is not None:
            try:
                self.graft(ended.graft)
            except Exception as error:  # noqa: BLE001 - the flow refuses the sub-workflow
                ended = self._failure(row, error)
        if ended.kind is EndKind.FAILED:
            failed = {"attempt": row.attempt, "at": self.now.isoformat(), "error": ended.reason}
            self._failed_attempts.setdefault(row.path, []).append(failed)
        return self.attempt_end(row, ended.kind, ended.reason, ended.outcome), ended.result

    def attempt_end(
        self, row: MemberRow, kind: EndKind, reason: str | None = None, outcome: str | None = None
    ) -> AttemptEnd:
        return AttemptEnd(row.number, row.attempt, kind, self.now, outcome, reason)

    def context_of(self, row: MemberRow, job: RunningJob) -> Context:
        """Return the context for a member's function, as a host makes the context."""
        return context_of(job, row.number, MemoryInputs(self), StepLink())

    def _end_by_call(self, row: MemberRow, start: AttemptStart) -> Ended:
        """Return the end by the scenario's result; without one, call the function, unless no function is called."""
        step = self._step_of(row, start)
        job = job_of(step)
        self.seen[row.path] = context = self.context_of(row, job)
        missing = object()
        value = chosen_for(self.scenario.results, row.path, default=missing)
        if value is not missing or not self.scenario.calls:
            return result_end(None if value is missing else value, job, LARGEST_RESULT, lambda _: None)
        deaths = chosen_for(self.scenario.deaths, row.path) or 0
        try:
            for _ in range(min(deaths, MOST_DEATHS)):
                self._value_of(step, context)  # the result is lost: the process dies before the end is stored
            if deaths >= MOST_DEATHS:
                return Ended(EndKind.FAILED, reason=PROCESS_DIED)
            value = self._value_of(step, context)
        except CAUGHT as error:
            return self._failure(row, error)
        ended = result_end(value, job, LARGEST_RESULT, check_of(self._function(step), step))
        if ended.kind is EndKind.FAILED:
            self.errors[row.path] = AssertionError(ended.error)
        return ended

    def _value_of(self, step: BegunStep, context: Context) -> Any:
        if self._work(self.ledger.members[step.start.number]).is_manager:
            return self._played(step)
        with running(context.job), self.surroundings():
            return self.caller(prepared(self._function(step), step, context))

    def _played(self, step: BegunStep) -> JsonValue:
        """Play the crawl manager to its close. Return its result; the scenario has the ends of its crawls."""
        if self._work(self.ledger.members[step.start.number]).function == IN_CATALOGUE:
            raise BadInput("results", f"have no {step.path!r}, whose class only the catalogue has: choose its result")
        words = [str(word) for word in step.arguments] if isinstance(step.arguments, list) else []
        play = ManagerPlay(self._function(step), *words, family=self.family or self.id, now=self.now)
        try:
            reason = play.until_closed(partial(self._end_of_item, step.path))
            return {"close_reason": reason, "counts": play.counts.model_dump(), "stats": {**play.stats}}
        finally:
            play.close()

    def _end_of_item(self, path: str, job: StartedJob) -> CrawlOutcome:
        end = self.scenario.crawl(joined(path, str(job.number)), job.spider, job.attempt - 1)
        if isinstance(end, RefusedCrawl):
            raise BadInput("crawls", f"an item of the manager {path!r} cannot be refused here: use a ManagerPlay")
        return end

    def _function(self, step: BegunStep) -> Function:
        return loaded(self._work(self.ledger.members[step.start.number]).function)

    def _step_of(self, row: MemberRow, start: AttemptStart) -> BegunStep:
        """Return the attempt as a host gets it."""
        changed = self.arguments_for(row, start)
        return BegunStep(
            start=AttemptRef(number=row.number, generation=row.generation, attempt=row.attempt),
            path=row.path,
            definition=self.definitions[row.number].model_copy(update={"work": self._work(row)}),
            arguments=self._arguments(row, self._work(row).arguments if changed is None else changed),
            flow_id=self.id,
            flow_name=self.ledger.flow.name,
            flow_uid=self.uid,
            is_grafter=self.is_grafter(row),
            deaths=0,
            scheduled_at=row.scheduled_at(row.attempt),
            errors=tuple(self._failed_attempts.get(row.path, ())),
        )

    def _arguments(self, row: MemberRow, arguments: JsonValue) -> JsonValue:
        """Return the arguments. A member for a crawl's task also gets the task's receipt: its run and files."""
        task = self.task_of(row)
        if task is None:
            return arguments
        receipt = encode("task", self._run_of(*task).task(task[0].path, task[1]))
        assert isinstance(arguments, dict)
        assert isinstance(receipt, dict)
        return {**arguments, **receipt}

    def _run_of(self, crawl: MemberRow, task: int) -> PlayedRun:
        """Return the last run in which the task succeeded; without such a run, the last run."""
        runs = self.played_runs[crawl.path]
        ends = [run.outcome.task_ends(run.tasks).get(task) for run in runs]
        succeeded = [run for run, end in zip(runs, ends, strict=True) if end is TaskStatus.SUCCEEDED]
        return (succeeded or runs)[-1]

    def _work(self, row: MemberRow) -> StepWork:
        """Return the member's work as a step. For a manager of the catalogue, IN_CATALOGUE is the function."""
        work = self.definitions[row.number].work
        if isinstance(work, ManagerWork):
            return StepWork(function=IN_CATALOGUE, form=CallForm.MANAGER)
        assert isinstance(work, StepWork), row.path
        return work

    def _chosen_failure(self, row: MemberRow, chosen: Failure) -> Ended:
        if isinstance(chosen, BaseException):
            return self._failure(row, chosen)
        return Ended(EndKind.FAILED, reason=CHOSEN, outcome=chosen)

    def _failure(self, row: MemberRow, error: BaseException) -> Ended:
        """Return the end by an exception, and keep the exception for the test."""
        ended = failure(error)
        if ended.kind is EndKind.FAILED:
            self.errors[row.path] = error
        return ended
