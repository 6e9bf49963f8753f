"""The verbs: what can be done with the runs of an installation? What can be asked of them is in `Reading`."""

import asyncio
import hashlib
import re
import uuid
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

from crawler_lifecycle.contract.audits import FindingKind
from crawler_lifecycle.contract.base import Message
from crawler_lifecycle.contract.records import RunOverview, RunRecord
from crawler_lifecycle.contract.requests import RunRequest, StopRequest
from crawler_lifecycle.contract.states import ExportState, Intent, RunStatus
from crawler_lifecycle.control.reading import EXPORT_PATIENCE, LOOK_PAUSE, Reading
from crawler_lifecycle.domain.audit.handovers import owed
from crawler_lifecycle.domain.audit.runs import taken
from crawler_lifecycle.domain.naming import EXPORT_WORKFLOW, RUN_WORKFLOW, export_workflow_id
from crawler_lifecycle.domain.words import counted
from crawler_lifecycle.errors import Conflict, NotFound, Over, TemporaryError

if TYPE_CHECKING:
    from temporalio.client import WorkflowHandle

    from crawler_lifecycle.control.audits import Audits
    from crawler_lifecycle.control.checks import Check
    from crawler_lifecycle.control.engine import Engine
    from crawler_lifecycle.control.schedules import Schedules

WORKER_PATIENCE = 20.0
NOT_COMPARED = {"requested_by"}


class Started(Message):
    """A run that has its history row; `created` is false if an earlier request with its key has made it."""

    workflow_id: str
    first_execution_run_id: str
    run_id: int
    run_uid: str
    created: bool = True


class Stopping(Message):
    """A stop that is on record, and how the run's workflow was told of it."""

    run_id: int
    run_uid: str
    intent: Intent
    told: str


class Resumed(Message):
    """`started` is false if the run's workflow was open all the time."""

    run: RunRecord
    started: bool


