"""The commands for runs: start, stop, add tasks, resume, export."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from pydantic import Field
from temporalio.client import WorkflowHandle

from crawler_lifecycle.contract.audits import FindingKind
from crawler_lifecycle.contract.base import Message
from crawler_lifecycle.contract.records import RunOverview, RunRecord
from crawler_lifecycle.contract.requests import RunRequest, StopRequest
from crawler_lifecycle.contract.states import ExportState, Intent, RunStatus
from crawler_lifecycle.contract.steps.run import ExportAgain, RunRef
from crawler_lifecycle.control.context import Context
from crawler_lifecycle.control.engine import Engine
from crawler_lifecycle.control.keys import refuse_another_request, workflow_id_of
from crawler_lifecycle.control.reading import EXPORT_PATIENCE, POLL_PAUSE, RunReader
from crawler_lifecycle.domain.audit.handovers import owed_kinds
from crawler_lifecycle.domain.audit.runs import foreign_workflow_problem
from crawler_lifecycle.domain.naming import EXPORT_WORKFLOW, RUN_WORKFLOW, export_workflow_id
from crawler_lifecycle.domain.words import counted
from crawler_lifecycle.errors import Conflict, LifecycleError, NotFound, Over, TemporaryError
from crawler_lifecycle.ports import Addition

WORKER_PATIENCE = 20.0
RECORD_SECONDS = 2.5  # longest wait for a stop's write before the stop is signalled


class Started(Message):
    """A run that has its history row; `created` is false if an earlier request with the same key made the row."""

    workflow_id: str
    first_execution_run_id: str
    run_id: int
    run_uid: str
    created: bool = True


class Stopping(Message):
    """Answer to a stop. `told` says how the stop reached the run's workflow: `signal`; `cancel`, if Temporal refused
    the signal; `resume`, if no workflow was open; or `later`, from the database.
    """

    run_id: int
    run_uid: str
    intent: Intent
    told: str
    not_on_record: str | None = Field(
        default=None, description="the problem of the database, for which the workflow puts the stop on record later"
    )


class Resumed(Message):
    """`started` is false if the run's workflow was open all the time."""

    run: RunRecord
    started: bool


@contextmanager
def _raised_instead(problem: TemporaryError) -> Iterator[None]:
    """Raise the first problem in place of a second problem."""
    try:
        yield
    except LifecycleError:
        raise problem from None


