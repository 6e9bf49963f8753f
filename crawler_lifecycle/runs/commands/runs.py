"""The commands for runs, which all doors call as `Control.runs`: start, stop, add tasks, resume, export."""

import asyncio
import hashlib
import re
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

from temporalio.client import WorkflowHandle

from crawler_lifecycle.base.words import counted
from crawler_lifecycle.context import ControlContext
from crawler_lifecycle.errors import Conflict, LifecycleError, Over, TemporaryError
from crawler_lifecycle.model.answers import Resumed, Started, Stopping
from crawler_lifecycle.model.naming import EXPORT_WORKFLOW, RUN_WORKFLOW, export_workflow_id
from crawler_lifecycle.model.notices import is_undelivered
from crawler_lifecycle.model.records import EXPORT_PATIENCE, RunOverview, RunRecord
from crawler_lifecycle.model.requests import RunRequest, StopRequest, refuse_flow
from crawler_lifecycle.model.run_plan import ExportAgain, RunRef
from crawler_lifecycle.model.states import ExportState, RunStatus
from crawler_lifecycle.model.supervision import foreign_workflow_problem
from crawler_lifecycle.runs.commands.reading import RunReader
from crawler_lifecycle.runs.commands.stops import StopCommand
from crawler_lifecycle.runs.ports import Addition, RunStore
from crawler_lifecycle.temporal.engine import Engine
from crawler_lifecycle.temporal.worker_checks import check_worker

WORKER_PATIENCE = 20.0  # seconds to wait until a worker has written the row of a run, or has taken over a run
ROW_POLL_SECONDS = 0.1  # pause between two reads of the row
NOT_COMPARED = {"requested_by"}  # another person may repeat the request with the same key


