"""Whatever is seen of a job's life, late, twice, in parts or as nonsense: its row is never wrong and ends at the truth.

`make verdict-soak` does the same a million times.
"""

from collections.abc import Iterator
from functools import partial
from random import Random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from crawler_lifecycle.adapters.kubernetes.answers import ApiFailed
from crawler_lifecycle.adapters.kubernetes.looking import Looking
from crawler_lifecycle.contract.states import Intent, TaskStatus
from crawler_lifecycle.domain.looks import Look
from crawler_lifecycle.domain.reasons import SIDECAR_HANGING
from tests.kube import (
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
from tests.rows import after, row
from tests.worlds import KEY, NONSENSE, a_life, live, look_at

SHRINKABLE = st.randoms(use_true_random=False)


@settings(max_examples=1_500)
@given(st.integers(0, 2**63))
@example(16177)  # a pod in a phase that nobody knows, as its job was deleted a moment too late
def test_no_look_makes_a_row_wrong_and_the_truth_is_its_end(seed: int) -> None:
    live(Random(seed))


@settings(max_examples=50)
@given(SHRINKABLE)
def test_the_same_where_what_is_wrong_can_be_made_small(random: Random) -> None:
    live(random)


def look(shelf: Shelf) -> Look:
    return Looking(shelf, OURS).look(RUN, [KEY])


@settings(max_examples=200)
@given(SHRINKABLE)
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
    assert look(Shelf().put(jobs=shuffled, pods=mixed)) == straight


@settings(max_examples=200)
@given(SHRINKABLE)
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


@settings(max_examples=200)
@given(SHRINKABLE)
def test_looking_twice_is_looking_once(random: Random) -> None:
    life = a_life(random)
    last = len(life.moments) - 1
    intent = life.intent(last)
    seen = look_at(life, last, last, random)
    once = after(row(TaskStatus.PENDING), seen, intent=intent)
    job = seen.jobs.get(KEY)
    # our own limits end what the look before put on record
    limited = life.is_hopeless or once.cause == SIDECAR_HANGING or (job is not None and job.give_up_after is not None)
    if not once.absent_count and not limited:
        assert after(once, seen, intent=intent) == once
