"""Is at most one nudge of a run under way, whoever sends it?"""

import threading
from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.model.records import RunRecord
from crawler_lifecycle.model.states import RunStatus
from crawler_lifecycle.model.supervision import Nudge
from tests.kit.data.databases import MakeRun, give_away, ref_to
from tests.kit.data.statements import counted


def end(database: Database, run: RunRecord) -> None:
    SqlStore(database).tasks.cancel_queued(ref_to(run), "stopped")
    SqlStore(database).runs.close(ref_to(run), RunStatus.FAILED, "stopped")


def test_the_next_nudge_waits_for_the_last_ones_look(database: Database, make_run: MakeRun) -> None:
    run, nudges = make_run(), SqlStore(database).claims
    assert nudges.claim_nudges([run.run_uid] * 2) == [Nudge(run.run_id, run.run_uid, run.workflow_id, 1)]
    assert nudges.claim_nudges([run.run_uid]) == []
    assert SqlStore(database).runs.get(run.run_id).nudge_sent == 1
    SqlStore(database).runs.mark_look(ref_to(run), 1, True, None, None)
    assert [nudge.number for nudge in nudges.claim_nudges([run.run_uid])] == [2]


def test_what_was_not_answered_is_known_to_the_next_watcher(
    database: Database, database_url: str, make_run: MakeRun
) -> None:
    asked, answered, over, nudges = make_run(), make_run(), make_run(), SqlStore(database).claims
    make_run()  # never nudged
    nudges.claim_nudges([asked.run_uid, answered.run_uid, over.run_uid])
    SqlStore(database).runs.mark_look(ref_to(answered), 1, True, None, None)
    end(database, over)
    assert nudges.unanswered_nudges() == [Nudge(asked.run_id, asked.run_uid, asked.workflow_id, 1)]
    give_away(database_url)
    assert nudges.unanswered_nudges() == []


def test_of_a_run_only_what_a_nudge_needs_is_read(database: Database, make_run: MakeRun) -> None:
    """Its request may have 64 KiB, and a watcher asks every few seconds."""
    run, nudges = make_run(), SqlStore(database).claims
    with counted(database) as statements:
        nudges.claim_nudges([run.run_uid])
        assert nudges.unanswered_nudges()
    assert not [each for each in statements if "histories.request" in each]


def test_only_runs_that_are_known_and_not_over(database: Database, make_run: MakeRun) -> None:
    live, over, nudges = make_run(), make_run(), SqlStore(database).claims
    end(database, over)
    uids = [live.run_uid, over.run_uid, str(uuid4()), "not a uid, but '); DROP TABLE"]
    assert nudges.open_among(uids) == {live.run_uid}
    assert [nudge.run_id for nudge in nudges.claim_nudges(uids)] == [live.run_id]
    assert nudges.claim_nudges([]) == []
    assert nudges.open_among([]) == set()


def test_many_at_once(database: Database, make_run: MakeRun) -> None:
    runs, nudges = [make_run() for _ in range(20)], SqlStore(database).claims
    uids = [run.run_uid for run in runs] + [str(uuid4()) for _ in range(2500)]
    assert {nudge.run_id for nudge in nudges.claim_nudges(uids)} == {run.run_id for run in runs}
    assert nudges.open_among(uids) == {run.run_uid for run in runs}


def test_watchers_that_see_the_same_change_nudge_once(database: Database, make_run: MakeRun) -> None:
    uids, together = [make_run().run_uid for _ in range(20)], threading.Barrier(6)

    def nudge(mine: list[str]) -> list[Nudge]:
        together.wait(timeout=30)
        return SqlStore(database).claims.claim_nudges(mine)

    with ThreadPoolExecutor(6) as pool:
        claimed = [nudge for each in pool.map(nudge, [uids, uids[::-1], uids[5:15]] * 2) for nudge in each]
    assert sorted(nudge.run_uid for nudge in claimed) == sorted(uids)
