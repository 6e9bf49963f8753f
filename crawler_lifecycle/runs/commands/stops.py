"""Stops a run: the stop is written to the database, then signalled to the run's workflow.

If one part is slow or broken, the stop still reaches the other parts:

- The database and Temporal work: the stop is recorded and signalled. If no workflow is open, a workflow is started,
  which reads the stop from the database.
- The database is slow: the stop is signalled after RECORD_SECONDS; the answer still waits for the write.
- The database takes no writes: the stop is only signalled, and the workflow records the stop later.
- Temporal does not answer, or the process dies before the signal: the stop is only recorded. The watcher nudges the
  workflow, which then reads the stop.
- Neither works: the error of the write is raised.
"""

import asyncio
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from crawler_lifecycle.context import ControlContext
from crawler_lifecycle.errors import LifecycleError, NotFound, Over, TemporaryError
from crawler_lifecycle.model.answers import Stopping
from crawler_lifecycle.model.records import RunRecord
from crawler_lifecycle.model.requests import StopRequest
from crawler_lifecycle.model.states import Intent
from crawler_lifecycle.runs.ports import RunStore
from crawler_lifecycle.temporal.engine import Engine

RECORD_SECONDS = 2.5  # longest wait for the write before the stop is signalled


class StopCommand:
    """A request to stop a run, with the steps to carry out the request. A `route` is a value for `Stopping.told`."""

    def __init__(self, context: ControlContext[RunStore], engine: Engine, run_id: int, request: StopRequest) -> None:
        self._context = context
        self._engine = engine
        self._run_id = run_id
        self._requested_at = datetime.now(UTC)
        self._request = request.model_copy(update={"asked_at": self._requested_at})

    async def execute(self) -> Stopping:
        """Stop the run. Over if the run is over."""
        writing = asyncio.create_task(self._write())
        try:
            await asyncio.wait([writing], timeout=RECORD_SECONDS)
            early_route = None if writing.done() else await self._signal_early()
            return await self._answer(writing, early_route)
        finally:
            writing.cancel()
            await asyncio.gather(writing, return_exceptions=True)

    async def _write(self) -> RunRecord:
        return await self._context.database(
            lambda store: store.runs.request_stop(self._run_id, self._request, self._requested_at)
        )

    async def _read(self) -> RunRecord:
        return await self._context.database(lambda store: store.runs.get(self._run_id))

    async def _signal_early(self) -> str | None:
        """Signal the stop before its write is done. None: no workflow was signalled, because of an error."""
        try:
            run = await self._read()
            _refuse_if_over(run)
            return await self._engine.stop(run.workflow_id, self._request)
        except LifecycleError:  # the write, or the signal after the write, reports the same problem
            return None

    async def _answer(self, writing: Awaitable[RunRecord], early_route: str | None) -> Stopping:
        """Wait for the write, signal the stop unless it was signalled early, and return the answer."""
        try:
            run = await writing
        except TemporaryError as problem:
            return await self._answer_without_record(problem, early_route)
        except Over:
            run = await self._read()
            is_over_by_this_stop = early_route is not None and run.intent is not Intent.RUN
            if not is_over_by_this_stop:
                raise
        try:
            route = early_route or await self._signal_or_resume(run)
        except TemporaryError as error:
            route = f"later: {error.message}"  # the watcher nudges the workflow, which reads the stop
        return Stopping(run_id=run.run_id, run_uid=run.run_uid, intent=run.intent, told=route)

    async def _signal_or_resume(self, run: RunRecord) -> str:
        """Signal the run's workflow. If no workflow is open, start the run's workflow: it reads the recorded stop."""
        try:
            return await self._engine.stop(run.workflow_id, self._request)
        except NotFound:
            await self._engine.go_on(run)
            return "resume"

    async def _answer_without_record(self, problem: TemporaryError, early_route: str | None) -> Stopping:
        """Signal the run's workflow although the write failed with this problem.

        Over if the run is over: its workflow id may belong to a later run, which must not be stopped.
        """
        with _reporting(problem):
            run = await self._read()
        route = early_route
        if route is None:
            _refuse_if_over(run)
            with _reporting(problem):
                route = await self._engine.stop(run.workflow_id, self._request)
        is_forced = self._request.force or run.intent is Intent.FORCE
        return Stopping(
            run_id=run.run_id,
            run_uid=run.run_uid,
            intent=Intent.FORCE if is_forced else Intent.STOP,
            told=route,
            not_on_record=problem.message,
        )


@contextmanager
def _reporting(problem: TemporaryError) -> Iterator[None]:
    """Replace a later error by `problem`: the failed write explains the failure best."""
    try:
        yield
    except LifecycleError:
        raise problem from None


def _refuse_if_over(run: RunRecord) -> None:
    if run.status.is_over:
        raise Over(f"run {run.run_id} is over ({run.status}, {run.reason}): there is nothing to stop")