class RunCommands(RunReader):
    def __init__(self, context: Context, engine: Engine) -> None:
        super().__init__(context)
        self._engine = engine

    async def start(self, request: RunRequest, key: str | None = None) -> Started:
        """Start a run and return it once its row is in the database, or raise and leave nothing behind.

        A second request with the same key returns the first run.
        """
        installation = await self._context.database(lambda store: store.records.installation())
        workflow_id = workflow_id_of(request.crawler, installation, key)
        if key is not None:
            known = await self._context.database(lambda store: store.records.latest_of(workflow_id))
            if known is not None:
                refuse_another_request(known, request)
                return _started(known, workflow_id, known.first_execution_run_id, created=False)
        entry = await self._context.scheduler(lambda scheduler: scheduler.crawler(request.crawler))
        summary = f"{request.crawler}, {counted(request.tasks or entry.processes, 'task')}"
        once = key is not None  # with a key, join the open workflow, and start none after a completed workflow
        handle = await self._engine.start(RUN_WORKFLOW, request, workflow_id, summary, join=once, once=once)
        started = await self.wait_started(workflow_id, str(handle.first_execution_run_id))
        if once:  # another request with this key may have been a moment earlier
            refuse_another_request((await self._context.calls.run(self.overview, started.run_id)).run, request)
        return started.model_copy(update={"created": not self._engine.has_joined(handle)})

    async def wait_started(self, workflow_id: str, first_execution_run_id: str) -> Started:
        """Wait until the run has its row. If its workflow fails before, raise the workflow's error."""
        client = await self._engine.client()
        handle = client.get_workflow_handle(workflow_id, first_execution_run_id=first_execution_run_id)

        async def written() -> RunRecord | None:
            return await self._context.database(lambda store: store.runs.find(workflow_id, first_execution_run_id))

        row = await self._wait_for_run(handle, written, "made a run of it")
        return _started(row, workflow_id, first_execution_run_id)

    async def _wait_for_run(
        self, handle: WorkflowHandle[Any, Any], find: Callable[[], Awaitable[RunRecord | None]], step: str
    ) -> RunRecord:
        """Return the run as soon as `find` finds the run. If the workflow fails before, raise its error."""
        ended = asyncio.create_task(self._engine.result(handle))
        try:
            async with asyncio.timeout(WORKER_PATIENCE):
                while True:
                    await asyncio.wait([ended], timeout=POLL_PAUSE / 3)
                    has_ended = ended.done()
                    if (run := await find()) is not None:
                        return run
                    if has_ended:
                        ended.result()
                        raise TemporaryError(f"workflow {handle.id} ended and has not {step} in this database")
        except TimeoutError as error:
            raise TemporaryError(
                f"workflow {handle.id} is accepted, but no worker has {step} in {WORKER_PATIENCE:.0f} s; "
                "it goes on once a worker is there (`crawlctl doctor` says what is missing, also space on a disk)"
            ) from error
        finally:
            ended.cancel()
            await asyncio.gather(ended, return_exceptions=True)

    async def stop(self, run: int | str, stop: StopRequest) -> Stopping:
        """Record the stop, then signal it to the run's workflow. A run without an open workflow is resumed to stop.

        A database that is slow with the write delays the signal by RECORD_SECONDS only. The answer waits for the write.
        """
        run_id = await self._context.calls.run(self.run_id, run)
        now = datetime.now(UTC)
        stop = stop.model_copy(update={"asked_at": now})
        writing = asyncio.create_task(self._context.database(lambda store: store.runs.request_stop(run_id, stop, now)))
        try:
            await asyncio.wait([writing], timeout=RECORD_SECONDS)
            early_way = None if writing.done() else await self._signal_early(run_id, stop)
            return await self._stop_as_recorded(run_id, stop, writing, early_way)
        finally:
            writing.cancel()
            await asyncio.gather(writing, return_exceptions=True)

    async def _signal_early(self, run_id: int, stop: StopRequest) -> str | None:
        """Signal the stop to the run's workflow before the stop is on record. None: no workflow has the signal."""
        try:
            record = await self._context.database(lambda store: store.runs.get(run_id))
            _refuse_to_stop_a_run_that_is_over(record)
            return await self._engine.stop(record.workflow_id, stop)
        except LifecycleError:  # the write, or the signal after the write, meets the same problem and reports it
            return None

    async def _stop_as_recorded(
        self, run_id: int, stop: StopRequest, writing: Awaitable[RunRecord], early_way: str | None
    ) -> Stopping:
        """Return the answer to a stop once its write has succeeded or failed."""
        try:
            record = await writing
        except TemporaryError as problem:
            return await self._stop_without_record(run_id, stop, problem, early_way)
        except Over:
            record = await self._context.database(lambda store: store.runs.get(run_id))
            if early_way is None or record.intent is Intent.RUN:
                raise
            # the workflow has put this stop on record and carried out the stop while the write waited
        try:
            way = early_way or await self._signal(record, stop)
        except TemporaryError as error:
            way = f"later: {error.message}"  # the next look reads the stop from the database
        return Stopping(run_id=run_id, run_uid=record.run_uid, intent=record.intent, told=way)

    async def _stop_without_record(
        self, run_id: int, stop: StopRequest, problem: TemporaryError, early_way: str | None
    ) -> Stopping:
        """Signal the run's workflow although the database takes no writes. Raise the problem if that fails, too.

        No workflow is signalled for a run with a final status: a later run may have the workflow's id."""
        with _raised_instead(problem):
            record = await self._context.database(lambda store: store.runs.get(run_id))
        way = early_way
        if way is None:
            _refuse_to_stop_a_run_that_is_over(record)
            with _raised_instead(problem):
                way = await self._engine.stop(record.workflow_id, stop)
        intent = Intent.FORCE if stop.force or record.intent is Intent.FORCE else Intent.STOP
        return Stopping(run_id=run_id, run_uid=record.run_uid, intent=intent, told=way, not_on_record=problem.message)

    async def _signal(self, record: RunRecord, stop: StopRequest) -> str:
        try:
            return await self._engine.stop(record.workflow_id, stop)
        except NotFound:
            await self._go_on(record)
            return "resume"

    def add_tasks(self, run: int | str, count: int, key: str, *, actor: str | None, door: str) -> range:
        """Add tasks to a run and return their numbers. A second request with the same key adds no tasks."""
        most = self._context.installation.settings.limits.most_tasks
        return self._context.store.tasks.add(Addition(self.run_id(run), count, key, most, actor, door))

    async def resume(self, run: int | str, *, reopen: bool = False) -> Resumed:
        """Start the run's own workflow for the run again; an open workflow is left alone."""
        run_id = await self._context.calls.run(self.run_id, run)
        record = await self._context.database(lambda store: store.runs.get(run_id))
        is_unfinished = await self._context.calls.run(self._has_an_unfinished_end, record)
        _refuse_to_resume_a_run_that_is_over(record, reopen=reopen, is_unfinished=is_unfinished)
        workflow = await self._engine.describe(record.workflow_id)
        if problem := foreign_workflow_problem(record.workflow_id, workflow):
            raise Conflict(f"run {record.run_id} cannot be resumed: {problem}")
        if not workflow.is_open:
            await self._go_on(record, reopen=reopen)
            if record.status.is_over and not reopen:
                return Resumed(run=record, started=True)  # the workflow only finishes the end, under the same epoch
            return Resumed(run=await self._resumed(record), started=True)
        if reopen:
            raise await self._refusal_to_reopen(record)
        return Resumed(run=record, started=False)

    async def _refusal_to_reopen(self, before: RunRecord) -> Conflict:
        """Return why a run with an open workflow is not reopened: the workflow still finishes the run's end, or another
        caller has reopened the run a moment ago.
        """
        run = await self._context.database(lambda store: store.runs.get(before.run_id))
        if not run.status.is_over:
            return Conflict(f"run {run.run_id} was reopened a moment ago and is under way")
        return Conflict(
            f"run {run.run_id} has ended, but its workflow {run.workflow_id} still exports its end or takes up the run "
            f"again: see `crawlctl show {run.run_id}` and try again in a moment"
        )

    def _has_an_unfinished_end(self, record: RunRecord) -> bool:
        """Return whether the run's end is on record, but its export or its closing notice is not done."""
        if not record.status.is_over or record.export_state is ExportState.PENDING:
            return record.status.is_over
        deliveries = self._context.store.records.deliveries(record.run_id)
        return deliveries is not None and FindingKind.UNDELIVERED in owed_kinds(
            deliveries.run, deliveries.notice_keys, is_untried=deliveries.is_untried
        )

    async def _go_on(self, record: RunRecord, *, reopen: bool = False) -> None:
        request = RunRequest(crawler=record.crawler, run_id=record.run_id, reopen=reopen)
        await self._engine.go_on(record.workflow_id, request)

    async def _resumed(self, before: RunRecord) -> RunRecord:
        """Return the run with its next epoch. If its workflow fails before, raise the workflow's error."""
        handle = (await self._engine.client()).get_workflow_handle(before.workflow_id)

        async def taken_over() -> RunRecord | None:
            run = await self._context.database(lambda store: store.runs.get(before.run_id))
            return run if run.epoch > before.epoch else None

        return await self._wait_for_run(handle, taken_over, f"taken over run {before.run_id}")

    async def export(self, run: int | str) -> RunOverview:
        """Announce and archive the run's last end again, under the same ids, and what earlier ends still lack."""
        record = (await self._context.calls.run(self.overview, run)).run
        if not record.status.is_over:
            raise Conflict(f"run {record.run_id} is {record.status}: it is exported when it is over")
        ref = RunRef(run_id=record.run_id, run_uid=record.run_uid, epoch=record.epoch)
        missing = await self._context.database(lambda store: store.runs.owed_exports(record.run_id))
        step = ExportAgain(run=ref, end=record.end_number, owed=missing)
        summary = f"export of run {record.run_id}, {record.crawler}"
        workflow_id = export_workflow_id(record.run_uid)
        handle = await self._engine.start(EXPORT_WORKFLOW, step, workflow_id, summary, join=True)
        try:
            async with asyncio.timeout(EXPORT_PATIENCE):
                await self._engine.result(handle)
        except TimeoutError as error:
            raise TemporaryError(
                f"the export of run {record.run_id} is under way but not done after {EXPORT_PATIENCE:.0f} s; "
                f"`crawlctl show {record.run_id}` tells how it goes"
            ) from error
        return await self._context.calls.run(self.overview, record.run_id)


def _started(run: RunRecord, workflow_id: str, first_execution_run_id: str, *, created: bool = True) -> Started:
    return Started(
        workflow_id=workflow_id,
        first_execution_run_id=first_execution_run_id,
        run_id=run.run_id,
        run_uid=run.run_uid,
        created=created,
    )


def _refuse_to_stop_a_run_that_is_over(run: RunRecord) -> None:
    if run.status.is_over:
        raise Over(f"run {run.run_id} is over ({run.status}, {run.reason}): there is nothing to stop")


def _refuse_to_resume_a_run_that_is_over(run: RunRecord, *, reopen: bool, is_unfinished: bool) -> None:
    if reopen and run.status is not RunStatus.FAILED:
        raise Conflict(f"run {run.run_id} is {run.status}: only a run that ended FAILED is reopened")
    if run.status.is_over and not reopen and not is_unfinished:
        more = ", but it can be reopened" if run.status is RunStatus.FAILED else ""
        raise Over(f"run {run.run_id} is over ({run.status}, {run.reason}): there is nothing to resume{more}")
