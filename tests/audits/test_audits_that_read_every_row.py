"""Each page of an audit's jobs read the rows of all runs that have a job: of 2,000 that were left over, forty times."""

from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from crawler_lifecycle.audits.activities.jobs import ROWS_AT_ONCE, RUNS_IN_A_PAGE, JobAudit
from crawler_lifecycle.model.supervision import AuditPatience, ListedJob

pytestmark = pytest.mark.regression(
    "Each page of an audit's jobs read the rows of all runs with a job: of 2,000 leftovers, forty times"
)

RUNS = 5 * ROWS_AT_ONCE


class Rows:
    """Of no run is there a row: the jobs of all are disputed."""

    def __init__(self) -> None:
        self.read = list[int]()

    def audited_by_uid(self, run_uids: Collection[str]) -> dict[str, Any]:
        self.read.append(len(run_uids))
        return {}


def test_a_page_reads_the_rows_that_it_needs() -> None:
    rows: Any = Rows()
    nobody: Any = None
    audit = JobAudit(rows, nobody, nobody, nobody, AuditPatience())
    made_at = datetime.now(UTC) - timedelta(days=1)
    uids = [f"{number:06}" for number in range(RUNS)]
    jobs = {uid: [ListedJob(f"crawl-{uid}-0-1", uid, (0, 1), made_at)] for uid in reversed(uids)}
    after, seen = "", list[str]()
    for _ in range(3):
        disputed = audit._disputed_runs(jobs, after)
        assert len(disputed) > RUNS_IN_A_PAGE
        seen += disputed[:RUNS_IN_A_PAGE]
        after = seen[-1]
    assert seen == uids[: 3 * RUNS_IN_A_PAGE]
    assert rows.read == [ROWS_AT_ONCE] * 3
    assert audit._disputed_runs(jobs, uids[-3]) == uids[-2:]
    assert audit._disputed_runs(jobs, uids[-1]) == []
