"""A run with two limited labels never began: each new run asked for its permit itself, and took the label that had
room. Only the dispatcher's plan kept the places of the run."""

from datetime import timedelta

import pytest

from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.limits.rules import Hold
from crawler_lifecycle.model.deployment import Deployment
from crawler_lifecycle.model.records import RunRecord
from crawler_lifecycle.model.states import RunStatus, TaskStatus
from crawler_lifecycle.model.task_changes import TaskChange
from crawler_lifecycle.runs.ports import Claim
from tests.kit.data.databases import MakeRun, ref_to

pytestmark = pytest.mark.regression(
    "A run with two limited labels never began: each new run took the label that had room"
)

MINUTE = timedelta(minutes=1)
A, B = "site:a", "tenant:b"
ROUNDS = 3


@pytest.fixture
def store(database: Database) -> SqlStore:
    store = SqlStore(database)
    for label in (A, B):
        store.limits.change(f"label:{label}", {"runs": 1}, None)
    return store


def begin(store: SqlStore, run: RunRecord) -> Hold | None:
    """Return what holds the run; None if its main job is deployed now."""
    claim = store.claims.claim_main(ref_to(run), f"supervisor:{run.epoch}", MINUTE)
    if isinstance(claim, Claim):
        store.claims.deployed(claim, Deployment(key=claim.request.key, job_name="j", job_uid="u", created=True))
        return None
    assert claim
    return claim


def end(store: SqlStore, run: RunRecord) -> None:
    (row,) = store.tasks.rows(run.run_id, [0])
    change = TaskChange(task=0, attempt=1, version=row.version, status=TaskStatus.SUCCEEDED, job_uid=row.job_uid)
    assert store.tasks.sync(ref_to(run), [change]) == 1
    store.runs.close(ref_to(run), RunStatus.COMPLETED, "a test")


@pytest.mark.parametrize("by_dispatcher", [True, False])
def test_a_run_with_two_labels_begins_although_new_runs_ask_in_turns(
    store: SqlStore, make_run: MakeRun, *, by_dispatcher: bool
) -> None:
    """In each round a new run asks for the label that has room, and then the run with the other label ends."""
    busy = {A: make_run(labels=[A])}
    assert begin(store, busy[A]) is None
    both = make_run(labels=[A, B])
    assert begin(store, both)
    for label, other in ((B, A), (A, B)) * ROUNDS:
        new = make_run(labels=[label])
        if begin(store, new) is None:
            busy[label] = new
        end(store, busy.pop(other))
        begun = [claim.run_id for claim in store.claims.claim_tasks("dispatcher", MINUTE, 8 if by_dispatcher else 0)]
        if both.run_id in begun or (not by_dispatcher and begin(store, both) is None):
            return
    raise AssertionError("the run with two labels has not begun")


def test_a_new_run_learns_that_others_are_before_it(store: SqlStore, make_run: MakeRun) -> None:
    assert begin(store, make_run(labels=[A])) is None
    assert begin(store, make_run(labels=[A, B]))
    other = make_run(labels=[B])
    assert begin(store, other) == Hold(
        "admission", f"label:{B}", f"other runs are ahead of this run in the line for label {B}"
    )
    assert begin(store, make_run()) is None, "it has no limited label"
    assert store.claims.claim_tasks("dispatcher", MINUTE, 8) == []
    assert store.records.overview(other.run_id).run.held_by == f"label:{B}"


def test_a_higher_priority_comes_before_the_places_that_are_kept(store: SqlStore, make_run: MakeRun) -> None:
    assert begin(store, make_run(labels=[A])) is None
    assert begin(store, make_run(labels=[A, B]))
    assert begin(store, make_run(labels=[B], priority=1)) is None


def test_a_run_in_line_without_a_supervisor_holds_up_nobody(
    store: SqlStore, make_run: MakeRun, database: Database
) -> None:
    """Its row may be that of a backup: no dispatcher would ever deploy its main task."""
    assert begin(store, make_run(labels=[A])) is None
    forgotten = make_run(labels=[A, B])
    assert begin(store, forgotten)
    store.runs.mark_look(
        ref_to(forgotten), 0, known=True, problem=None, next_look_at=forgotten.created_at - MINUTE * 60
    )
    assert begin(store, make_run(labels=[B])) is None


def test_a_run_that_needs_two_places_gets_them_although_new_runs_ask(store: SqlStore, make_run: MakeRun) -> None:
    store.limits.change("installation", {"tasks": 4}, None)
    busy = [make_run() for _ in range(3)]
    assert [begin(store, run) for run in busy] == [None] * 3
    two = make_run(2)
    assert begin(store, two)
    for run in busy[:2]:
        end(store, run)
        hold = begin(store, make_run())
        assert hold
    assert begin(store, two) is None
