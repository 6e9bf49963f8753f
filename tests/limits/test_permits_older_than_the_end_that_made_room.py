from datetime import timedelta

import pytest
from sqlalchemy import Connection

from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.limits.store.admission import limits_under_lock
from crawler_lifecycle.model.limits import ScopeLimits
from crawler_lifecycle.runs.store import passes
from tests.kit.data.databases import MakeRun, ref_to

pytestmark = pytest.mark.regression(
    "A run read the clock, waited for the lock of admissions, and got a permit from before the end that made room"
)

MINUTE = timedelta(minutes=1)


def test_a_permit_has_the_time_after_the_wait(
    database: Database, make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, run, now = SqlStore(database), make_run(), database.clock()
    ended_at = now + MINUTE

    def wait_for_the_lock(connection: Connection, most_tasks: int) -> dict[str, ScopeLimits]:
        limits = limits_under_lock(connection, most_tasks)
        monkeypatch.setattr(database, "clock", lambda: ended_at)
        return limits

    monkeypatch.setattr(database, "clock", lambda: now)
    monkeypatch.setattr(passes, "limits_under_lock", wait_for_the_lock)
    assert store.claims.claim_main(ref_to(run), "supervisor", MINUTE)
    assert store.runs.get(run.run_id).admitted_at == ended_at