class RunCommands(RunReader):
    def __init__(self, context: ControlContext[RunStore], engine: Engine) -> None:
        super().__init__(context)
        self._engine = engine

    async def start(self, request: RunRequest, key: str | None = None) -> Started:
        """Start a run and return the run once its row is in the database.

        A second request with the same key returns the first run. TemporaryError if no worker writes the row in time:
        the started workflow continues once a worker is there.
        """
        refuse_flow(request)
        workflow_id = await self._workflow_id(request.crawler, key)
        if key is not None and (earlier := await self._earlier(workflow_id)) is not None:
            refuse_another_request(earlier, request)
            return _started(earlier, workflow_id, earlier.first_execution_run_id, created=False)
        entry = await self._context.scheduler(lambda scheduler: scheduler.crawler(request.crawler))
        summary = f"{request.crawler}, {counted(request.tasks or entry.processes, 'task')}"
        has_key = key is not None  # with a key, join the open workflow, and start none after a completed workflow
        handle = await self._engine.start(RUN_WORKFLOW, request, workflow_id, summary, join=has_key, once=has_key)
        started = await self.wait_started(workflow_id, str(handle.first_execution_run_id))
        if has_key:  # another request with this key may have started the run a moment earlier
            overview = await self._context.calls.run(self.overview, started.run_id)
            refuse_another_request(overview.run, request)
        return started.model_copy(update={"created": not self._engine.has_joined(handle)})

    async def started_by(self, key: str) -> Started | None:
        """Return the run that a request with this key has started, whatever the request was."""
        workflow_id = await self._workflow_id("", key)  # with a key, the id does not depend on the crawler
        run = await self._earlier(workflow_id)
        return None if run is None else _started(run, workflow_id, run.first_execution_run_id, created=False)

    async def _workflow_id(self, crawler: str, key: str | None) -> str:
        installation = await self._context.database(lambda store: store.records.installation())
        return workflow_id_of(crawler, installation, key)

    async def _earlier(self, workflow_id: str) -> RunRecord | None:
        return await self._context.database(lambda store: store.records.latest_of(workflow_id))

    async def wait_started(self, workflow_id: str, first_execution_run_id: str) -> Started:
        """Wait until the run has its row. If its workflow fails before, raise the workflow's error."""
        client = await self._engine.client()
        handle = client.get_workflow_handle(workflow_id, first_execution_run_id=first_execution_run_id)

        async def find_row() -> RunRecord | None:
            return await self._context.database(lambda store: store.runs.find(workflow_id, first_execution_run_id))

        run = await self._wait_for_run(handle, find_row, "made a run of it")
        return _started(run, workflow_id, first_execution_run_id)

    async def _wait_for_run(
        self, handle: WorkflowHandle[Any, Any], find: Callable[[], Awaitable[RunRecord | None]], step: str
    ) -> RunRecord:
        """Return the run as soon as `find` returns the run. If the workflow fails before, raise the workflow's error.

        Error messages say that the workflow has not done the `step`, such as "taken over run 7".
        """
        result = asyncio.create_task(self._engine.result(handle))
        try:
            async with asyncio.timeout(WORKER_PATIENCE):
                while True:
                    await asyncio.wait([result], timeout=ROW_POLL_SECONDS)
                    has_ended = result.done()  # before `find`: the workflow may write the row and end meanwhile
                    if (run := await find()) is not None:
                        return run
                    if has_ended:
                        result.result()  # raises the workflow's error, if the workflow failed
                        raise TemporaryError(f"workflow {handle.id} ended and has not {step} in this database")
        except TimeoutError as error:
            raise TemporaryError(
                f"workflow {handle.id} is accepted, but no worker has {step} in {WORKER_PATIENCE:.0f} s, and continues "
                f"when this is mended: {await self._obstacle()}"
            ) from error
        finally:
            result.cancel()
            await asyncio.gather(result, return_exceptions=True)

    async def _obstacle(self) -> str:
        """Return the obstacle to a workflow's next step: the database, or missing workers."""
        try:
            await self._context.database(lambda store: store.records.check_write())
            workers = await check_worker(self._engine)
        except LifecycleError as error:
            return error.message
        return f"`crawlctl doctor` says what is missing, also space on a disk; the database takes writes, {workers}"

    async def stop(self, run: int | str, request: StopRequest) -> Stopping:
        """Record the stop and signal it to the run's workflow. Over if the run is over."""
        run_id = await self._context.calls.run(self.run_id, run)
        return await StopCommand(self._context, self._engine, run_id, request).execute()

    def add_tasks(self, run: int | str, count: int, key: str) -> range:
        """Add tasks to a run and return their numbers. A second request with the same key adds no tasks."""
        most_tasks = self._context.installation.settings.limits.most_tasks
        requester = self._context.requester
        addition = Addition(self.run_id(run), count, key, most_tasks, requester.name, requester.door)
        return self._context.store.tasks.add(addition)

    async def resume(self, run: int | str, *, reopen: bool = False) -> Resumed:
        """Start the run's own workflow again, as supervisor of the run; an open workflow is left alone.

        A run that is over is refused, with two exceptions: with `reopen`, the tasks of a FAILED run get their next
        attempt; without `reopen`, the workflow of a run with an unfinished export or closing notice finishes these.
        """
        run_id = await self._context.calls.run(self.run_id, run)
        record = await self._context.database(lambda store: store.runs.get(run_id))
        has_unfinished_end = await self._context.calls.run(self._has_unfinished_end, record)
        _refuse_by_status(record, reopen=reopen, has_unfinished_end=has_unfinished_end)
        workflow = await self._engine.describe(record.workflow_id)
        if problem := foreign_workflow_problem(record.workflow_id, workflow):
            raise Conflict(f"run {record.run_id} cannot be resumed: {problem}")
        if workflow.is_open:
            if reopen:
                raise await self._refusal_to_reopen(record)
            return Resumed(run=record, started=False)
        await self._log(record, "reopen" if reopen else "resume")
        await self._engine.go_on(record, reopen=reopen)
        if has_unfinished_end and not reopen:
            return Resumed(run=record, started=True)  # the workflow only finishes the end, under the same epoch
        return Resumed(run=await self._wait_for_next_epoch(record), started=True)

    async def _log(self, run: RunRecord, command: str) -> None:
        """Write the command and its requester into the run's timeline."""
        requester = self._context.requester
        await self._context.database(lambda store: store.runs.log_command(run.run_id, command, requester))

    def _has_unfinished_end(self, run: RunRecord) -> bool:
        """Return whether the run is over, but its last export is pending or its closing notice is not delivered."""
        if not run.status.is_over:
            return False
        if run.export_state is ExportState.PENDING:
            return True
        deliveries = self._context.store.records.deliveries(run.run_id)
        if deliveries is None:  # the run was reopened meanwhile
            return False
        return deliveries.is_untried or is_undelivered(deliveries.run, deliveries.notice_keys)

    async def _refusal_to_reopen(self, record: RunRecord) -> Conflict:
        """Return why a run with an open workflow is not reopened: the workflow still finishes the run's end, or another
        caller has reopened the run a moment ago.
        """
        run = await self._context.database(lambda store: store.runs.get(record.run_id))
        if not run.status.is_over:
            return Conflict(f"run {run.run_id} was reopened a moment ago and is under way")
        return Conflict(
            f"run {run.run_id} has ended, but its workflow {run.workflow_id} still exports its end or takes up the run "
            f"again: see `crawlctl show {run.run_id}` and try again in a moment"
        )

    async def _wait_for_next_epoch(self, record: RunRecord) -> RunRecord:
        """Return the run once its new supervisor has raised the epoch. If the workflow fails, raise its error."""
        handle = (await self._engine.client()).get_workflow_handle(record.workflow_id)

        async def find_taken_over() -> RunRecord | None:
            run = await self._context.database(lambda store: store.runs.get(record.run_id))
            return run if run.epoch > record.epoch else None

        return await self._wait_for_run(handle, find_taken_over, f"taken over run {record.run_id}")

    async def export(self, run: int | str) -> RunOverview:
        """Export the run's last end again, under the same ids, and make the unfinished exports of earlier ends."""
        record = (await self._context.calls.run(self.overview, run)).run
        if not record.status.is_over:
            raise Conflict(f"run {record.run_id} is {record.status}: it is exported when it is over")
        ref = RunRef(run_id=record.run_id, run_uid=record.run_uid, epoch=record.epoch)
        owed = await self._context.database(lambda store: store.runs.owed_exports(record.run_id))
        step = ExportAgain(run=ref, end=record.end_number, owed=owed, flow=record.request.flow_awaiting_archive)
        summary = f"export of run {record.run_id}, {record.crawler}"
        await self._log(record, "export")
        workflow_id = export_workflow_id(record.run_uid)
        handle = await self._engine.start(EXPORT_WORKFLOW, step, workflow_id, summary, join=True)
        try:
            async with asyncio.timeout(EXPORT_PATIENCE):
                await self._engine.result(handle)
        except TimeoutError as error:
            raise TemporaryError(
                f"the export of run {record.run_id} is under way but not done after {EXPORT_PATIENCE:.0f} s; "
                f"`crawlctl show {record.run_id}` shows its progress"
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


def _refuse_by_status(run: RunRecord, *, reopen: bool, has_unfinished_end: bool) -> None:
    """Raise Conflict for a reopen unless the run is FAILED. Raise Over for a resume if the run is over and finished."""
    if reopen and run.status is not RunStatus.FAILED:
        raise Conflict(f"run {run.run_id} is {run.status}: only a run that ended FAILED is reopened")
    if run.status.is_over and not reopen and not has_unfinished_end:
        reopening = f", but it can be reopened: `crawlctl resume {run.run_id} --reopen`"
        hint = reopening if run.status is RunStatus.FAILED else ""
        raise Over(f"run {run.run_id} is over ({run.status}, {run.reason}): there is nothing to resume{hint}")


def workflow_id_of(crawler: str, installation: str, key: str | None) -> str:
    """Return the id of the run's workflow, which is random without a key and the same for the same key.

    Several installations may share a Temporal server, so the id also depends on the installation.
    """
    if key is None:
        slug = re.sub(r"[^a-z0-9]+", "-", crawler.lower()).strip("-")[:40] or "crawler"
        return f"crawl-{slug}-{uuid.uuid4().hex[:12]}"
    return f"crawl-key-{hashlib.sha256(f'{installation}:{key}'.encode()).hexdigest()[:32]}"


def refuse_another_request(run: RunRecord, request: RunRequest) -> None:
    """Raise Conflict if the request differs from the first request with the same key, which made the run.

    The fields that the first request left open were filled in later, so a repetition may leave the same fields open.
    """
    first_request = run.request.model_dump()

    def is_equal(name: str, value: object) -> bool:
        return value == first_request[name] or (value is None and name in run.request.left_open)

    fields = request.model_dump(exclude=NOT_COMPARED)
    different = [name for name, value in fields.items() if not is_equal(name, value)]
    if different:
        raise Conflict(f"the key was used for run {run.run_id}, with another {', '.join(different)}")
