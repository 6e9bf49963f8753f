"""The audit on a real Temporal server, with real workflows, jobs and a worker as the settings make it."""

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import TypeVar
from uuid import uuid4

import pytest
import pytest_asyncio
from prometheus_client import CollectorRegistry
from temporalio import workflow
from temporalio.api.common.v1 import Payload, WorkflowExecution
from temporalio.api.workflowservice.v1 import DeleteWorkflowExecutionRequest
from temporalio.client import ScheduleActionStartWorkflow, ScheduleOverlapPolicy
from temporalio.common import RawValue
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from crawler_lifecycle.assembly.control import Control
from crawler_lifecycle.assembly.failing_workflows import FailingWorkflows
from crawler_lifecycle.assembly.plugin import LifecyclePlugin, activities
from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.audits.commands import LONGEST_AUDIT, AuditSchedule, schedule_id
from crawler_lifecycle.clusters.local.cluster import LocalCluster
from crawler_lifecycle.database import migrate
from crawler_lifecycle.errors import Conflict, NotFound, NotReady, Over, PermanentError
from crawler_lifecycle.model.audits import AuditPart, AuditRequest, Finding, FindingKind
from crawler_lifecycle.model.naming import event_id
from crawler_lifecycle.model.notices import NoticeKind
from crawler_lifecycle.model.requests import RunRequest, StopRequest
from crawler_lifecycle.model.states import RunStatus
from crawler_lifecycle.runs.ports import NewRun
from crawler_lifecycle.settings.installation import Installation
from tests.kit.clusters.clusters import LocalBench
from tests.kit.clusters.schedulers import TOKEN, a_catalogue, served
from tests.kit.data.databases import ref_to
from tests.kit.outside.messages import a_notice
from tests.kit.service.audits import audited
from tests.kit.temporal.plays import working
from tests.kit.waiting import eventually_async

CATALOGUE = '[crawlers.sleeper]\ncommand = ["/bin/sh", "-c", "exec sleep 300"]\n'
PATIENCE = 60.0
AT_ONCE = {f"CRAWLER_AUDIT__{name}_SECONDS": "0" for name in ("WORKFLOW", "JOB", "HANDOVER", "FAILED_EXPORT")}
A = TypeVar("A")


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def control(real_time: WorkflowEnvironment, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Control]:
    folder = tmp_path_factory.mktemp("audits")
    bench = LocalBench(folder)
    cluster = LocalCluster(folder / "cluster", folder / "files", None, capacity=8)
    with served(cluster, a_catalogue(folder, CATALOGUE)) as url, ThreadPoolExecutor(8) as threads:
        variables = AT_ONCE | {
            "CRAWLER_SCHEDULER__URL": url,
            "CRAWLER_SCHEDULER__TOKEN": TOKEN,
            "CRAWLER_WORKER__TASK_QUEUE": f"audits-{uuid4()}",
            "TEMPORAL_ADDRESS": real_time.client.service_client.config.target_host,
            "TEMPORAL_NAMESPACE": real_time.client.namespace,
        }
        control = Control(Installation.with_variables(folder, variables))
        migrate.upgrade(control.installation.settings.database_url)
        engine = control.engine
        steps = activities(control.parts, engine, search_attributes=False)
        plugin = LifecyclePlugin(steps)
        worker = working(await engine.client(), engine.task_queue, (), plugins=[plugin], activity_executor=threads)
        try:
            async with worker:
                yield control
        finally:
            bench.clear()


async def delete(control: Control, workflow_id: str) -> None:
    """With all of its history, as retention does it."""
    client = await control.engine.client()
    execution = WorkflowExecution(workflow_id=workflow_id)
    await client.workflow_service.delete_workflow_execution(
        DeleteWorkflowExecutionRequest(namespace=client.namespace, workflow_execution=execution)
    )

    async def gone() -> bool:
        return (await control.engine.describe(workflow_id)).end == "missing"

    await eventually_async(gone, "its history to be gone")


async def until_deployed(control: Control, run_id: int) -> None:
    async def deployed() -> bool:
        return control.runs.show(run_id).tasks[0].job_name is not None

    await eventually_async(deployed, f"run {run_id} to have a job")


@workflow.defn(name="CrawlerLifecycleWorkflow")
class Broken:
    @workflow.run
    async def run(self) -> None:
        raise TypeError("a bug\nof ours")


