"""Is each thing that disagrees kept once, from when to when, with what was done?"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from itertools import count
from uuid import uuid4

import pytest

from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.audits.ports import Findings
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.model.audits import (
    AuditPart,
    AuditRef,
    AuditReport,
    Finding,
    FindingKind,
    FindingRecord,
    PartReport,
)
from crawler_lifecycle.runs.store.reading import findings_of
from crawler_lifecycle.schedules.model import ScheduleCommand

KINDS = AuditPart.RUNS.kinds
LOST = Finding(kind=FindingKind.UNSUPERVISED, subject="run-1", run_uid="run-1", run_id=7, message="lost")
LATE = Finding(kind=FindingKind.LOOK_OVERDUE, subject="run-1", run_uid="run-1", run_id=7, message="late")


@pytest.fixture
def clocked(database_url: str) -> Iterator[Database]:
    """Each look at its clock is a second later."""
    seconds = count()
    start = datetime(2026, 11, 20, 9, tzinfo=UTC)
    database = Database(database_url, clock=lambda: start + timedelta(seconds=next(seconds)))
    yield database
    database.close()


def an_audit(database: Database) -> AuditRef:
    return AuditRef(audit_uid=str(uuid4()), began_at=database.clock(), repair=True)


def of(port: Findings) -> list[FindingRecord]:
    return port.overview(audits=10, findings=100).findings


def test_a_finding_is_opened_once_and_closed_when_it_vanishes(clocked: Database) -> None:
    port = SqlStore(clocked).findings
    first, second, third = (an_audit(clocked) for _ in range(3))
    port.report(first, [LOST, LATE])
    port.report(first, [LOST.model_copy(update={"action": "resumed"})])
    assert port.close(first, KINDS) == 0, "what this audit has seen itself stays"
    second = an_audit(clocked)
    port.report(second, [LOST.model_copy(update={"message": "still lost"})])
    assert port.close(second, KINDS) == 1
    lost, late = of(port)
    assert (lost.kind, lost.message, lost.closed_at) == (FindingKind.UNSUPERVISED, "still lost", None)
    assert (lost.action, lost.acts) == ("resumed", 1)
    assert lost.first_seen_at < lost.last_seen_at
    assert late.closed_at is not None
    assert port.overview(audits=0, findings=0).open == {FindingKind.UNSUPERVISED: 1}
    third = an_audit(clocked)
    assert port.close(third, [FindingKind.LEFTOVER_JOB]) == 0, "of other kinds nothing is known"
    assert port.close(third, KINDS) == 1
    port.report(third, [LOST])
    with clocked.read() as connection:
        findings = findings_of(connection, "run-1")
    assert [finding.closed_at is None for finding in findings] == [False, False, True], "again is another story"


def test_what_could_not_be_judged_stays_as_it_is(clocked: Database) -> None:
    port = SqlStore(clocked).findings
    port.report(an_audit(clocked), [LOST])
    second = an_audit(clocked)
    port.keep_open(second, [(LOST.kind, LOST.subject), (LATE.kind, LATE.subject)])
    assert port.close(second, KINDS) == 0
    assert [each.kind for each in of(port)] == [LOST.kind]


def test_an_older_audit_does_not_close_what_a_later_one_has_seen(clocked: Database) -> None:
    port, slow, quick = SqlStore(clocked).findings, an_audit(clocked), an_audit(clocked)
    port.report(quick, [LOST])
    assert port.close(slow, KINDS) == 0


def test_how_often_something_was_done(clocked: Database) -> None:
    port, audit = SqlStore(clocked).findings, an_audit(clocked)
    for _ in range(3):
        port.report(audit, [LOST.model_copy(update={"action": "resumed", "problem": None})])
    port.report(audit, [LATE])
    known = port.acted([(LOST.kind, LOST.subject), (LATE.kind, LATE.subject), (LOST.kind, "other")])
    assert {key: (each.acts, each.at is None) for key, each in known.items()} == {
        (LOST.kind, LOST.subject): (3, False),
        (LATE.kind, LATE.subject): (0, True),
    }


def test_audits_at_the_same_time_open_one_finding(database: Database) -> None:
    port = SqlStore(database).findings
    many = [LOST.model_copy(update={"subject": f"run-{number}"}) for number in range(50)]

    def report(_: int) -> None:
        port.report(AuditRef(audit_uid=str(uuid4()), began_at=database.clock(), repair=True), many)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(report, range(8)))
    assert port.overview(audits=0, findings=0).open == {FindingKind.UNSUPERVISED: 50}
    assert len(of(port)) == 50


def test_audits_are_kept_for_a_while(clocked: Database) -> None:
    port, audit = SqlStore(clocked).findings, an_audit(clocked)
    whole = {part: PartReport(examined=3) for part in AuditPart}
    port.begin(audit)
    port.begin(audit)
    (begun,) = port.overview(audits=10, findings=0).audits
    assert (begun.finished_at, begun.complete) == (None, False)
    assert port.overview(audits=10, findings=0).last_complete_at is None
    port.finish(AuditReport(audit=audit, parts=whole), timedelta(days=30))
    seen = port.overview(audits=10, findings=0)
    assert seen.audits[0].parts == whole
    assert seen.last_complete_at == seen.audits[0].finished_at
    cut_off = an_audit(clocked)
    port.begin(cut_off)
    problem = whole | {AuditPart.JOBS: PartReport(problem="no answer")}
    port.finish(AuditReport(audit=cut_off, parts=problem), timedelta(days=30))
    again = port.overview(audits=10, findings=0)
    assert [each.complete for each in again.audits] == [False, True]
    assert again.last_complete_at == seen.last_complete_at, "one that was not complete does not count"


def test_what_is_closed_for_long_is_forgotten(clocked: Database) -> None:
    port, first = SqlStore(clocked).findings, an_audit(clocked)
    port.begin(first)
    port.report(first, [LOST, LATE])
    second = an_audit(clocked)
    port.begin(second)
    port.report(second, [LATE])
    port.close(second, KINDS)
    port.finish(AuditReport(audit=second), timedelta(days=1))
    assert len(of(port)) == 2
    port.finish(AuditReport(audit=second), timedelta())
    assert [each.kind for each in of(port)] == [FindingKind.LOOK_OVERDUE], "what is open is never forgotten"


def test_a_command_for_a_schedule_is_recorded_once_and_not_forever(clocked: Database) -> None:
    """A repeated write added a second line, and no line was ever deleted."""
    store, audit = SqlStore(clocked), an_audit(clocked)
    command = ScheduleCommand(at=clocked.clock(), command="create", actor="ann", door="api")
    for _ in range(2):
        store.schedule_log.add("nightly", command)
    store.schedule_log.add("Nightly", command)
    assert store.schedule_log.latest("nightly") == [command]
    store.schedule_log.forget("Nightly", command)
    store.findings.finish(AuditReport(audit=audit), timedelta(days=1))
    assert store.schedule_log.latest("nightly") == [command]
    assert store.schedule_log.latest("Nightly") == []
    store.findings.finish(AuditReport(audit=audit), timedelta())
    assert store.schedule_log.latest("nightly") == []