class Control(Reading):
    async def start(self, request: RunRequest, key: str | None = None) -> Started:
        """A run that exists in the database, or an error and nothing half-made. The same key is the same run."""
        installation = await self.asked(lambda parts: parts.store.records.installation())
        workflow_id = _workflow_id(request.crawler, installation, key)
        known = await self.asked(lambda parts: parts.store.records.latest_of(workflow_id)) if key else None
        if known is None:
            entry = await self.asked_scheduler(lambda scheduler: scheduler.crawler(request.crawler))
            summary = f"{request.crawler}, {counted(request.tasks or entry.processes, 'task')}"
            once = key is not None
            handle = await self.engine.start(RUN_WORKFLOW, request, workflow_id, summary, join=once, once=once)
            started = await self.wait_started(workflow_id, str(handle.first_execution_run_id))
            if once:  # another request with this key may have been a moment earlier
                _refuse_another_request((await asyncio.to_thread(self.overview, started.run_id)).run, request)
            return started.model_copy(update={"created": not self.engine.has_joined(handle)})
        _refuse_another_request(known, request)
        execution = {"workflow_id": workflow_id, "first_execution_run_id": known.first_execution_run_id}
        return Started(run_id=known.run_id, run_uid=known.run_uid, created=False, **execution)

    async def wait_started(self, workflow_id: str, first_execution_run_id: str) -> Started:
        """Until the run has its row or its workflow has failed, whichever comes first."""
        client = await self.engine.client()
        handle = client.get_workflow_handle(workflow_id, first_execution_run_id=first_execution_run_id)

        async def written() -> RunRecord | None:
            return await self.asked(lambda parts: parts.store.runs.find(workflow_id, first_execution_run_id))

        row = await self._unless_it_fails(handle, written, "made a run of it")
        return Started(
            workflow_id=workflow_id,
            first_execution_run_id=first_execution_run_id,
            run_id=row.run_id,
            run_uid=row.run_uid,
        )

    async def _unless_it_fails(
        self, handle: "WorkflowHandle[Any, Any]", find: Callable[[], Awaitable[RunRecord | None]], what: str
    ) -> RunRecord:
        """What `find` finds once it does; what the workflow failed with, if that comes first."""
        ended = asyncio.create_task(self.engine.result(handle))
        try:
            async with asyncio.timeout(WORKER_PATIENCE):
                while True:
                    done, _ = await asyncio.wait([ended], timeout=LOOK_PAUSE / 3)
                    if (found := await find()) is not None:
                        return found
                    for task in done:
                        task.result()
                        raise TemporaryError(f"workflow {handle.id} ended and has not {what} in this database")
        except TimeoutError as error:
            raise TemporaryError(
                f"workflow {handle.id} is accepted, but no worker has {what} in {WORKER_PATIENCE:.0f} s; "
                "it goes on once one does (`crawlctl doctor` says what is missing, also room on a disk)"
            ) from error
        finally:
            ended.cancel()
            await asyncio.gather(ended, return_exceptions=True)

    async def stop(self, run: int | str, stop: StopRequest) -> Stopping:
        """The wish is on record before its workflow is told; a run that nobody supervises is resumed to be stopped."""
        run_id = await asyncio.to_thread(self.run_id, run)
        now = datetime.now(UTC)
        stop = stop.model_copy(update={"asked_at": now})
        record = await self.asked(lambda parts: parts.store.runs.request_stop(run_id, stop, now))
        try:
            told = await self._tell(record, stop)
        except TemporaryError as error:
            told = f"later: {error.message}"  # its next look reads the wish from the database
        return Stopping(run_id=run_id, run_uid=record.run_uid, intent=record.intent, told=told)

    async def _tell(self, record: RunRecord, stop: StopRequest) -> str:
        try:
            return await self.engine.stop(record.workflow_id, stop)
        except NotFound:
            await self._go_on(record)
            return "resume"

    def add_tasks(self, run: int | str, count: int, key: str, *, actor: str | None, door: str) -> range:
        """The numbers of the new tasks of a run that is under way; the same key is the same tasks."""
        from crawler_lifecycle.ports import Addition

        limits = self.installation.settings.limits
        return self.parts.store.tasks.add(Addition(self.run_id(run), count, key, limits.most_tasks, actor, door))

    async def resume(self, run: int | str, *, reopen: bool = False) -> Resumed:
        """Has the run's own workflow go on with it; nothing is started if that is open already."""
        run_id = await asyncio.to_thread(self.run_id, run)
        record = await self.asked(lambda parts: parts.store.runs.get(run_id))
        _refuse_what_is_over(record, reopen=reopen, left=await asyncio.to_thread(self._is_left, record))
        workflow = await self.engine.describe(record.workflow_id)
        if problem := taken(record.workflow_id, workflow):
            raise Conflict(f"run {record.run_id} cannot be resumed: {problem}")
        if not workflow.is_open:
            await self._go_on(record, reopen=reopen)
            if record.status.is_over and not reopen:
                return Resumed(run=record, started=True)  # only what is owed is left to do, under the same epoch
            return Resumed(run=await self._resumed(record), started=True)
        if reopen:
            raise await self._refusal_to_reopen(record)
        return Resumed(run=record, started=False)

    async def _refusal_to_reopen(self, before: RunRecord) -> Conflict:
        """The workflow may be open for its last end, or because somebody else has reopened the run a moment ago."""
        run = await self.asked(lambda parts: parts.store.runs.get(before.run_id))
        if not run.status.is_over:
            return Conflict(f"run {run.run_id} was reopened a moment ago and is under way")
        return Conflict(
            f"run {run.run_id} has ended, but its workflow {run.workflow_id} still exports its end or takes up the run "
            f"again: see `crawlctl show {run.run_id}` and try again in a moment"
        )

    def _is_left(self, record: RunRecord) -> bool:
        """Whether its end is on record, and not yet exported or told."""
        if not record.status.is_over or record.export_state is ExportState.PENDING:
            return record.status.is_over
        left = self.parts.store.records.handover(record.run_id)
        return left is not None and FindingKind.UNDELIVERED in owed(left.run, left.logged, silent=left.silent)

    async def _go_on(self, record: RunRecord, *, reopen: bool = False) -> None:
        request = RunRequest(crawler=record.crawler, run_id=record.run_id, reopen=reopen)
        await self.engine.go_on(record.workflow_id, request)

    async def _resumed(self, before: RunRecord) -> RunRecord:
        """The run with its next epoch, or what its workflow failed with."""
        handle = (await self.engine.client()).get_workflow_handle(before.workflow_id)

        async def taken_over() -> RunRecord | None:
            run = await self.asked(lambda parts: parts.store.runs.get(before.run_id))
            return run if run.epoch > before.epoch else None

        return await self._unless_it_fails(handle, taken_over, f"taken over run {before.run_id}")

    async def export(self, run: int | str) -> RunOverview:
        """Announces and archives a run that is over, again, under the same ids; of its earlier ends, what is owed."""
        from crawler_lifecycle.contract.steps.exports import ExportAgain
        from crawler_lifecycle.contract.steps.run import RunRef

        record = (await asyncio.to_thread(self.overview, run)).run
        if not record.status.is_over:
            raise Conflict(f"run {record.run_id} is {record.status}: it is exported when it is over")
        ref = RunRef(run_id=record.run_id, run_uid=record.run_uid, epoch=record.epoch)
        owed = await self.asked(lambda parts: parts.store.runs.owed_exports(record.run_id))
        step = ExportAgain(run=ref, end=record.end_number, owed=owed)
        summary = f"export of run {record.run_id}, {record.crawler}"
        handle = await self.engine.start(EXPORT_WORKFLOW, step, export_workflow_id(record.run_uid), summary, join=True)
        try:
            async with asyncio.timeout(EXPORT_PATIENCE):
                await self.engine.result(handle)
        except TimeoutError as error:
            raise TemporaryError(
                f"the export of run {record.run_id} is under way but not done after {EXPORT_PATIENCE:.0f} s; "
                f"`crawlctl show {record.run_id}` tells how it goes"
            ) from error
        return await asyncio.to_thread(self.overview, record.run_id)

    async def doctor(self) -> Sequence["Check"]:
        from crawler_lifecycle.control.checks import check_all

        return await check_all(self)

    # the rest, each opened by the first verb that needs it

    @cached_property
    def engine(self) -> "Engine":
        from crawler_lifecycle.control.engine import Engine

        return Engine(self.installation.temporal, self.installation.settings.worker.task_queue)

    @cached_property
    def audits(self) -> "Audits":
        from crawler_lifecycle.control.audits import Audits

        return Audits(self)

    @cached_property
    def schedules(self) -> "Schedules":
        from crawler_lifecycle.control.schedules import Schedules

        return Schedules(self)


