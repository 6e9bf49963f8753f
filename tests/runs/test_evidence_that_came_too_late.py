"""A cluster that was too busy said nothing of 32 tasks that had ended, and their jobs were removed: where they had run,
and their last log lines, were never known. Now such jobs stay, and the audit collects the evidence
(`tests/audits/test_audits.py`)."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import cast

import pytest

from crawler_lifecycle.clusters.ports import Cluster
from crawler_lifecycle.model.looks import JobKey
from crawler_lifecycle.model.requests import RunRequest
from crawler_lifecycle.model.run_plan import Removal, RemoveJobs, RunInput, RunRef
from crawler_lifecycle.model.states import RunStatus, TaskStatus
from crawler_lifecycle.model.task_changes import (
    EvidencePage,
    EvidenceRequest,
    EvidenceWrite,
    LookAt,
    StatusWrite,
    TaskChange,
)
from crawler_lifecycle.runs.workflows import looks
from tests.kit.service.rig import Rig
from tests.kit.temporal.plays import Play
from tests.kit.temporal.script import Script
from tests.kit.waiting import until

pytestmark = pytest.mark.regression(
    "Jobs were removed before a busy cluster had said where they had run, and their last log lines"
)

BOOKS = RunRequest(crawler="books", tasks=8)
EVIDENCE = "get_bulk_task_history_data"


def over(*tasks: int) -> list[TaskChange]:
    return [TaskChange(task=task, attempt=1, version=1, status=TaskStatus.SUCCEEDED) for task in tasks]


async def end_of(play: Play, script: Script, **options: object) -> RunStatus:
    async with play(script) as stage:
        handle = await stage.start(BOOKS, **options)
        outcome = await handle.result()
    return RunStatus(outcome["status"])


def collected(script: Script) -> list[int]:
    return [item.task for step in script.inputs("reconcile_tasks") for item in step.items]


@pytest.mark.long
async def test_it_is_tried_once_before_the_status_and_the_run_goes_on(play: Play) -> None:
    script = Script(
        alive=lambda look: 1 if look < 3 else 0,
        changes=lambda look: {1: over(4), 2: over(5, 6)}.get(look, []),
        failures={EVIDENCE: 1},
    )
    assert await end_of(play, script) is RunStatus.COMPLETED
    assert [step.tasks for step in script.inputs(EVIDENCE)] == ["4", "5-6", "6"]
    assert collected(script) == [5, 6], "task 4 is for the audit"
    steps = [name for name in script.names if name in ("sync_statuses", "reconcile_tasks")]
    assert steps == ["sync_statuses", "reconcile_tasks", "reconcile_tasks", "sync_statuses"]


async def test_nothing_waits_for_a_cluster_that_never_gives_it(play: Play) -> None:
    script = Script(changes=lambda look: over(*range(8)), failing=[EVIDENCE])
    assert await end_of(play, script) is RunStatus.COMPLETED
    assert script.names.count(EVIDENCE) == 1
    order = [name for name in script.names if name in (EVIDENCE, "sync_statuses", "export_supporting_files")]
    assert order == [EVIDENCE, "sync_statuses", "export_supporting_files"]


async def test_a_stop_does_not_wait_either(play: Play) -> None:
    script = Script(changes=lambda look: over(0), failing=[EVIDENCE])
    await end_of(play, script, start_signal="stop", start_signal_args=[{"actor": "ann"}])
    assert script.names.count(EVIDENCE) == 1


async def test_statuses_wait_no_longer_for_many_than_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each page takes ten seconds."""
    began, pages = datetime(2026, 11, 22, tzinfo=UTC), list[str]()

    async def answer(
        _activity: object, step: EvidenceRequest | EvidenceWrite, *_: object, **_options: object
    ) -> EvidencePage:
        if isinstance(step, EvidenceRequest):
            pages.append(step.tasks)
        return EvidencePage(items=[], rest="1-9")

    fake = SimpleNamespace(
        now=lambda: began + timedelta(seconds=10 * len(pages)),
        info=lambda: SimpleNamespace(get_current_history_size=lambda: 0),
        execute_activity_method=answer,
    )
    monkeypatch.setattr(looks, "workflow", fake)
    monkeypatch.setattr(looks, "at_once", answer)
    await looks.collect_evidence(RunRef(run_id=7, run_uid="uid", epoch=1), "0-9")
    assert len(pages) == 9


@pytest.mark.long
async def test_a_history_that_has_become_long_takes_no_more_of_it_and_the_run_ends(play: Play) -> None:
    """All of the evidence would take twice what Temporal allows before it ends a workflow itself."""
    tasks, megabyte = 100, "x" * 1_000_000
    script = Script(changes=lambda look: over(*range(tasks)), log_tail=megabyte)
    async with play(script) as stage:
        handle = await stage.start(BOOKS.model_copy(update={"tasks": tasks}))
        assert RunStatus((await handle.result())["status"]) is RunStatus.COMPLETED
        size = (await handle.describe()).raw_description.workflow_execution_info.history_size_bytes
    assert looks.LONG_HISTORY < size < 50_000_000
    assert 0 < len(collected(script)) < tasks / 2


class Removing:
    """A cluster that notes which jobs it was to remove."""

    def __init__(self) -> None:
        self.removed: list[JobKey] = []

    def remove(self, run_uid: str, jobs: Sequence[JobKey], uids: object = None) -> int:
        self.removed += jobs
        return 0


@pytest.mark.parametrize("named", ["0-1", ""])
def test_a_job_without_evidence_on_record_is_not_removed_by_the_run(rig: Rig, named: str) -> None:
    plan = rig.started()
    rig.deploy_children(plan)

    def both_over() -> bool:
        active = rig.do(rig.reconciliation.get_active_running_tasks, RunInput(run=plan.run))
        found = rig.do(rig.reconciliation.get_history_statuses_to_sync, LookAt(run=plan.run, active=active))
        rig.do(rig.reconciliation.sync_statuses, StatusWrite(run=plan.run, changes=found.changes))
        return rig.details(plan).run.tasks == {TaskStatus.SUCCEEDED: 1, TaskStatus.FAILED: 1}

    until(both_over, "both to end")
    cluster = Removing()
    removing = replace(rig.reconciliation, cluster=cast(Cluster, cluster))
    assert rig.do(removing.remove_jobs, RemoveJobs(run=plan.run, tasks=named)) == Removal()
    assert cluster.removed == []
    page = rig.do(rig.reconciliation.get_bulk_task_history_data, EvidenceRequest(run=plan.run, tasks="0"))
    rig.do(rig.reconciliation.reconcile_tasks, EvidenceWrite(run=plan.run, items=page.items))
    rig.do(removing.remove_jobs, RemoveJobs(run=plan.run, tasks=named))
    assert cluster.removed == [(0, 1)]
