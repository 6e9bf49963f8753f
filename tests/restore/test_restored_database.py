"""The database is an old copy: runs that it has as running were taken over, and have ended, in what was lost.

What the cluster still tells is found again; what it does not is told, and crawled by nobody a second time.
"""

import shutil
from contextlib import suppress
from pathlib import Path

import pytest
from temporalio.client import WorkflowExecutionStatus
from temporalio.service import RPCError

from crawler_lifecycle.audits.rules.runs import OLD_COPY
from crawler_lifecycle.model.answers import Started
from crawler_lifecycle.model.audits import FindingKind
from crawler_lifecycle.model.records import RunDetails
from crawler_lifecycle.model.states import RunStatus
from tests.kit.data.databases import copy_file
from tests.kit.service.audits import audited
from tests.kit.waiting import eventually, eventually_async
from tests.process.crawls import AT_ONCE, PATIENCE, Site, site
from tests.process.stops import terminate, until_closed, workflow_status

pytestmark = [pytest.mark.process, pytest.mark.timeout(240)]
MENDED = {0: 0}


async def test_the_database_is_an_old_copy(folder: Path) -> None:
    copy = folder / "copy.db"
    async with site(folder, settings=AT_ONCE) as first:
        told, again, gone, watched = [await first.start() for _ in range(4)]
        for run in (told, again, gone, watched):
            await first.until_running(run, 1)
        copy_file(first.state / "crawler.db", copy)
        for run in (told, gone, watched):
            await terminate(first, run)
            assert (await first.control.runs.resume(run.run_id)).run.epoch == 2
        first.release(told, 0)
        first.release(gone, 0)
        first.release(again, 0, codes={0: 3})
        truth = {run.run_id: await first.assert_true(run, MENDED) for run in (told, gone)}
        await first.assert_true(again, {0: 3})
        first.release(again, 0)
        await _reopened(first, again)
        truth[again.run_id] = await _until_completed(first, again)
    shutil.rmtree(first.job_folder(gone, 0))  # as a cluster that removes what is over
    events = _events(first)
    copy_file(copy, first.state / "crawler.db")

    async with site(folder, settings=AT_ONCE) as second:
        second.asked += first.asked
        await _until_nobody_supervises(second, watched)
        await _until_audited(second, told, watched)
        second.release(watched, 0)
        assert _told_of(await second.assert_true(told, MENDED)) == _told_of(truth[told.run_id])
        assert (await second.assert_true(watched, MENDED)).run.epoch == 2

        for run in (again, gone):
            details = second.details(run)
            (found,) = details.findings
            assert (found.kind, found.acts, found.problem) == (FindingKind.UNSUPERVISED, 0, OLD_COPY)
            assert (details.run.status, details.run.epoch) == (RunStatus.PROCESSING, 1)

        await second.control.runs.resume(again.run_id)
        await second.until_over(again)
        await _reopened(second, again)
        assert _told_of(await _until_completed(second, again)) == _told_of(truth[again.run_id])
        jobs = {key: (job.began, job.ends) for key, job in second.jobs(again).items()}
        assert jobs == {(0, 1): (1, (3,)), (0, 2): (1, (0,))}
        lost = [line for line in _events(second) if line not in events]
        assert all(watched.run_uid in line for line in lost), "of the others nothing was announced a second time"
        assert second.details(gone).run.status is RunStatus.PROCESSING


def _events(site: Site) -> list[str]:
    return (site.state / "exports" / "events.jsonl").read_text().splitlines()


def _told_of(details: RunDetails) -> tuple[object, ...]:
    """How it ended, by which jobs, and under which ids that was announced and exported."""
    tasks = [(task.status, task.exit_code, task.reason, task.attempt, task.job_name) for task in details.tasks]
    exports = sorted((each.kind, each.event_id, each.state, each.location) for each in details.exports)
    return details.run.status, details.run.reason, details.run.end_number, tasks, exports


async def _reopened(site: Site, run: Started) -> None:
    """Not before the workflow of its last end has closed."""
    await until_closed(site, run.workflow_id)
    assert (await site.control.runs.resume(run.run_id, reopen=True)).started


async def _until_completed(site: Site, run: Started) -> RunDetails:
    await eventually(lambda: site.details(run).run.end_number == 2, patience=PATIENCE)
    details = await site.until_over(run)
    assert details.run.status is RunStatus.COMPLETED
    return details


async def _until_nobody_supervises(site: Site, run: Started) -> None:
    """Its supervisor is later than the row: at the next look it is told so, and gives up."""

    async def failed() -> bool:
        status = await workflow_status(site, run.workflow_id)
        if status is WorkflowExecutionStatus.RUNNING:
            with suppress(RPCError):  # it has ended just now
                await site.nudge(run)
            return False
        assert status is WorkflowExecutionStatus.FAILED
        return True

    await eventually_async(failed, patience=PATIENCE)


async def _until_audited(site: Site, *runs: Started) -> None:
    """Temporal's list of what is open may lag."""

    async def resumed() -> bool:
        report = await audited(site.control.audits, repair=True)
        assert report.is_complete
        return all(site.details(run).run.epoch == 2 for run in runs)

    await eventually_async(resumed, patience=PATIENCE)