@pytest.mark.long
async def test_a_run_whose_workflow_fails_is_told_everywhere_and_closed_when_it_goes_on(control: Control) -> None:
    """The worker of another version takes the tasks of one run, and later a right worker does."""
    engine, parts, queue = control.engine, control.parts, f"broken-{uuid4()}"
    client = await engine.client()
    execution = f"crawl-{uuid4()}"
    gauge = CollectorRegistry()
    search = FailingWorkflows(parts.store.records, parts.store.findings, engine, gauge)
    async with Worker(client, task_queue=queue, workflows=[Broken], workflow_runner=UnsandboxedWorkflowRunner()):
        handle = await client.start_workflow("CrawlerLifecycleWorkflow", id=execution, task_queue=queue)
        new = NewRun(
            RunRequest(crawler="sleeper"), control.parts.deployer.crawler("sleeper"), 1, execution, str(uuid4())
        )
        run = parts.store.runs.create(new)

        async def found() -> list[Finding]:
            return [each for each in await search.search() if each.run_id == run.run_id]

        (finding,) = await eventually_async(found, "the failing workflow to be found")
    assert "has failed the same task 2 times" in finding.message
    assert "TypeError: a bug of ours" in finding.message
    assert f"crawlctl resume {run.run_id}" in finding.message
    assert gauge.get_sample_value("crawler_workflows_failing") == 1
    (shown,) = control.runs.show(run.run_id).findings
    assert (shown.kind, shown.closed_at) == (FindingKind.WORKFLOW_FAILING, None)
    doctor = {check.part: check for check in await control.doctor()}["runs"]
    assert not doctor.ok
    assert f"1 run cannot continue ({run.run_id})" in doctor.line
    report = await audited(control.audits)
    assert [each.run_id for each in report.findings if each.kind is FindingKind.WORKFLOW_FAILING] == [run.run_id]
    await handle.terminate("as the message says")
    await search.search()
    (closed,) = control.runs.show(run.run_id).findings
    assert closed.closed_at is not None
    assert gauge.get_sample_value("crawler_workflows_failing") == 0
    assert {check.part: check for check in await control.doctor()}["runs"].ok
    await control.runs.resume(run.run_id)
    await until_deployed(control, run.run_id)
    await control.runs.stop(run.run_id, StopRequest(force=True))


async def test_runs_without_a_workflow_go_on(control: Control) -> None:
    """Terminated, its history deleted, its start lost; one that is watched is left alone."""
    started = [await control.runs.start(RunRequest(crawler="sleeper")) for _ in range(3)]
    terminated, deleted, watched = (each.run_id for each in started)
    for each in started:
        await until_deployed(control, each.run_id)
    client = await control.engine.client()
    await client.get_workflow_handle(started[0].workflow_id).terminate("somebody did")
    await delete(control, started[1].workflow_id)
    entry = control.parts.deployer.crawler("sleeper")
    new = NewRun(RunRequest(crawler="sleeper"), entry, 1, f"crawl-{uuid4()}", str(uuid4()))
    lost = SqlStore(control.parts.database).runs.create(new).run_id
    expected = {terminated, deleted, lost}

    async def seen() -> bool:
        dry = await audited(control.audits)
        return {each.run_id for each in dry.findings if each.kind is FindingKind.UNSUPERVISED} == expected

    await eventually_async(seen, "Temporal's list to show what is open")
    assert [control.runs.show(run_id).findings for run_id in expected] == [[], [], []]
    assert {control.runs.show(run_id).run.epoch for run_id in expected} == {1}

    report = await audited(control.audits, repair=True)
    assert report.is_complete
    assert report.parts[AuditPart.RUNS].found == {FindingKind.UNSUPERVISED: 3}
    for run_id in expected:

        async def taken_over(run_id: int = run_id) -> bool:
            return control.runs.show(run_id).run.epoch == 2

        await eventually_async(taken_over, f"run {run_id} to be supervised again")
        await until_deployed(control, run_id)
        (found,) = control.runs.show(run_id).findings
        assert (found.kind, found.acts) == (FindingKind.UNSUPERVISED, 1)
    assert control.runs.show(watched).run.epoch == 1
    asked = [await control.engine.requested_run_id(each.workflow_id) for each in started]
    assert asked == [terminated, deleted, 0]
    assert await control.engine.requested_run_id("of-nobody") is None

    async def agrees() -> bool:
        again = await audited(control.audits, repair=True)
        return again.is_complete and again.findings_count == 0

    await eventually_async(agrees, "nothing to disagree any more")
    assert control.audits.overview().open == {}
    for run_id in (*expected, watched):
        assert len(control.runs.show(run_id).tasks) == 1
        assert control.runs.show(run_id).tasks[0].attempt == 1, "the job was attached to"
        await control.runs.stop(run_id, StopRequest(force=True))
        await until_handed_over(control, run_id)


