"""The ledger for crawl managers: parameter sets, starts, ends with their reactions, and the manager's own life."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import func, select, update

from crawler_lifecycle.database.database import Database
from crawler_lifecycle.database.manager_schema import manager_attempts, manager_items
from crawler_lifecycle.database.schema import histories
from crawler_lifecycle.errors import Conflict, Fenced
from crawler_lifecycle.flows.model.requests import AddItems
from crawler_lifecycle.flows.model.turns import (
    GENERATOR_CHANGED,
    SCHEDULED,
    Counts,
    Effects,
    ManagerIntent,
    Page,
    Reaction,
    Retry,
)
from crawler_lifecycle.flows.rules.ends import Refusal
from crawler_lifecycle.managers.ports import ManagerRef
from crawler_lifecycle.model.manager_items import CodeProblem, Item, ItemState, JobFilter, JobState, Verdict
from crawler_lifecycle.model.records import RunFilter
from crawler_lifecycle.model.requests import RunRequest
from crawler_lifecycle.model.states import RunStatus
from crawler_lifecycle.runs.ports import NewRun
from tests.kit.data.flows import BOOKS, CANCELLED
from tests.kit.data.managers import MANAGER, Managed, added, item, managed, numbers, reopened
from tests.kit.data.statements import counted

LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)
FAILURE = CodeProblem(phase="bad_outcome_hook", job="key", error="Traceback\nValueError: no", failures=5)


@pytest.fixture
def flow(database: Database) -> Managed:
    return managed(database)


def counts(flow: Managed) -> dict[str, int]:
    shown: Counts = flow.managers.counts(flow.mine)
    return {name: number for name, number in shown.model_dump().items() if number}


# life


def test_a_manager_begins_with_its_flow_and_its_command_line(flow: Managed) -> None:
    begun = flow.begun()
    assert (begun.flow_id, begun.flow_uid, begun.name, begun.family) == ("shops/nightly", flow.uid, "nightly", "shops")
    assert (begun.arguments, begun.incarnation, begun.is_closed) == (("--own", "3"), 1, False)


def test_a_second_object_is_an_incarnation_and_a_repeated_call_is_none(flow: Managed) -> None:
    flow.commit(state={"seen": 3}, tags=("k=v", "k=v"), stats={"pages": 2.5})
    first = flow.begun().first_began_at
    second = flow.managers.begin(flow.mine, "child-2")
    assert flow.managers.begin(flow.mine, "child-2").incarnation == second.incarnation == 2
    assert (second.state, second.tags, second.stats) == ({"seen": 3}, ("k=v",), {"pages": 2.5})
    assert second.first_began_at == first


def test_a_host_without_the_begin_writes_nothing(flow: Managed) -> None:
    flow.offer("a")
    (chosen,) = flow.waiting()
    other = flow.begun_by("other")
    with pytest.raises(Fenced):
        flow.managers.begin(flow.mine, "child-9")
    flow.managers.begin(other, "child-2")
    for act in (
        lambda: flow.offer("b", read=2),
        lambda: flow.commit(added("c")),
        lambda: flow.start_items(chosen),
        lambda: flow.managers.intent(flow.mine),
        lambda: flow.managers.close(flow.mine, "finished", Effects(), 0),
        flow.ended,
    ):
        with pytest.raises(Fenced):
            act()
    assert flow.managers.counts(other).waiting == 1


def test_an_end_stays_within_its_attempt_and_a_later_attempt_begins_anew(flow: Managed) -> None:
    flow.offer("a")
    flow.managers.close(flow.mine, "done", Effects(add=(added("b"),), lines=("good night",)), 0)
    flow.managers.close(flow.mine, "other", Effects(), 0)
    assert counts(flow) == {"cancelled": 2}
    begun = flow.managers.begin(flow.mine, "child-2")
    assert (begun.is_closed, begun.close_reason) == (True, "done")
    assert flow.events[-2:] == ["manager", "closed"]
    flow.end(flow.last("manager"))
    flow.retry("manager", completed=True)
    flow.go_on()
    again = flow.managers.begin(ManagerRef(flow.uid, MANAGER, 2, "host"), "child-3")
    assert (again.is_closed, again.close_reason, again.incarnation) == (False, None, 3)
    assert again.first_began_at > begun.first_began_at


def test_people_pause_drain_stop_and_leave_a_manager(flow: Managed) -> None:
    assert flow.managers.intent(flow.mine) is ManagerIntent.RUN
    for hold, intent in (("pause", ManagerIntent.PAUSE), ("drain", ManagerIntent.DRAIN), ("run", ManagerIntent.RUN)):
        flow.hold(hold)
        assert flow.managers.intent(flow.mine) is intent
    flow.cancel("manager")
    assert flow.managers.intent(flow.mine) is ManagerIntent.STOP


def test_a_cancel_without_the_end_of_crawls_leaves_them(flow: Managed) -> None:
    flow.cancel("manager", terminate=False)
    assert flow.managers.intent(flow.mine) is ManagerIntent.LEAVE


@pytest.mark.parametrize(("terminate", "intent"), [(True, ManagerIntent.STOP), (False, ManagerIntent.LEAVE)])
def test_a_retry_during_a_stop_is_for_the_next_attempt(flow: Managed, terminate: bool, intent: ManagerIntent) -> None:
    flow.offer("a", "b")
    chosen = flow.waiting()[0]
    flow.cancel("manager", terminate=terminate)
    flow.retry("manager")
    (news,) = flow.managers.news("host", LONG_AGO)
    assert [flow.managers.intent(flow.mine), news.intent] == [intent, intent]
    assert flow.start_items(chosen).stale == [1]
    flow.managers.close(flow.mine, "cancelled", Effects(), 0)
    assert counts(flow) == {"waiting": 2}, "the next attempt starts the items"
    flow.end(flow.last("manager"), kind=CANCELLED)
    while not flow.go_on().is_empty:
        pass
    flow.ref_to_manager = ManagerRef(flow.uid, MANAGER, 2, "host")
    assert not flow.begun("child-2").is_closed
    assert flow.managers.intent(flow.mine) is ManagerIntent.RUN
    assert numbers(start.job for start in flow.start_items(*flow.waiting()).started) == [1, 2]


def test_a_close_after_a_further_door_is_refused_unless_people_want_the_end(flow: Managed) -> None:
    request = AddItems(key="late", items=(added("x"),))
    flow.store.manager_doors.add_items(flow.id, request)
    assert flow.managers.close(flow.mine, "finished", Effects(tags=("no",)), 0) == 1
    begun = flow.begun()
    assert (begun.is_closed, begun.tags, counts(flow)) == (False, (), {"waiting": 1})
    flow.hold("drain")
    assert flow.managers.close(flow.mine, "drained", Effects(), 0) is None
    assert counts(flow) == {"cancelled": 1}


def test_a_stop_settles_ends_without_a_reaction(flow: Managed) -> None:
    flow.offer(*"abc")
    for number, status in ((1, RunStatus.FAILED), (2, RunStatus.COMPLETED), (3, RunStatus.COMPLETED)):
        flow.ended_run(flow.started(number), status)
    flow.react(next(job for job in flow.ended() if job.number == 3))
    flow.cancel("manager")
    assert flow.managers.close(flow.mine, "cancelled", Effects(), 0) is None
    assert counts(flow) == {"completed": 2, "failed": 1}
    states = [record.state for record in flow.store.manager_doors.items(flow.id, limit=9)]
    assert states == [ItemState.FAILED, ItemState.COMPLETED, ItemState.COMPLETED]
    assert flow.ended() == []


def test_a_manager_that_leaves_keeps_ends_for_a_later_attempt(flow: Managed) -> None:
    flow.offer("a")
    flow.ended_run(flow.started())
    flow.managers.close(flow.mine, "left", Effects(), 0)
    assert numbers(flow.ended()) == [1]


def test_a_problem_pauses_until_it_is_cleared(flow: Managed) -> None:
    assert flow.managers.problem(flow.mine) is None
    flow.managers.pause(flow.mine, FAILURE)
    flow.managers.pause(flow.mine, FAILURE)
    assert flow.managers.problem(flow.mine) == FAILURE
    assert flow.events.count("failing") == 1
    (news,) = flow.managers.news("host", LONG_AGO)
    assert news.has_problem


# parameter sets


def test_repeats_are_no_items_and_are_counted(flow: Managed) -> None:
    assert flow.offer("a", "b", "a", read=3) == [1, 2, None]
    assert flow.offer("b", "c", read=5) == [None, 3]
    assert counts(flow) == {"waiting": 3, "repeated": 2}
    assert [entry.override["shop"] for entry in flow.waiting()] == ["a", "b", "c"]


def test_a_page_that_is_on_record_changes_nothing(flow: Managed) -> None:
    page = {"cursor": {"at": 2}, "is_exhausted": True, "effects": Effects(stats={"pulled": 1})}
    assert flow.offer("a", "b", read=2, **page) == flow.offer("a", "b", read=2, **page) == [1, 2]
    begun = flow.begun()
    assert (begun.read, begun.cursor, begun.is_exhausted, begun.stats) == (2, {"at": 2}, True, {"pulled": 1})
    assert counts(flow) == {"waiting": 2}


def test_a_digest_stays_until_people_accept_another_generator(flow: Managed) -> None:
    flow.offer("a", read=1, digest="first")
    flow.managers.pause(flow.mine, CodeProblem(phase="workflow_loop", error="no"))
    assert flow.begun().digest == "first"
    flow.managers.pause(flow.mine, CodeProblem(phase=GENERATOR_CHANGED, error="no"))
    assert flow.begun().digest is None


def test_a_page_behind_a_gap_is_refused(flow: Managed) -> None:
    with pytest.raises(Conflict, match="2 parameter sets are missing"):
        flow.offer("c", read=3)


def test_sets_without_keys_are_never_repeats(flow: Managed) -> None:
    page = Page(items=(item("a", None), item("a", None)), read=2)
    assert flow.managers.offer(flow.mine, page).numbers == (1, 2)


def test_a_generator_is_read_again_and_may_have_changed(flow: Managed) -> None:
    flow.offer("a", "b", read=2, cursor="second")
    assert flow.offer("b", "x", read=2, is_reread=True) == [2, 3]
    assert counts(flow) == {"waiting": 3}
    assert flow.begun().read == 2
    assert flow.begun().cursor == "second"


def test_sets_that_come_in_another_order_are_no_repeats(flow: Managed) -> None:
    flow.offer("a", "b", "c", read=3)
    flow.begun("child-2")
    assert flow.offer("e", "a", "d", read=3, is_reread=True) == [4, 1, 5]
    assert counts(flow) == {"waiting": 5}
    assert flow.store.manager_doors.sums([flow.uid])[flow.uid].repeated == 0
    assert flow.offer("c", "b", "a", read=6, is_exhausted=True) == [None, None, None]
    assert counts(flow) == {"waiting": 5, "repeated": 1}, "six sets, a twice"


def test_a_refused_set_is_on_record(flow: Managed) -> None:
    page = Page(items=(Item(override={"shop": None}, key="x", problem="shop: None"),), read=1)
    assert flow.managers.offer(flow.mine, page).numbers == (1,)
    assert counts(flow) == {"refused": 1}
    assert flow.waiting() == []


def test_items_are_chosen_delayed_first_then_added_then_from_the_generator(flow: Managed) -> None:
    flow.offer("a", "b", "c", read=3)
    assert flow.commit(added("d", "start:d"), added("e")) == [4, 5]
    flow.managers.delay(flow.mine, [3])
    assert numbers(flow.waiting()) == [3, 4, 5, 1, 2]
    assert [entry.key for entry in flow.waiting()] == ["c", "start:d", None, "a", "b"]
    assert [entry.is_delayed for entry in flow.waiting(2)] == [True, False]
    first = flow.waiting(2)
    assert numbers(flow.waiting(2, after=first[-1])) == [5, 1]
    assert counts(flow) == {"waiting": 4, "delayed": 1}


def test_a_repeated_commit_has_one_effect(flow: Managed) -> None:
    for _ in range(2):
        assert flow.commit(added("a"), call="first", stats={"n": 1}) == [1]
    assert flow.commit(added("b", "key"), added("c", "key"), call="second") == [2, 2]
    assert flow.commit(added("d", "key"), call="third") == [2]
    assert counts(flow) == {"waiting": 2}
    assert flow.begun().stats == {"n": 1}


def test_pages_over_a_thousand_sets_stay_exact(flow: Managed) -> None:
    names = [f"shop-{number % 1500}" for number in range(3000)]
    assert [number for number in flow.offer(*names, read=3000) if number] == list(range(1, 1501))
    assert counts(flow) == {"waiting": 1500, "repeated": 1500}


# starts and ends


def test_a_start_is_on_record_once_with_its_place_in_the_flow(flow: Managed) -> None:
    flow.offer("a")
    (chosen,) = flow.waiting()
    once, twice = flow.start_items(chosen), flow.start_items(chosen)
    assert once == twice
    (start,) = once.started
    link = start.request.flow
    assert link is not None
    assert (link.flow_uid, link.member, link.attempt, link.manager, link.path) == (flow.uid, 1, 1, 0, "manager/1")
    assert start.job.key == f"flow-{flow.uid}-1-1"
    assert [entry.job.key for entry in flow.managers.unstarted(flow.mine)] == [start.job.key]
    assert flow.managers.unstarted(flow.mine, LONG_AGO) == []
    run = flow.run_of(start)
    assert flow.managers.unstarted(flow.mine) == []
    (job,) = flow.managers.running(flow.mine)
    assert (job.run_id, job.run_uid, job.state) == (run.run_id, run.run_uid, JobState.RUNNING)
    assert counts(flow) == {"running": 1}


def test_nothing_starts_while_people_hold_starts_back(flow: Managed) -> None:
    flow.offer("a")
    (chosen,) = flow.waiting()
    flow.hold("pause")
    assert flow.start_items(chosen).stale == [1]
    flow.hold("run")
    assert not flow.start_items(chosen).stale


def test_items_of_two_managers_do_not_meet(flow: Managed, database: Database) -> None:
    neighbour = managed(database, "shops/other")
    flow.offer("a")
    neighbour.offer("a")
    ended = flow.ended_run(flow.started())
    assert [job.run_id for job in flow.ended()] == [ended.run_id]
    assert (neighbour.ended(), counts(neighbour)) == ([], {"waiting": 1})
    all_flows = flow.managers.jobs(neighbour.mine, JobState.FINISHED, limit=10, every_flow=True)
    assert [job.run_id for job in all_flows] == [ended.run_id]
    assert flow.managers.jobs(neighbour.mine, JobState.FINISHED, limit=10) == []


def test_a_start_counts_once_in_its_own_transaction(flow: Managed) -> None:
    flow.offer("a", "b", read=2)
    for _ in range(2):
        flow.start_items(*flow.waiting())
    assert flow.begun().stats == {SCHEDULED: 2}
    flow.start_items()
    assert flow.begun().stats == {SCHEDULED: 2}


def test_a_request_is_refused_before_its_start(flow: Managed) -> None:
    flow.offer("a")
    for _ in range(2):
        flow.managers.refuse(flow.mine, 1, 1, Refusal("there is no crawler named books"))
    assert counts(flow) == {"refused": 1}
    assert flow.start_items(*flow.waiting()).started == []
    assert SCHEDULED not in flow.begun().stats


def test_an_attempt_with_a_run_is_not_refused(flow: Managed) -> None:
    flow.offer("a")
    flow.run_of(flow.started())
    flow.managers.refuse(flow.mine, 1, 1, Refusal("its workflow was terminated"))
    assert counts(flow) == {"running": 1}


def test_an_end_is_reacted_to_once(flow: Managed) -> None:
    flow.offer("a")
    run = flow.ended_run(flow.started())
    (job,) = flow.ended()
    assert (job.state, job.outcome, job.is_failed, job.run_id) == (JobState.FINISHED, "finished", False, run.run_id)
    assert flow.ended(without=[job.key]) == []
    (news,) = flow.managers.news("host", LONG_AGO)
    assert news.has_ends
    for _ in range(2):
        flow.react(job, effects=Effects(stats={"n": 1}, add=(added("next"),)))
    assert flow.begun().stats == {"n": 1, SCHEDULED: 1}
    assert counts(flow) == {"completed": 1, "waiting": 1}
    assert flow.ended() == []
    assert not flow.managers.news("host", LONG_AGO)[0].has_ends


def test_reactions_go_on_record_together(flow: Managed) -> None:
    """A repeated reaction, and a reaction to an end that is no end any more, change nothing, nor do their effects."""
    flow.offer("a", "b", "c", "d", "e", read=5)
    flow.start_items(*(item for item in flow.waiting() if item.number != 5))
    runs = [flow.ended_run(start, RunStatus.FAILED) for start in flow.managers.unstarted(flow.mine)]
    jobs = flow.ended()
    reopened(flow, runs[3])
    retry = Retry(override={"again": "yes"}, request=jobs[1].request)
    reactions = [
        Reaction(
            number=job.number,
            attempt=job.attempt,
            ended_at=job.ended_at,
            verdict=verdict,
            retry=again,
            effects=Effects(stats={"n": 1}, tags=(f"t{job.number}",), add=(added(f"next-{job.number}"),)),
        )
        for job, verdict, again in zip(
            jobs, [Verdict.OK, Verdict.BAD, Verdict.BAD, Verdict.OK], [None, retry, None, None], strict=True
        )
    ]
    for _ in range(2):
        flow.managers.react(flow.mine, [*reactions, reactions[0]])
    begun = flow.managers.begin(flow.mine, "child-1")
    assert begun.stats == {"n": 3, SCHEDULED: 4}
    assert begun.tags == ("t1", "t2", "t3")
    assert counts(flow) == {"completed": 1, "failed": 1, "running": 1, "waiting": 5}
    again = next(item for item in flow.waiting() if item.number == 2)
    assert (again.attempt, again.override) == (2, {"again": "yes"})
    assert flow.ended() == []


def test_repeats_among_the_additions_of_reactions_are_counted(flow: Managed) -> None:
    flow.offer("a", "b", "c", read=3)
    flow.start_items(*flow.waiting(2))
    for start in flow.managers.unstarted(flow.mine):
        flow.ended_run(start)
    adds = [("b", "d", "d"), ("d", "e", None)]
    reactions = [
        Reaction(
            number=job.number,
            attempt=job.attempt,
            ended_at=job.ended_at,
            verdict=Verdict.OK,
            effects=Effects(add=tuple(added(key or "f", key) for key in keys)),
        )
        for job, keys in zip(flow.ended(), adds, strict=True)
    ]
    for _ in range(2):
        flow.managers.react(flow.mine, reactions)
    assert sorted(str(entry.override["shop"]) for entry in flow.waiting()) == ["c", "d", "e", "f"]
    assert counts(flow) == {"completed": 2, "waiting": 4, "repeated": 3}


def test_a_retry_is_the_next_attempt_of_its_item(flow: Managed) -> None:
    flow.offer("a", "b", read=2)
    flow.ended_run(flow.started(), RunStatus.FAILED)
    (job,) = flow.ended()
    assert job.is_failed
    flow.react(job, Verdict.BAD, delay_seconds=3600)
    assert counts(flow) == {"waiting": 1, "retrying": 1}
    assert numbers(flow.waiting()) == [2]
    with flow.store.managers._db.engine.begin() as connection:  # type: ignore[attr-defined]
        connection.execute(manager_items.update().values(due=LONG_AGO))
    again = flow.waiting()[0]
    assert (again.number, again.attempt, again.tries) == (1, 2, 1)
    news = flow.managers.news("host", LONG_AGO - timedelta(seconds=1))[0]
    assert news.has_due
    start = flow.started(1)
    assert (start.job.attempt, start.job.tries) == (2, 2)
    flow.ended_run(start, RunStatus.FAILED)
    flow.react(flow.ended()[0], Verdict.BAD)
    assert counts(flow) == {"waiting": 1, "failed": 1}


def test_a_reopened_run_has_no_end_until_it_ends_again(flow: Managed) -> None:
    flow.offer("a")
    run = flow.ended_run(flow.started(), RunStatus.FAILED)
    (job,) = flow.ended()
    reopened(flow, run)
    assert flow.ended() == []
    flow.react(job, Verdict.BAD)
    assert counts(flow) == {"running": 1}


def test_a_run_is_not_reopened_behind_the_back_of_its_manager(flow: Managed) -> None:
    flow.offer("a")
    run = flow.ended_run(flow.started(), RunStatus.FAILED)
    flow.react(flow.ended()[0], Verdict.BAD)
    with pytest.raises(Conflict, match="retry the manager's item"):
        reopened(flow, run)


def test_a_refused_start_ends_its_item(flow: Managed) -> None:
    flow.offer("a")
    start = flow.started()
    for _ in range(2):
        flow.managers.refuse(flow.mine, 1, start.job.attempt, Refusal("no such crawler"))
    assert counts(flow) == {"refused": 1}
    assert flow.begun().stats == {SCHEDULED: 0}
    assert flow.managers.running(flow.mine) == flow.managers.unstarted(flow.mine) == flow.ended() == []


def test_a_run_that_comes_after_the_refusal_of_its_attempt_is_not_made(flow: Managed) -> None:
    """An activity of a terminated workflow was still under way: nobody would react to the end of its run."""
    flow.offer("a")
    start = flow.started()
    flow.managers.refuse(flow.mine, 1, start.job.attempt, Refusal("its workflow was terminated", "terminated"))
    with pytest.raises(Conflict, match="was refused before its run"):
        flow.run_of(start)
    (job,) = flow.managers.jobs(flow.mine, JobState.FINISHED, limit=9)
    assert (job.outcome, job.run_id, job.is_failed) == ("terminated", None, True)


def test_jobs_are_listed_and_found(flow: Managed) -> None:
    flow.offer("a", "b", "c", read=3)
    for number in (1, 2, 3):
        flow.ended_run(flow.started(number))
    for job in flow.ended():
        flow.react(job)
    first = flow.managers.jobs(flow.mine, JobState.FINISHED, limit=2)
    assert numbers(first) == [1, 2]
    assert numbers(flow.managers.jobs(flow.mine, JobState.FINISHED, limit=2, after=2)) == [3]
    assert flow.managers.jobs(flow.mine, JobState.RUNNING, limit=2) == []
    known = flow.managers.find(flow.mine, [first[1].key, "flow-x-1-1", "nonsense"])
    assert known == [first[1]]


def test_all_attempts_are_listed_in_pages_of_whole_items(flow: Managed) -> None:
    flow.offer("a", "b", read=2)
    for _ in range(2):
        flow.ended_run(flow.started(1), RunStatus.FAILED)
        (job,) = flow.ended()
        flow.react(job, Verdict.BAD, delay_seconds=0)
    flow.started(1)
    flow.ended_run(flow.started(2))
    listed = flow.managers.jobs(flow.mine, JobState.FINISHED, limit=1)
    assert [(job.number, job.attempt) for job in listed] == [(1, 1), (1, 2)]
    rest = flow.managers.jobs(flow.mine, JobState.FINISHED, limit=1, after=1)
    assert [(job.number, job.attempt) for job in rest] == [(2, 1)]
    running = flow.managers.jobs(flow.mine, JobState.RUNNING, limit=9)
    assert [(job.number, job.attempt) for job in running] == [(1, 3)]


def test_authors_words_texts_and_tags_are_stored_with_their_reaction(flow: Managed) -> None:
    flow.offer("a", "b", read=2)
    for number in (1, 2):
        flow.ended_run(flow.started(number))
    first, second = flow.ended()
    tags = {first.key: ["DONE"], "flow-x-1-1": ["DONE"], "nonsense": ["DONE"]}
    for _ in range(2):
        flow.react(first, outcome="few_items", effects=Effects(texts={"last": "text"}, stats={"n": 1}, job_tags=tags))
    flow.react(second, effects=Effects(texts={"last": "other"}))
    known = flow.managers.find(flow.mine, [first.key, second.key])
    assert [(job.outcome, list(job.request.tags)) for job in known] == [("few_items", ["DONE"]), ("finished", [])]
    assert flow.begun().stats == {"last": "other", "n": 1, SCHEDULED: 2}
    listed = flow.managers.jobs(flow.mine, JobState.FINISHED, limit=9)
    assert [job.key for job in listed if "DONE" in job.request.tags] == [first.key]


def test_lists_find_runs_by_the_new_tags_of_their_jobs(flow: Managed) -> None:
    flow.offer("a", "b", read=2)
    first, second = flow.started(1), flow.started(2)
    early = flow.run_of(first)
    flow.commit(job_tags={start.job.key: ["DONE", "x"] for start in (first, second)})
    late = flow.run_of(second)  # its workflow began before the tags
    flow.commit(job_tags={second.job.key: ["DONE"]}, call="further")
    by_tag = {tag: flow.store.records.page(RunFilter(tag=tag), limit=9) for tag in ("DONE", "x")}
    assert [run.run_id for run in by_tag["DONE"]] == [late.run_id, early.run_id]
    assert [run.run_id for run in by_tag["x"]] == [early.run_id]
    assert {tuple(job.request.tags) for job in flow.managers.runs(flow.mine, JobFilter(limit=9))} == {
        ("DONE", "x"),
        ("DONE",),
    }


def test_tags_of_many_jobs_cost_what_one_costs(flow: Managed, database: Database) -> None:
    flow.offer(*"abcde", read=5)
    starts = [flow.started(number) for number in range(1, 6)]
    early = [flow.run_of(start) for start in starts[:4]]
    tags = {start.job.key: [f"TAG={start.job.number}", "x"] for start in starts}

    def written(of_jobs: dict[str, list[str]]) -> int:
        with counted(database) as statements:
            flow.commit(job_tags=of_jobs, call=f"tags of {len(of_jobs)}")
        return len(statements)

    assert written(tags) == written(dict([*tags.items()][:1]))
    tagged = flow.managers.find(flow.mine, [*tags])
    assert {job.key: list(job.request.tags) for job in tagged} == tags
    for number, run in enumerate(early, start=1):
        assert [row.run_id for row in flow.store.records.page(RunFilter(tag=f"TAG={number}"), limit=9)] == [run.run_id]


def test_all_runs_of_the_installation_are_jobs(flow: Managed) -> None:
    flow.offer("a")
    start = flow.started()
    own = flow.run_of(start)
    request = RunRequest(crawler="toys", arguments={"n": "1"}, labels=["project:7"], tags=["t", "u"], memory_factor=2)
    other = flow.store.runs.create(NewRun(request, BOOKS, 1, "other", "first"))
    flow.close(other, RunStatus.FAILED, "main_job_failed")

    def ids(**chosen: Any) -> list[int | None]:
        return [job.run_id for job in flow.managers.runs(flow.mine, JobFilter(limit=9, **chosen))]

    newest, oldest = flow.managers.runs(flow.mine, JobFilter(limit=9))
    assert (newest.key, newest.number, newest.attempt, newest.is_failed) == ("other", 0, 1, True)
    assert newest.override == {"spider_args": {"n": "1"}, "job_settings": {}, "units": 2}
    assert (newest.state, list(newest.request.labels)) == (JobState.FINISHED, ["project:7"])
    assert (oldest.key, oldest.number, oldest.state) == (start.job.key, 1, JobState.RUNNING)
    assert ids(before=newest.run_id) == ids(states=(JobState.RUNNING,)) == ids(keys=(start.job.key,)) == [own.run_id]
    assert ids(spider="toys") == ids(tags=("t", "u")) == ids(labels=("project:7",)) == [other.run_id]
    assert ids(tags=("t", "v")) == []


def test_a_job_runs_as_soon_as_its_main_job_does(flow: Managed, database: Database) -> None:
    flow.offer("a")
    start = flow.started()
    run = flow.run_of(start)
    assert [job.running_at for job in flow.managers.running(flow.mine)] == [None]
    with database.transaction() as tx:
        tx.execute(update(histories).where(histories.c.id == run.run_id).values(started_at=LONG_AGO))
    (listed,) = flow.managers.jobs(flow.mine, JobState.RUNNING, limit=1)
    (by_key,) = flow.managers.find(flow.mine, [start.job.key])
    assert listed.running_at == by_key.running_at == LONG_AGO != by_key.started_at


def test_pruning_deletes_a_manager_with_its_items(flow: Managed, database: Database) -> None:
    flow.offer("a")
    flow.started()
    flow.cancel()
    flow.end(flow.last("manager"), kind=CANCELLED)
    while not flow.go_on().is_empty:
        pass
    assert flow.store.flow_doors.prune([flow.uid]) == 1
    with database.engine.connect() as connection:
        for table in (manager_items, manager_attempts):
            assert connection.scalar(select(func.count()).select_from(table)) == 0


def test_a_stopped_manager_has_its_crawls_stopped(flow: Managed) -> None:
    flow.offer("a", "b", "c", "d", read=4)
    starts = [flow.started(number) for number in (1, 2, 3)]
    run = flow.run_of(starts[0])
    flow.ended_run(starts[1])
    flow.cancel("manager")
    stops = flow.store.flow_ledger.crawls_to_stop(flow.flow, [MANAGER])
    assert [(stop.number, stop.workflow_id, stop.run_id) for stop in stops] == [
        (1, starts[0].job.key, run.run_id),
        (3, starts[2].job.key, None),
    ]
    (chosen,) = flow.waiting()
    assert flow.start_items(chosen).stale == [4]
