"""Whatever is seen of a job's life, late, twice, in parts or as nonsense: its row is never wrong and ends at the truth.

`make verdict-soak` does the same a million times.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from random import Random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from crawler_lifecycle.clusters.kubernetes.http.answers import ApiFailed
from crawler_lifecycle.clusters.kubernetes.observe.looking import Observer
from crawler_lifecycle.model.looks import JobPhase, Look, uids_of
from crawler_lifecycle.model.reasons import JOB_DISAPPEARED, SIDECAR_HANGING
from crawler_lifecycle.model.states import Intent, TaskStatus
from tests.kit.clusters.kube import (
    LATER,
    OURS,
    RUN,
    UID,
    Json,
    Shelf,
    condition,
    container,
    deleted,
    ended,
    job,
    pod,
    running,
    waiting,
)
from tests.kit.data.rows import after, row
from tests.worlds import ends
from tests.worlds.disturbances import NONSENSE
from tests.worlds.lives import KEY
from tests.worlds.living import live
from tests.worlds.looks import Span, look_at
from tests.worlds.stories import a_life
from tests.worlds.waits import wait

SHRINKABLE = st.randoms(use_true_random=False)


@settings(max_examples=1_500)
@given(st.integers(0, 2**63))
@example(16177)  # a pod in a phase that nobody knows, as its job was deleted a moment too late
@pytest.mark.system
def test_no_look_makes_a_row_wrong_and_the_truth_is_its_end(seed: int) -> None:
    live(Random(seed))


@pytest.mark.parametrize("seed", range(400))
def test_an_end_depends_on_what_looks_saw_and_not_on_their_times(seed: int) -> None:
    ends.play(Random(seed))


@pytest.mark.parametrize("seed", range(60))
def test_nobody_gives_up_what_may_still_start_or_ends_what_has_started(seed: int) -> None:
    wait(Random(seed))


@settings(max_examples=50)
@given(SHRINKABLE)
@pytest.mark.system
def test_the_same_where_what_is_wrong_can_be_made_small(random: Random) -> None:
    live(random)


def look(shelf: Shelf) -> Look:
    return Observer(shelf, OURS).look(RUN, [KEY])


@settings(max_examples=200)
@given(SHRINKABLE)
@pytest.mark.system
def test_nothing_depends_on_an_order_or_on_another_uid(random: Random) -> None:
    conditions = [condition(kind) for kind in random.sample(["Failed", "FailureTarget", "Banana", "Suspended"], 2)]
    containers = [ended(3), waiting("CrashLoopBackOff", "a"), running("b"), container("c")]
    phase = random.choice(["Pending", "Running", "Failed"])
    jobs = [job(0, 1, *conditions, active=1), job(1, 1, uid="other")]
    pods = [pod(phase, *containers, conditions=[condition("PodScheduled"), condition("Ready", status="False")])]
    straight = look(Shelf().put(jobs=jobs, pods=pods))
    theirs = [pod("Succeeded", ended(0), uid="another"), deleted(pod("Running", running(), uid="a-third"))]
    for newer in theirs:
        newer["metadata"]["creationTimestamp"] = LATER
    for several in (conditions, containers, jobs, pods, pods[0]["status"]["conditions"]):
        random.shuffle(several)
    mixed: list[Json] = [*theirs, pod(phase, *containers, conditions=pods[0]["status"]["conditions"])]
    random.shuffle(mixed)
    shuffled = [job(0, 1, *conditions, active=1) if each["metadata"]["uid"] == UID else each for each in jobs]
    beside = look(Shelf().put(jobs=shuffled, pods=mixed))
    assert replace(beside, problem=None) == straight
    assert straight.problem is None
    if beside.problem:  # a look that reads the pods names the other living pod, which changes nothing else
        assert "further pods run" in beside.problem


@settings(max_examples=200)
@given(SHRINKABLE)
@pytest.mark.system
def test_a_crash_at_any_call_changes_nothing_about_the_end(random: Random) -> None:
    life = a_life(random)
    moment, intent = life.moments[-1], life.intent(len(life.moments) - 1)
    shelf = Shelf().put(jobs=[moment.job] if moment.job else [], pods=moment.pods)
    straight = after(row(), look(shelf), look(shelf), intent=intent)
    for crash in range(len(shelf.calls)):
        shelf.fault = partial(_break_down, iter(range(crash)))
        broken = after(row(), look(shelf), intent=intent)
        shelf.fault = lambda _what: None
        assert not broken.status.is_over or broken.status is straight.status
        assert after(broken, look(shelf), look(shelf), intent=intent).status is straight.status


def _break_down(calls_before: Iterator[int], what: str) -> None:
    if next(calls_before, None) is None:
        raise ApiFailed(f"{what}: the connection broke")


@settings(max_examples=300)
@given(st.recursive(st.none() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
                    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(
                        ["metadata", "status", "spec", "name", "uid", "conditions", "type", "phase"]), inner),
                    max_leaves=12))  # fmt: skip
@pytest.mark.system
def test_nonsense_never_raises_and_never_ends_a_task(nonsense: object) -> None:
    for there in (
        {"jobs": [nonsense]},
        {"jobs": [job(active=1)], "pods": [nonsense]},
        {"jobs": [job()], "events": [nonsense]},
    ):
        seen = look(Shelf().put(**there))
        for intent in Intent:
            assert not after(row(), seen, seen, seen, intent=intent).status.is_over


@pytest.mark.parametrize("nonsense", NONSENSE)
def test_a_namespace_that_is_nonsense_proves_no_absence(nonsense: object) -> None:
    shelf = Shelf()
    shelf.of_namespace = nonsense
    assert after(row(), look(shelf), look(shelf), look(shelf)).status is TaskStatus.RUNNING


@settings(max_examples=300)
@given(st.integers(0, 2**63))
def test_looking_twice_is_looking_once(seed: int) -> None:
    """Only a limit of ours differs: it needs the look before, which put the cause or the absence on record."""
    random = Random(seed)
    life = a_life(random)
    intent, at_the_end = life.intent(life.last), Span(life.last, life.last)
    before = row(TaskStatus.PENDING)
    seen = look_at(life, at_the_end, random, uids=uids_of([before]))
    once = after(before, seen, intent=intent)
    twice = after(once, seen, intent=intent)
    job = seen.jobs.get(KEY)
    is_for_a_stop = intent is not Intent.RUN and job is not None and job.phase is JobPhase.WAITING
    has_limit = job is not None and job.give_up_after is not None and not is_for_a_stop
    is_given_up = has_limit and not once.status.is_over
    if not is_given_up and not once.absent_count:
        assert twice == once
        return
    by_facts = once.facts.reason if once.facts else None
    limit = by_facts if once.cause == SIDECAR_HANGING else once.cause
    ends = (TaskStatus.SUCCEEDED, TaskStatus.FAILED) if is_given_up else (TaskStatus.LOST,)
    assert twice.status in ends
    assert twice.reason == (limit if is_given_up else JOB_DISAPPEARED)
    over = replace(once, status=twice.status, reason=twice.reason, version=once.version + 1, absent_count=0)
    assert twice == replace(over, cause=None, cause_since=None, absent_since=None)
    assert after(twice, seen, intent=intent) == twice