async def until_handed_over(control: Control, run_id: int) -> None:
    async def over() -> bool:
        details = control.runs.show(run_id)
        return details.run.status is RunStatus.FAILED and details.is_handed_over

    await eventually_async(over, f"run {run_id} to be over and handed over")


async def test_an_end_that_nobody_was_told_is_told(control: Control) -> None:
    """The run is over, and its workflow was terminated before the export."""
    entry = control.parts.deployer.crawler("sleeper")
    new = NewRun(RunRequest(crawler="sleeper"), entry, 1, f"crawl-{uuid4()}", str(uuid4()))
    histories = SqlStore(control.parts.database).runs
    run = histories.create(new)
    ref = await _closed(control, run.run_id)
    report = await audited(control.audits, repair=True)
    assert report.parts[AuditPart.HANDOVERS].found == {FindingKind.EXPORT_PENDING: 1}
    await until_handed_over(control, ref)
    details = control.runs.show(ref)
    assert {export.kind: export.state for export in details.exports} == {"run_ended": "done", "files_ready": "done"}
    notices = (control.installation.settings.exports_folder / "notices.jsonl").read_text()
    assert run.run_uid in notices


async def test_a_closing_notice_that_nobody_took_is_sent_by_whoever_resumes_its_run(control: Control) -> None:
    """However often, and however long ago, an audit has had it sent in vain."""
    entry = control.parts.deployer.crawler("sleeper")
    new = NewRun(RunRequest(crawler="sleeper"), entry, 1, f"crawl-{uuid4()}", str(uuid4()))
    histories = SqlStore(control.parts.database).runs
    run = histories.create(new)
    await _closed(control, run.run_id)
    await control.runs.export(run.run_id)
    with pytest.raises(Over, match="nothing to resume"):
        await control.runs.resume(run.run_id)
    closing = {"kind": NoticeKind.STOPPED, "run_id": run.run_id, "run_uid": run.run_uid}
    # as a try does it: the notice is stored before it is sent
    histories.keep_notice(ref_to(run), a_notice(event_id(run.run_uid, "stopped", 1)).model_copy(update=closing))
    histories.note(ref_to(run), "undelivered:stopped:1", "undelivered", "nobody there")
    resumed = await control.runs.resume(run.run_id)
    assert (resumed.started, resumed.run.status, resumed.run.epoch) == (True, RunStatus.FAILED, 1)

    async def told() -> bool:
        is_told = control.runs.show(run.run_id).log[-1].event == "delivered"
        return is_told and not (await control.engine.describe(run.workflow_id)).is_open

    await eventually_async(told, "its end to be told")
    notices = (control.installation.settings.exports_folder / "notices.jsonl").read_text()
    assert notices.count(event_id(run.run_uid, "stopped", 1)) == 1
    with pytest.raises(Over, match="nothing to resume"):
        await control.runs.resume(run.run_id)


async def test_an_open_workflow_of_another_type_is_not_taken_for_the_runs_own(control: Control) -> None:
    entry = control.parts.deployer.crawler("sleeper")
    new = NewRun(RunRequest(crawler="sleeper"), entry, 1, taken := f"crawl-{uuid4()}", str(uuid4()))
    run = SqlStore(control.parts.database).runs.create(new)
    await control.engine.start("AnotherWorkflow", RunRequest(crawler="sleeper"), taken, "not ours")
    with pytest.raises(Conflict, match=f"another type: end {taken} first"):
        await control.runs.resume(run.run_id)
    await _closed(control, run.run_id)
    report = await audited(control.audits, repair=True)
    (told,) = [each for each in report.findings if each.run_id == run.run_id]
    assert (told.kind, told.action) == (FindingKind.EXPORT_PENDING, None)
    assert f"end {taken} first" in (told.problem or "")
    await (await control.engine.client()).get_workflow_handle(taken).terminate("it was only there to be in the way")
    assert (await control.runs.resume(run.run_id)).started
    await until_handed_over(control, run.run_id)


@pytest.mark.parametrize(
    "payload",
    [
        Payload(metadata={"encoding": b"json/plain"}, data=b"{"),
        Payload(metadata={"encoding": b"binary/encrypted"}, data=b"sealed"),
        Payload(metadata={"encoding": b"binary/protobuf", "messageType": b"of.Nobody"}, data=b"\xff"),
    ],
    ids=["json", "sealed", "protobuf"],
)
async def test_a_start_that_cannot_be_read_is_told_as_that(control: Control, payload: Payload) -> None:
    client, workflow_id = await control.engine.client(), f"odd-{uuid4()}"
    await client.start_workflow("Odd", RawValue(payload), id=workflow_id, task_queue="of-nobody")
    with pytest.raises(PermanentError, match=f"the input of workflow {workflow_id} cannot be read"):
        await control.engine.requested_run_id(workflow_id)
    await client.get_workflow_handle(workflow_id).terminate("it was only there to be read")


