"""Does a run get its permit in its turn, and does no crash leak a permit or exceed a limit?"""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import pytest
from sqlalchemy import func, select, update

from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.database.schema import histories, task_histories
from crawler_lifecycle.errors import NotFound
from crawler_lifecycle.limits.rules import Hold
from crawler_lifecycle.model.deployment import Deployment
from crawler_lifecycle.model.limits import INSTALLATION, LimitRecord
from crawler_lifecycle.model.records import Place, RunOverview, RunRecord
from crawler_lifecycle.model.requests import StopRequest
from crawler_lifecycle.model.run_plan import RunRef
from crawler_lifecycle.model.states import IN_CLUSTER, RunStatus, TaskStatus
from crawler_lifecycle.model.task_changes import TaskChange
from crawler_lifecycle.runs.ports import Claim, SupervisorExecution
from crawler_lifecycle.runs.store import passes
from tests.kit.data.databases import MakeRun, give_away, ref_to

MINUTE, EXPIRED, LONG_EXPIRED = timedelta(minutes=1), timedelta(seconds=-1), timedelta(seconds=-61)
SITE, TENANT = "label:site:a", "label:tenant:acme"
LABELS = ["site:a", "tenant:acme"]
DISPATCHER = "dispatcher"


@pytest.fixture
def store(database: Database) -> SqlStore:
    return SqlStore(database)


def begin(store: SqlStore, run: RunRecord) -> Claim | Hold | None:
    """As the activity of the run's workflow does."""
    return store.claims.claim_main(ref_to(run), f"supervisor:{run.epoch}", MINUTE)


def deployed(store: SqlStore, claim: Claim | Hold | None) -> Claim:
    assert isinstance(claim, Claim)
    job = Deployment(key=claim.request.key, job_name="job", job_uid=claim.request.key, created=True)
    store.claims.deployed(claim, job)
    return claim


def finish(store: SqlStore, run: RunRef, task: int, status: TaskStatus = TaskStatus.SUCCEEDED) -> None:
    (row,) = store.tasks.rows(run.run_id, [task])
    change = TaskChange(task=task, attempt=row.attempt, version=row.version, status=status, job_uid=row.job_uid)
    assert store.tasks.sync(run, [change]) == 1


def close(store: SqlStore, run: RunRef, status: RunStatus = RunStatus.COMPLETED) -> None:
    store.runs.close(run, status, "a test")


def look(store: SqlStore, run: RunRecord) -> RunOverview:
    return store.records.overview(run.run_id)


def limits(store: SqlStore, scope: str = INSTALLATION) -> LimitRecord:
    return next(record for record in store.limits.all() if record.scope == scope)


def pass_on(store: SqlStore, most: int = 8) -> list[tuple[int, int]]:
    return [(claim.run_id, claim.task) for claim in store.claims.claim_tasks(DISPATCHER, MINUTE, most)]


@pytest.mark.parametrize("reading", ["obstacle_for", "situation"])
def test_no_permit_is_older_than_the_end_that_made_room(
    store: SqlStore, database: Database, make_run: MakeRun, monkeypatch: pytest.MonkeyPatch, reading: str
) -> None:
    """An end that came between the lock and the reading was later than the permit: the limit seemed to be exceeded."""
    store.limits.change(SITE, {"runs": 1}, "ann")
    first, second = make_run(labels=LABELS), make_run(labels=LABELS)
    begin(store, first)
    assert isinstance(begin(store, second), Hold)
    finish(store, ref_to(first), 0)
    close(store, ref_to(first))
    ticks, ends = count(), list[datetime]()
    began_at = datetime.now(UTC)
    monkeypatch.setattr(database, "clock", lambda: began_at + timedelta(seconds=next(ticks)))
    read = getattr(passes, reading)

    def after_an_end(*arguments: Any) -> Any:
        ends.append(database.clock())
        return read(*arguments)

    monkeypatch.setattr(passes, reading, after_an_end)
    if reading == "obstacle_for":
        assert isinstance(begin(store, second), Claim)
    else:
        assert pass_on(store) == [(second.run_id, 0)]
    admitted_at = look(store, second).run.admitted_at
    assert admitted_at is not None
    assert admitted_at > ends[0]


