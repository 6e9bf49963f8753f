"""`crawlctl audit`: what was found, in lines and for programs, with an exit status for scripts."""

import json
from collections.abc import Iterator
from datetime import timedelta
from uuid import uuid4

import pytest

from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.audits.cli import _status, report_lines
from crawler_lifecycle.audits.ports import Findings
from crawler_lifecycle.database.database import Database, utcnow
from crawler_lifecycle.model.audits import AuditPage, AuditPart, AuditRef, AuditReport, Finding, FindingKind, PartReport
from crawler_lifecycle.model.records import RunRecord
from tests.kit.service.commands import Crawlctl

WHOLE = {part: PartReport(examined=5) for part in AuditPart}


@pytest.fixture
def kept(run: RunRecord, state_url: str) -> Iterator[Findings]:
    database = Database(state_url, pool_size=2)
    yield SqlStore(database).findings
    database.close()


def an_audit() -> AuditRef:
    return AuditRef(audit_uid=str(uuid4()), began_at=utcnow(), repair=True)


def lost(run: RunRecord, **more: str) -> Finding:
    finding = Finding(kind=FindingKind.UNSUPERVISED, subject=run.run_uid, run_uid=run.run_uid, message="it is lost")
    return finding.model_copy(update={"run_id": run.run_id, **more})


def test_nothing_disagrees(crawlctl: Crawlctl, kept: Findings) -> None:
    audit = an_audit()
    kept.begin(audit)
    kept.finish(AuditReport(audit=audit, parts=WHOLE), timedelta(days=1))
    shown = crawlctl("audit")
    assert shown.exit_code == 0, shown.output
    assert "nothing" in shown.output


def test_what_disagrees_is_told_with_status_7_and_stands_with_its_run(
    crawlctl: Crawlctl, kept: Findings, run: RunRecord
) -> None:
    audit = an_audit()
    kept.begin(audit)
    kept.report(audit, [lost(run, action="its workflow was started again", evidence="last words")])
    kept.finish(AuditReport(audit=audit, parts=WHOLE), timedelta(days=1))
    shown = crawlctl("audit")
    assert shown.exit_code == 7, shown.output
    for told in ("unsupervised, open: run 1: it is lost", "its workflow was started again", "| last words"):
        assert told in shown.output
    answer = crawlctl("audit", "--json")
    overview = json.loads(answer.stdout)
    assert (answer.exit_code, overview["open"]) == (7, {"unsupervised": 1})
    assert "Findings of audits" in crawlctl("show", "1").output
    assert json.loads(crawlctl("show", "1", "--json").stdout)["findings"][0]["acts"] == 1


def test_an_audit_that_has_stopped_is_told_with_status_4(crawlctl: Crawlctl, kept: Findings) -> None:
    audit = an_audit()
    kept.begin(audit)
    cut_off = WHOLE | {AuditPart.JOBS: PartReport(problem="no answer of the cluster")}
    kept.finish(AuditReport(audit=audit, parts=cut_off), timedelta(days=1))
    shown = crawlctl("audit")
    assert shown.exit_code == 4
    assert "not finished: no answer of the cluster" in shown.output
    assert "no audit was complete yet: the lines of its parts say why" in shown.output


@pytest.mark.parametrize(
    "words", [("--dry-run", "--repair"), ("--remove-unknown-jobs",), ("--dry-run", "--remove-unknown-jobs")]
)
def test_words_that_do_not_go_together(crawlctl: Crawlctl, words: tuple[str, ...]) -> None:
    assert crawlctl("audit", *words).exit_code == 2


def report(run: RunRecord, *, repair: bool, acted: int, problem: str | None = None) -> AuditReport:
    page = AuditPage(examined=3, found={FindingKind.UNSUPERVISED: 1}, acted=acted)
    parts = WHOLE | {AuditPart.RUNS: PartReport().with_page(page).model_copy(update={"problem": problem})}
    return AuditReport(audit=an_audit().model_copy(update={"repair": repair}), parts=parts, findings=[lost(run)])


@pytest.mark.parametrize(
    ("repair", "acted", "problem", "status"),
    [(False, 0, None, 7), (True, 1, None, 0), (True, 0, None, 7), (True, 1, "no answer", 4)],
)
def test_the_status_of_an_audit_that_was_made_now(
    run: RunRecord, repair: bool, acted: int, problem: str | None, status: int
) -> None:
    made = report(run, repair=repair, acted=acted, problem=problem)
    assert _status(made) == status
    lines = "\n".join(report_lines(made))
    assert ("dry run: nothing was changed" in lines) is not repair
    assert "unsupervised: run 1: it is lost" in lines


def test_what_keeps_an_audit_from_a_repair_is_a_line_of_its_finding(run: RunRecord) -> None:
    audit = report(run, repair=True, acted=0)
    blocked = audit.findings[0].model_copy(update={"action": None, "problem": "its workflow id is taken"})
    lines = list(report_lines(audit.model_copy(update={"findings": [blocked]})))
    assert lines[-2:] == ["  unsupervised: run 1: it is lost", "    its workflow id is taken"]
