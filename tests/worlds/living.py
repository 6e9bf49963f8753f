"""One generated life, looked at again and again, with every statement of `truth` checked after each look."""

from random import Random

from crawler_lifecycle.model.looks import Look, TaskRow, uids_of
from crawler_lifecycle.model.states import Intent, TaskStatus
from crawler_lifecycle.runs.rules.verdict import with_facts
from tests.kit.clusters.kube import UID
from tests.kit.data.rows import applied, row
from tests.worlds.disturbances import CALM, ROUGH, Disturbance
from tests.worlds.lives import KEY, Life
from tests.worlds.looks import Span, facts_before_a_stop, look_at
from tests.worlds.retrying import Retrying
from tests.worlds.stories import a_life
from tests.worlds.truth import SAY_NOTHING, check, check_facts, expected, knows_that_it_was_told

LOOKS_AT_A_LIFE = 12
LOOKS_AT_THE_END = 3


def live(random: Random) -> tuple[int, TaskRow]:
    """Live one life. Return how many looks were made, and the row at the end."""
    life = a_life(random)
    known_from_start = life.is_replaced or random.random() < 0.5
    now = min(life.made_at, life.last) if known_from_start else 0
    is_on_record = known_from_start and life.made_at == now
    current = row(TaskStatus.PENDING, UID) if is_on_record else row(TaskStatus.DEPLOYING, None)
    looks, retrying = random.randint(1, LOOKS_AT_A_LIFE), Retrying.chosen(random)
    read, seen_told, was_shown = current, False, False
    for _ in range(looks):
        now = min(now + random.choice([0, 0, 1, 1, 2, 5]), life.last)
        read = current if random.random() < 0.8 else read  # a look that took long, and the row that it had read
        span = Span(min(life.made_at if read.job_uid else 0, now), now)
        rough = ROUGH if random.random() < 0.7 else CALM
        if life.intent(now) is not Intent.RUN and random.random() < 0.3:
            current = _read_before_a_stop(life, span, random, rough, current)
            seen_told = knows_that_it_was_told(current, seen_told=seen_told)
        look = look_at(life, span, random, rough, uids_of([read]))
        change = retrying.change(read, look, life.intent(now))
        before, current = current, retrying.applied(current, change)
        if before.attempt > 1:
            retrying.check_next_attempt(life, now, look, before, current)
            continue
        if change and current.attempt > 1:
            retrying.check(life, now, look, before, change, seen_told=seen_told)
            continue
        check(life, now, look, before, current, seen_told=seen_told)
        if read.version == before.version and (look.complete or KEY in look.jobs):
            _check_memory(look, before, current, was_shown=was_shown)
            was_shown = KEY in look.jobs and not look.jobs[KEY].gone and look.jobs[KEY].uid in ("", UID)
        seen_told = knows_that_it_was_told(current, seen_told=seen_told)
    return looks + LOOKS_AT_THE_END, _see_the_truth(life, random, current, retrying, seen_told=seen_told)


def _read_before_a_stop(life: Life, span: Span, random: Random, rough: Disturbance, current: TaskRow) -> TaskRow:
    """Return the row once a stop put the facts on record that it read just before its DELETE."""
    facts = facts_before_a_stop(life, span, random, rough, uids_of([current]))
    if facts is None:
        return current
    after_reading = applied(current, with_facts(current, facts))
    check_facts(life, life.moments[: span.now + 1], after_reading)
    assert after_reading.status is current.status, "reading facts ends no task"
    return after_reading


def _check_memory(look: Look, before: TaskRow, current: TaskRow, *, was_shown: bool) -> None:
    if current.status is TaskStatus.LOST is not before.status:
        assert not was_shown, "an absence that was interrupted begins anew"
    seen = look.jobs.get(KEY)
    is_own = seen is not None and seen.uid == UID == current.job_uid
    if is_own and seen and seen.facts and seen.facts.has_ended and not before.status.is_over:
        assert current.facts is not None, "an end that was seen is on record"
        assert current.facts.has_ended


def _see_the_truth(life: Life, random: Random, before: TaskRow, retrying: Retrying, *, seen_told: bool) -> TaskRow:
    last, intent, current = Span(life.last, life.last), life.intent(life.last), before
    for _ in range(LOOKS_AT_THE_END):
        look = look_at(life, last, random, CALM, uids_of([current]))
        change = retrying.change(current, look, intent)
        previous, current = current, retrying.applied(current, change)
        if previous.attempt > 1:
            retrying.check_next_attempt(life, life.last, look, previous, current)
        elif change and current.attempt > 1:
            retrying.check(life, life.last, look, previous, change, seen_told=seen_told)
        else:
            check(life, life.last, look, previous, current, seen_told=seen_told)
    if current.attempt > 1 or retrying.is_awaited(life, current):
        return current
    retrying.check_end(before, current, intent)
    assert current.status in expected(life, before, intent, seen_told=seen_told), (life, before, current)
    if not before.status.is_over and current.status is TaskStatus.FAILED and life.moments[life.last].remembers:
        assert current.reason not in SAY_NOTHING, (life, current)
    return current
