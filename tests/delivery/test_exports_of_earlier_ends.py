"""Of a run that was reopened, only the last end could be exported again. What had failed of an earlier one stayed so,
and every audit had the whole of the last one archived again because of it, for a week."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.audits.rules.handovers import next_replay
from crawler_lifecycle.database.schema import metadata
from crawler_lifecycle.errors import TemporaryError
from crawler_lifecycle.model.audits import AuditPart, AuditRef, AuditStep, FindingKind
from crawler_lifecycle.model.naming import event_id
from crawler_lifecycle.model.notices import ExportEvent
from crawler_lifecycle.model.requests import StopRequest
from crawler_lifecycle.model.run_plan import CloseRun, ExportedEnd, ExportsOwed, RunPlan
from crawler_lifecycle.model.states import ExportKind, ExportState, RunStatus
from crawler_lifecycle.model.supervision import AuditPatience
from crawler_lifecycle.runs.model import LogCancellation, TakeOver
from tests.kit.service.rig import Rig

pytestmark = pytest.mark.regression("Of a run that was reopened, only the last end could be exported again")

HOUR = timedelta(hours=1)


def end(rig: Rig, plan: RunPlan) -> None:
    rig.bench.cluster.deploy(rig.bench.request("true"))  # there is a cluster
    stop = LogCancellation(run=plan.run, stop=StopRequest(), asked_at=datetime.now(UTC))
    rig.do(rig.stopping.add_cancellation_log_to_db, stop)
    rig.do(rig.stopping.cancel_queued_tasks, CloseRun(run=plan.run))
    rig.do(rig.histories.update_run_status, CloseRun(run=plan.run))


def ended_twice(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> RunPlan:
    """The event of the first end was taken by nobody; the second end is on record, and nothing of it is exported."""
    first = rig.begin()
    end(rig, first)

    def away(*_: object) -> None:
        raise TemporaryError("the bus is away")

    with monkeypatch.context() as patched:
        patched.setattr(type(rig.exports.announcer), "announce", away)
        with pytest.raises(TemporaryError):
            rig.do(rig.exports.initiate_export_signal, ExportedEnd(run=first.run))
    rig.do(rig.exports.export_supporting_files, ExportedEnd(run=first.run))
    second = taken_over(rig, first, reopen=True)
    with rig.database.transaction() as connection:  # the attempt of this end succeeds
        tasks = metadata.tables["task_histories"]
        connection.execute(tasks.update().where(tasks.c.history_id == first.run.run_id).values(status="SUCCEEDED"))
    rig.do(rig.histories.update_run_status, CloseRun(run=second.run))
    assert rig.details(second).run.status is RunStatus.COMPLETED
    return second


def taken_over(rig: Rig, plan: RunPlan, *, reopen: bool = False) -> RunPlan:
    taken = rig.do(rig.supervision.take_over_run, again(rig, plan, reopen=reopen))
    assert taken.plan is not None
    return taken.plan


def again(rig: Rig, plan: RunPlan, *, reopen: bool = False) -> TakeOver:
    workflow_id = rig.details(plan).run.workflow_id
    return TakeOver(
        run_id=plan.run.run_id, crawler="books", reopen=reopen, workflow_id=workflow_id, temporal_run_id=str(uuid4())
    )


def test_whoever_goes_on_with_the_run_is_told_what_is_owed_of_every_end(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = ended_twice(rig, monkeypatch)
    taken = rig.do(rig.supervision.take_over_run, again(rig, plan))
    assert taken.owed == ExportsOwed(events=[2, 1], archives=[2])
    for number in taken.owed.events:
        rig.do(rig.exports.initiate_export_signal, ExportedEnd(run=plan.run, end=number))
    for number in taken.owed.archives:
        rig.do(rig.exports.export_supporting_files, ExportedEnd(run=plan.run, end=number))
    assert rig.details(plan).run.export_state is ExportState.DONE
    assert SqlStore(rig.database).runs.owed_exports(plan.run.run_id) == ExportsOwed()


def test_an_earlier_end_is_told_as_it_was(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = ended_twice(rig, monkeypatch)
    rig.do(rig.exports.initiate_export_signal, ExportedEnd(run=plan.run, end=1))
    kept = SqlStore(rig.database).runs.export_event(event_id(plan.run.run_uid, ExportKind.RUN_ENDED, 1))
    assert kept is not None
    assert (kept.end, kept.status, kept.reason) == (1, RunStatus.FAILED, "stopped")
    told = (rig.folder / "exports" / "events.jsonl").read_text().splitlines()
    assert kept in [ExportEvent.model_validate_json(line) for line in told]


def audited(rig: Rig) -> int:
    """How often workflows were asked to hand over by now."""
    ref = AuditRef(audit_uid=str(uuid4()), began_at=datetime.now(UTC), repair=True)
    asyncio.run(rig.environment.run(rig.handover_audit.audit_handovers, AuditStep(audit=ref, part=AuditPart.HANDOVERS)))
    return len(rig.supervisors.started)


def test_an_audit_has_an_export_that_stays_failed_done_again_ever_more_rarely(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = ended_twice(rig, monkeypatch)
    rig.do(rig.exports.initiate_export_signal, ExportedEnd(run=plan.run, end=2))
    rig.do(rig.exports.export_supporting_files, ExportedEnd(run=plan.run, end=2))
    assert rig.details(plan).run.export_state is ExportState.FAILED
    exports, found = metadata.tables["exports"], metadata.tables["audit_findings"]
    with rig.database.transaction() as connection:
        connection.execute(exports.update().values(finished_at=datetime.now(UTC) - 2 * HOUR))
    rig.handover_audit = replace(rig.handover_audit, patience=replace(rig.handover_audit.patience, failed_export=HOUR))
    assert [audited(rig) for _ in range(3)] == [1, 1, 1]
    (finding,) = rig.details(plan).findings
    assert (finding.kind, finding.acts) == (FindingKind.EXPORT_FAILED, 1)
    assert "in vain" in (finding.problem or "")
    for hours, started in ((1.5, 2), (1.5, 2), (2.5, 3)):
        with rig.database.transaction() as connection:
            connection.execute(found.update().values(acted_at=datetime.now(UTC) - hours * HOUR))
        assert audited(rig) == started


def test_the_pauses_between_replays_grow() -> None:
    began = datetime(2026, 11, 20, tzinfo=UTC)
    pauses = [(next_replay(acts, began, AuditPatience()) - began) // HOUR for acts in (1, 2, 3, 4, 100)]
    assert pauses == [1, 2, 4, 8, 168]