async def _closed(control: Control, run_id: int) -> int:
    run = control.parts.store.runs.get(run_id)
    control.parts.store.tasks.cancel_queued(ref_to(run), "stopped")
    control.parts.store.runs.close(ref_to(run), RunStatus.FAILED, "stopped")
    return run_id


async def _audited(control: Control, *, repair: bool = False) -> str:
    started = await control.audits.start(AuditRequest(repair=repair))

    async def done() -> bool:
        return await control.audits.result(started.audit) is not None

    await eventually_async(done, "the audit to come to its end")
    return started.audit


async def test_an_audit_that_is_asked_for_and_looked_up_later(control: Control) -> None:
    audit = await _audited(control)
    for other in ("crawl-1", f"{audit}-not"):
        with pytest.raises(NotFound):
            await control.audits.result(other)


async def test_the_schedule_is_made_once_changed_and_taken_away(control: Control) -> None:
    installation = control.context.store.records.installation()
    with pytest.raises(NotReady, match="no schedule"):
        await control.audits.check()
    every_hour = AuditSchedule(control.engine, installation, 3600)
    await asyncio.gather(*(every_hour.keep() for _ in range(3)))
    await every_hour.keep()
    seen = await every_hour.describe()
    assert (seen.id, seen.schedule.policy.overlap) == (schedule_id(installation), ScheduleOverlapPolicy.SKIP)
    assert [each.every for each in seen.schedule.spec.intervals] == [timedelta(hours=1)]
    assert isinstance(seen.schedule.action, ScheduleActionStartWorkflow)
    assert seen.schedule.action.execution_timeout == LONGEST_AUDIT
    await _audited(control, repair=True)
    assert "the last complete one" in await control.audits.check()

    client = await control.engine.client()
    handle = client.get_schedule_handle(schedule_id(installation))
    known = len(control.audits.overview().audits)
    await handle.trigger()

    async def audited() -> bool:
        overview = control.audits.overview(audits=100)
        return len(overview.audits) > known and overview.audits[0].complete

    await eventually_async(audited, "the schedule's audit to be complete")
    await handle.pause(note="while we move")
    every_day = AuditSchedule(control.engine, installation, 24 * 3600)
    await every_day.keep()
    changed = await every_day.describe()
    assert [each.every for each in changed.schedule.spec.intervals] == [timedelta(days=1)]
    assert (changed.schedule.state.paused, changed.schedule.state.note) == (True, "while we move")
    with pytest.raises(NotReady, match="paused"):
        await control.audits.check()
    none = AuditSchedule(control.engine, installation, 0)
    await none.keep()
    await none.keep()
    with pytest.raises(NotFound):
        await none.describe()


async def test_what_is_open_is_asked_for_in_bunches(control: Control) -> None:
    """Ids with quotes cannot be asked for by a list, and are left to be described."""
    run = await control.runs.start(RunRequest(crawler="sleeper"))
    await control.engine.start(
        "AnotherWorkflow", RunRequest(crawler="sleeper"), taken := f"crawl-{uuid4()}", "not ours"
    )
    odd = f"it's \"{uuid4()}"
    others = [f"no-such-{number}" for number in range(250)]

    async def listed() -> bool:
        return await control.engine.open_among([*others, run.workflow_id, odd]) == {run.workflow_id}

    await eventually_async(listed, "the run to be listed")
    assert (await control.engine.describe(run.workflow_id)).is_open
    assert (await control.engine.describe(odd)).end == "missing"

    async def seen() -> bool:
        client = await control.engine.client()
        query = f"WorkflowId = '{taken}' AND ExecutionStatus = 'Running'"
        return (await client.count_workflows(query)).count == 1

    await eventually_async(seen, "the other one to be listed")
    assert await control.engine.open_among([taken, run.workflow_id]) == {run.workflow_id}
    other = await control.engine.describe(taken)
    assert (other.is_open, other.is_ours) == (True, False)
    await (await control.engine.client()).get_workflow_handle(taken).terminate("it was only there to be seen")
    await control.runs.stop(run.run_id, StopRequest(force=True))
    await until_handed_over(control, run.run_id)