def test_a_run_in_the_line_says_what_holds_it_and_begins_in_its_turn(store: SqlStore, make_run: MakeRun) -> None:
    store.limits.change(SITE, {"runs": 1}, "ann")
    first, second, third, other = (make_run(labels=labels) for labels in (LABELS, LABELS, LABELS, []))
    deployed(store, begin(store, first))
    hold = Hold("admission", SITE, "label site:a is at its limit of 1 run")
    assert (begin(store, second), begin(store, third)) == (hold, hold)
    assert isinstance(begin(store, other), Claim), "it has no label"
    held = look(store, third)
    assert (held.run.waiting_cause, held.run.waiting_message) == (hold.cause, hold.message)
    assert (held.run.held_by, held.place, held.run.admitted_at) == (SITE, Place(number=2, length=2), None)
    assert (limits(store, SITE).runs_begun, limits(store, SITE).runs_held) == (1, 2)
    assert pass_on(store) == []
    finish(store, ref_to(first), 0)
    close(store, ref_to(first))
    assert pass_on(store) == [(second.run_id, 0)]
    admitted = look(store, second)
    assert (admitted.run.waiting_cause, admitted.place) == (None, None)
    assert admitted.run.admitted_at
    assert look(store, third).place == Place(number=1, length=1)


def test_a_hold_that_stays_keeps_its_time_and_changes_no_row(store: SqlStore, make_run: MakeRun) -> None:
    store.limits.change(SITE, {"runs": 1}, None)
    first, second = make_run(labels=LABELS), make_run(labels=LABELS)
    deployed(store, begin(store, first))
    begin(store, second)
    before = look(store, second).run
    assert pass_on(store) == []
    assert look(store, second).run == before
    store.limits.pause(SITE, "too slow", "ann")
    assert pass_on(store) == []
    paused = look(store, second).run
    assert (paused.waiting_cause, paused.waiting_message) == ("paused", "label site:a is paused: too slow")
    assert paused.waiting_since
    assert before.waiting_since
    assert paused.waiting_since > before.waiting_since


def test_nobody_overtakes_the_line(store: SqlStore, make_run: MakeRun) -> None:
    """Also while no dispatcher lives: the first run of the line begins at its own next try."""
    store.limits.change(SITE, {"runs": 1}, None)
    first, second, third = (make_run(labels=LABELS) for _ in range(3))
    deployed(store, begin(store, first))
    assert isinstance(begin(store, second), Hold)
    finish(store, ref_to(first), 0)
    close(store, ref_to(first))
    assert begin(store, third) == Hold(
        "admission", SITE, "other runs are ahead of this run in the line for label site:a"
    )
    assert isinstance(begin(store, second), Claim)


def test_a_run_of_another_installation_has_no_place(store: SqlStore, database: Database, make_run: MakeRun) -> None:
    store.limits.pause(INSTALLATION, "maintenance", None)
    run = make_run()
    assert isinstance(begin(store, run), Hold)
    with database.transaction() as connection:
        connection.execute(update(histories).where(histories.c.id == run.run_id).values(installation="another"))
    assert look(store, run).place is None


def test_a_higher_priority_is_admitted_first(store: SqlStore, make_run: MakeRun) -> None:
    store.limits.pause(INSTALLATION, "maintenance", None)
    low, high = make_run(), make_run(priority=7)
    assert isinstance(begin(store, low), Hold)
    assert isinstance(begin(store, high), Hold)
    assert look(store, high).place == Place(number=1, length=2)
    store.limits.change(INSTALLATION, {"runs": 1}, None)
    store.limits.resume(INSTALLATION, None)
    assert pass_on(store) == [(high.run_id, 0)]