def _refuse_what_is_over(run: RunRecord, *, reopen: bool, left: bool) -> None:
    if reopen and run.status is not RunStatus.FAILED:
        raise Conflict(f"run {run.run_id} is {run.status}: only a run that ended FAILED is reopened")
    if run.status.is_over and not reopen and not left:
        more = ", but it can be reopened" if run.status is RunStatus.FAILED else ""
        raise Over(f"run {run.run_id} is over ({run.status}, {run.reason}): there is nothing to resume{more}")


def _workflow_id(crawler: str, installation: str, key: str | None) -> str:
    """Several installations may share a server; the same key is another run in each of them."""
    if key is None:
        return f"crawl-{_slug(crawler)}-{uuid.uuid4().hex[:12]}"
    return f"crawl-key-{hashlib.sha256(f'{installation}:{key}'.encode()).hexdigest()[:32]}"


def _refuse_another_request(known: RunRecord, request: RunRequest) -> None:
    """What the first request left open was filled in, so it may be left open again, and nothing else may be."""
    asked, made = request.model_dump(exclude=NOT_COMPARED), known.request.model_dump()
    left_open = known.request.left_open
    if different := [
        name for name, value in asked.items() if made[name] != value and not (value is None and name in left_open)
    ]:
        raise Conflict(f"the key was used for run {known.run_id}, with another {', '.join(different)}")


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:40] or "crawler"