def test_a_pause_deploys_nothing_new_and_running_work_goes_on(store: SqlStore, make_run: MakeRun) -> None:
    run = make_run(3)
    deployed(store, begin(store, run))
    store.runs.mark_started(ref_to(run))
    store.limits.pause("crawler:books", "the shop has asked for it", "ann")
    assert pass_on(store) == []
    details = store.records.details(run.run_id)
    assert ([task.cause for task in details.tasks], details.run.held_by) == (
        [None, "paused", "paused"],
        "crawler:books",
    )
    paused = limits(store, "crawler:books")
    assert (paused.paused_by, paused.paused_reason) == ("ann", "the shop has asked for it")
    store.limits.pause("crawler:books", "for a week", "bob")
    assert limits(store, "crawler:books").paused_at == paused.paused_at
    store.limits.resume("crawler:books", "bob")
    assert pass_on(store) == [(run.run_id, 1), (run.run_id, 2)]
    assert look(store, run).run.held_by is None
    with pytest.raises(NotFound, match="crawler books is not paused"):
        store.limits.resume("crawler:books", "bob")
    with pytest.raises(NotFound, match="label site:nowhere is not paused"):
        store.limits.resume("label:site:nowhere", "bob")
    assert "label:site:nowhere" not in [record.scope for record in store.limits.all()]


def test_a_claim_that_is_left_over_is_taken_again_in_a_full_cluster(store: SqlStore, make_run: MakeRun) -> None:
    """Its job may exist already: it has its place."""
    store.limits.change(INSTALLATION, {"tasks": 2}, None)
    run = make_run(2)
    deployed(store, begin(store, run))
    store.runs.mark_started(ref_to(run))
    assert [claim.task for claim in store.claims.claim_tasks("dead", EXPIRED, 8)] == [1]
    assert pass_on(store) == [(run.run_id, 1)]
    assert limits(store).tasks_in_cluster == 2


def test_in_a_pause_a_claim_that_is_left_over_is_taken_only_to_find_its_job(store: SqlStore, make_run: MakeRun) -> None:
    """The claim is free when its request has arrived or never will. The claims of other runs do not wait for this."""
    run, other = make_run(3, labels=LABELS), make_run(2)
    for begun in (run, other):
        deployed(store, begin(store, begun))
        store.runs.mark_started(ref_to(begun))
    store.claims.claim_tasks("early", EXPIRED, 8)
    store.limits.pause(SITE, "a test", None)
    assert pass_on(store) == [(other.run_id, 1)]
    store.limits.resume(SITE, None)
    store.claims.claim_tasks("dead", LONG_EXPIRED, 8)
    store.limits.pause(SITE, "a test", None)
    present, absent, _ = store.claims.claim_tasks(DISPATCHER, MINUTE, 8)
    hold = Hold("paused", SITE, "label site:a is paused: a test")
    assert [(claim.task, claim.hold) for claim in (present, absent)] == [(1, hold), (2, hold)]
    assert pass_on(store) == [(other.run_id, 1)], "only its own claim without a hold"
    deployed(store, present)
    store.claims.put_back(absent, hold)
    assert pass_on(store) == [(other.run_id, 1)]
    tasks = store.records.details(run.run_id).tasks
    assert [(task.status, task.cause) for task in tasks[1:]] == [("PENDING", None), ("QUEUED", "paused")]
    assert (look(store, run).run.held_by, limits(store, SITE).tasks_in_cluster) == (SITE, 2)
    store.claims.put_back(absent, hold)
    store.limits.resume(SITE, None)
    assert (run.run_id, 2) in pass_on(store)


def test_a_lost_claim_puts_no_task_back(store: SqlStore, make_run: MakeRun) -> None:
    run = make_run()
    store.claims.claim_main(ref_to(run), "dead", LONG_EXPIRED)
    store.limits.pause(SITE, "of other runs", None)
    store.limits.pause(INSTALLATION, "a test", None)
    late = store.claims.claim_main(ref_to(run), "late", LONG_EXPIRED)
    own = store.claims.claim_main(ref_to(run), "own", MINUTE)
    assert isinstance(late, Claim)
    assert isinstance(own, Claim)
    assert late.hold
    store.claims.put_back(late, late.hold)
    assert store.records.details(run.run_id).tasks[0].status is TaskStatus.DEPLOYING
    assert limits(store).runs_begun == 1
    deployed(store, own)
    store.claims.put_back(own, late.hold)
    assert store.records.details(run.run_id).tasks[0].status is TaskStatus.PENDING
    assert look(store, run).run.admitted_at


def test_a_claim_counts_whoever_has_it_and_however_late(store: SqlStore, make_run: MakeRun) -> None:
    """A cap of 6 was exceeded where a caller's own claims, or those that ran out, did not count."""
    store.limits.change(INSTALLATION, {"tasks": 6}, None)
    run = make_run(50)
    deployed(store, begin(store, run))
    store.runs.mark_started(ref_to(run))
    for token, expires_in in (("a", EXPIRED), ("b", MINUTE), ("a", MINUTE), ("c", EXPIRED), ("c", MINUTE)):
        store.claims.claim_tasks(token, expires_in, 4)
        assert limits(store).tasks_in_cluster <= 6
    assert limits(store).tasks_in_cluster == 6


def test_a_refused_main_job_of_a_run_in_the_line_nudges_its_workflow(store: SqlStore, make_run: MakeRun) -> None:
    store.limits.pause(SITE, "a test", None)
    run = make_run(labels=LABELS)
    begin(store, run)
    store.limits.resume(SITE, None)
    (claim,) = store.claims.claim_tasks(DISPATCHER, MINUTE, 8)
    store.claims.failed(claim, "bad_image", "no such image", refused=True)
    assert [nudge.run_id for nudge in store.claims.unanswered_nudges()] == [run.run_id]
    assert begin(store, run) is None


def test_a_reopened_run_waits_for_a_permit_again(store: SqlStore, make_run: MakeRun) -> None:
    store.limits.change(SITE, {"runs": 1}, None)
    run, other = make_run(2, labels=LABELS), make_run(labels=LABELS)
    deployed(store, begin(store, run))
    store.runs.mark_started(ref_to(run))
    assert pass_on(store) == [(run.run_id, 1)]
    finish(store, ref_to(run), 0)
    finish(store, ref_to(run), 1, TaskStatus.FAILED)
    close(store, ref_to(run), RunStatus.FAILED)
    deployed(store, begin(store, other))
    again = store.runs.reopen(run.run_id, SupervisorExecution(run.workflow_id, "next", datetime.now(UTC)))
    assert (again.status, again.admitted_at) == (RunStatus.PROCESSING, None)
    assert pass_on(store) == []
    held = look(store, run)
    assert held.place == Place(number=1, length=1)
    assert (held.run.waiting_cause, held.run.held_by) == ("admission", SITE)
    assert held.run.waiting_message == "label site:a is at its limit of 1 run"
    assert held.run.waiting_since
    assert store.records.details(run.run_id).tasks[1].cause == "admission"
    assert pass_on(store) == []
    assert look(store, run).run == held.run, "no row changes"
    finish(store, ref_to(other), 0)
    close(store, ref_to(other))
    assert pass_on(store) == [(run.run_id, 1)]
    assert (look(store, run).run.waiting_cause, look(store, run).place) == (None, None)


def test_a_reopened_run_that_gets_its_permit_for_a_part_of_its_tasks_waits_no_more(
    store: SqlStore, make_run: MakeRun
) -> None:
    run = make_run(4)
    deployed(store, begin(store, run))
    store.runs.mark_started(ref_to(run))
    pass_on(store)
    finish(store, ref_to(run), 0)
    for task in (1, 2, 3):
        finish(store, ref_to(run), task, TaskStatus.FAILED)
    close(store, ref_to(run), RunStatus.FAILED)
    store.runs.reopen(run.run_id, SupervisorExecution(run.workflow_id, "next", datetime.now(UTC)))
    store.limits.pause(INSTALLATION, "a test", None)
    assert pass_on(store) == []
    assert look(store, run).run.waiting_cause == "paused"
    store.limits.resume(INSTALLATION, None)
    store.limits.change(INSTALLATION, {"tasks": 2}, None)
    assert pass_on(store) == [(run.run_id, 1), (run.run_id, 2)]
    begun = look(store, run).run
    assert (begun.waiting_cause, begun.held_by, bool(begun.admitted_at)) == (None, INSTALLATION, True)


def test_child_tasks_of_a_run_in_the_line_wait_for_the_start_of_its_main_job(
    store: SqlStore, make_run: MakeRun
) -> None:
    """The dispatcher deployed them together with the main task."""
    store.limits.pause(INSTALLATION, "a test", None)
    run = make_run(3)
    begin(store, run)
    store.limits.resume(INSTALLATION, None)
    assert pass_on(store) == [(run.run_id, 0)]
    assert pass_on(store) == [(run.run_id, 0)], "its own claim, taken again"
    store.runs.mark_started(ref_to(run))
    assert pass_on(store) == [(run.run_id, 0), (run.run_id, 1), (run.run_id, 2)]


def test_a_stopped_run_leaves_the_line(store: SqlStore, make_run: MakeRun) -> None:
    store.limits.pause(INSTALLATION, "a test", None)
    first, second = make_run(), make_run()
    begin(store, first)
    begin(store, second)
    store.runs.request_stop(first.run_id, StopRequest(), datetime.now(UTC))
    assert look(store, second).place == Place(number=1, length=1)
    stopping = look(store, first)
    assert (stopping.place, stopping.run.held_by, stopping.run.waiting_cause) == (None, None, None)
    store.tasks.cancel_queued(ref_to(first), "stopped")
    store.runs.close(ref_to(first), RunStatus.FAILED, "stopped")
    closed = look(store, first).run
    assert (closed.held_by, closed.waiting_cause, closed.admitted_at) == (None, None, None)


def test_a_value_is_set_and_taken_away_and_the_setting_holds_without_one(database: Database) -> None:
    store = SqlStore(database, 77)
    assert (limits(store).tasks, limits(store).changed_at) == (77, None)
    store.limits.change(INSTALLATION, {"tasks": 5, "runs": 3}, "ann")
    changed = limits(store)
    assert (changed.tasks, changed.runs, changed.changed_by) == (5, 3, "ann")
    store.limits.change(INSTALLATION, {"tasks": None}, "bob")
    assert (limits(store).tasks, limits(store).runs, limits(store).changed_by) == (77, 3, "bob")
    store.limits.change(SITE, {"weight": 3}, None)
    store.limits.change(SITE, {"weight": None}, None)
    assert [record.scope for record in store.limits.all()] == [INSTALLATION]


def test_runs_of_another_installation_use_no_limit(store: SqlStore, make_run: MakeRun, database_url: str) -> None:
    store.limits.change(INSTALLATION, {"runs": 1}, None)
    deployed(store, begin(store, make_run()))
    give_away(database_url)
    store.limits.correct_sums()
    assert limits(store).runs_begun == 0
    assert isinstance(begin(store, make_run()), Claim)


def test_many_supervisors_and_dispatchers_at_once_exceed_no_limit(store: SqlStore, make_run: MakeRun) -> None:
    store.limits.change(SITE, {"runs": 5}, None)
    store.limits.change(INSTALLATION, {"tasks": 12}, None)
    runs = [make_run(3, labels=LABELS if number % 2 else []) for number in range(24)]
    with ThreadPoolExecutor(8) as pool:
        begun = list(pool.map(lambda run: begin(store, run), runs))
    for run, claim in zip(runs, begun, strict=True):
        if isinstance(claim, Claim):
            deployed(store, claim)
            store.runs.mark_started(ref_to(run))
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: store.claims.claim_tasks(f"dispatcher {n}", MINUTE, 3), range(8)))
    assert limits(store, SITE).runs_begun <= 5
    assert limits(store).tasks_in_cluster == 12
    assert sum(isinstance(claim, Claim) for claim in begun) == 6, "each with the place for a child task"


def test_tenants_get_their_shares_by_weight(store: SqlStore, make_run: MakeRun) -> None:
    weights = {"tenant:acme": 3, "tenant:other": 1}
    for label, weight in weights.items():
        store.limits.change(f"label:{label}", {"weight": weight}, None)
    store.limits.pause(INSTALLATION, "until all are in line", None)
    runs = [make_run(labels=[label]) for label in weights for _ in range(12)]
    for run in runs:
        assert isinstance(begin(store, run), Hold)
    store.limits.resume(INSTALLATION, None)
    store.limits.change(INSTALLATION, {"tasks": 13}, None)
    tenants = {run.run_id: run.request.labels[0] for run in runs}
    claims = [deployed(store, claim) for claim in store.claims.claim_tasks(DISPATCHER, MINUTE, 100)]
    assert Counter(tenants[claim.run_id] for claim in claims) == {"tenant:acme": 9, "tenant:other": 3}
    for run in (runs[0], runs[12], runs[13]):  # one run of the larger share, and two of the smaller share
        finish(store, ref_to(run), 0)
        close(store, ref_to(run))
    again = Counter(tenants[run_id] for run_id, _ in pass_on(store, most=100))
    assert again == {"tenant:acme": 1, "tenant:other": 2}


def test_a_run_of_ten_thousand_tasks_does_not_hold_up_a_small_one(store: SqlStore, make_run: MakeRun) -> None:
    """Places become free one by one. The small run's tasks are among the next three that are deployed."""
    store.limits.change(INSTALLATION, {"tasks": 20}, None)
    big, small = make_run(10_000), make_run(2)
    deployed(store, begin(store, big))
    store.runs.mark_started(ref_to(big))
    for claim in store.claims.claim_tasks(DISPATCHER, MINUTE, 100):
        deployed(store, claim)
    assert isinstance(begin(store, small), Hold)
    grants = list[tuple[int, int]]()
    for task in range(1, 6):
        finish(store, ref_to(big), task)
        for claim in store.claims.claim_tasks(DISPATCHER, MINUTE, 100):
            grants.append((claim.run_id, claim.task))
            deployed(store, claim)
            if claim.run_id == small.run_id:
                store.runs.mark_started(ref_to(small))
        assert limits(store).tasks_in_cluster <= 20
    assert grants[0] == (small.run_id, 0), "both places are kept for the small run"
    assert (small.run_id, 1) in grants[:3]
    assert {run_id for run_id, _ in grants[3:]} == {big.run_id}


@pytest.mark.system
@pytest.mark.timeout(600)
def test_three_hundred_runs_of_two_levels_complete_on_two_hundred_places(
    store: SqlStore, make_run: MakeRun, database: Database
) -> None:
    """Each main job waits for its child task: main jobs alone must never fill the limit."""
    most, runs = 200, {run.run_id: ref_to(run) for run in (make_run(2) for _ in range(300))}
    store.limits.change(INSTALLATION, {"tasks": most}, None)
    children = list[RunRef]()

    def deploy(claim: Claim | Hold | None) -> None:
        if not isinstance(claim, Claim):
            return
        deployed(store, claim)
        if claim.task:
            children.append(runs[claim.run_id])
        else:
            store.runs.mark_started(runs[claim.run_id])
        assert _in_cluster(database) <= most

    for ref in runs.values():
        deploy(store.claims.claim_main(ref, f"supervisor:{ref.epoch}", MINUTE))
    assert _in_cluster(database) == most // 2, "each with the place for its child task"
    while claims := store.claims.claim_tasks(DISPATCHER, MINUTE, 40):
        assert _in_cluster(database) <= most
        for claim in claims:
            deploy(claim)
        while len(children) > 30:  # later ones run on while the next are deployed
            _complete(store, children.pop(0))
    for ref in children:
        _complete(store, ref)
    assert {summary.status for summary in store.records.summaries(list(runs))} == {RunStatus.COMPLETED}
    assert (limits(store).runs_begun, limits(store).tasks_in_cluster, limits(store).runs_held) == (0, 0, 0)


def _complete(store: SqlStore, run: RunRef) -> None:
    finish(store, run, 1)
    finish(store, run, 0)
    close(store, run)


def _in_cluster(database: Database) -> int:
    with database.read() as connection:
        is_there = task_histories.c.status.in_(IN_CLUSTER)
        return connection.execute(select(func.count()).select_from(task_histories).where(is_there)).scalar_one()
