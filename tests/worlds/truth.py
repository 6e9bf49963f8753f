"""Statements about a task's row that hold after each look, and the statuses that a row may end with."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from crawler_lifecycle.model.looks import JobPhase, Look, TaskRow
from crawler_lifecycle.model.reasons import POD_CREATE_REJECTED, RESULT_UNKNOWN
from crawler_lifecycle.model.states import Intent, TaskStatus
from tests.kit.clusters.kube import LATER, UID
from tests.worlds.lives import KEY, OVER, Life, Moment
from tests.worlds.stories import A_MOMENT_LATER, DAYS_LATER

SAY_NOTHING = (None, "failed", "pod_failure_policy", "backoff_limit_exceeded")
TWO_CLOCKS = timedelta(minutes=1)


def check(life: Life, now: int, look: Look, before: TaskRow, current: TaskRow, *, seen_told: bool = False) -> None:
    past, seen = life.moments[: now + 1], look.jobs.get(KEY)
    if before.status.is_over and before.status is not TaskStatus.LOST:
        assert current == before, "an end is an end"
    if seen is None and not look.complete:
        assert current == before, "the unknown changes nothing"
    if seen is not None and seen.phase is JobPhase.UNCLEAR and not seen.gone:
        unrejected = (None, None) if before.cause == POD_CREATE_REJECTED else (before.cause, before.cause_since)
        interrupted = replace(before, version=current.version, absent_count=0, absent_since=None)
        interrupted = replace(interrupted, cause=unrejected[0], cause_since=unrejected[1])
        assert current in (before, interrupted), "the unknown only interrupts an absence, or a row of rejections"
    check_facts(life, past, current)
    if current.status is not before.status:
        _check_change(life, now, look, before, current, seen_told=seen_told)


def _check_change(life: Life, now: int, look: Look, before: TaskRow, current: TaskRow, *, seen_told: bool) -> None:
    past, seen = life.moments[: now + 1], look.jobs.get(KEY)
    if current.status is TaskStatus.SUCCEEDED:
        said = any(moment.says("Complete") or (moment.job is None and "Succeeded" in moment.phases) for moment in past)
        assert said or _is_by_facts(current)
        assert not (life.was_told and seen_told), "a program that ended because it was told to was not done"
        assert not life.was_told or _may_have_hidden_its_pods(past), "a pod that cannot be read hides no request to end"
    elif current.status is TaskStatus.FAILED:
        said = any(moment.says("Failed") or (moment.job is None and "Failed" in moment.phases) for moment in past)
        not_done = (life.was_told or life.is_crossed) and any(moment.says("Complete") for moment in past)
        gave_up = current.reason == "pod_create_rejected" and any(moment.has_no_pod for moment in past)
        # the first pod was seen while it was told to end, and no look saw the second (docs/decisions/0006)
        of_the_first_pod = life.had_another_pod and current.facts is not None and bool(current.facts.told_to_end)
        assert said or life.is_hopeless or not_done or gave_up or of_the_first_pod or _is_by_facts(current)
    elif current.status is TaskStatus.LOST:
        assert not (current.facts and current.facts.has_ended), "how it ended is on record"
        no_object_tells = seen is not None and seen.gone and current.reason == RESULT_UNKNOWN
        is_gone = past[-1].is_empty or (life.is_replaced and len(past) > life.made_at)
        assert is_gone or no_object_tells, "a task is lost only if its objects are gone"
        assert life.intent(now) is Intent.RUN
    elif current.status is TaskStatus.STOPPED:
        assert life.intent(now) is not Intent.RUN
        assert before.job_uid is None or not set(past[-1].phases) - set(OVER), "a running task is not stopped"
    if before.status is TaskStatus.LOST:
        assert current.status in (TaskStatus.SUCCEEDED, TaskStatus.FAILED)


def _may_have_hidden_its_pods(past: Sequence[Moment]) -> bool:
    """Return whether a list of pods may have been empty while the Job was complete."""
    first = next((number for number, moment in enumerate(past) if moment.says("Complete")), len(past))
    return any(not moment.pods for moment in past[first:])


def check_facts(life: Life, past: Sequence[Moment], current: TaskRow) -> None:
    """Facts on record are true."""
    facts = current.facts
    if facts is None:
        return
    assert facts.job_uid == UID, "facts are of no other job"
    if facts.told_to_end:
        assert any(moment.was_told for moment in past), "the program was not told to end"
    if facts.has_ended:
        ends = [end for moment in past for end in moment.ends]
        assert (facts.succeeded, facts.exit_code) in ends, "the program did not end so"
        assert not (life.was_told and facts.ended_by_itself), "the program was told to end"


def _is_by_facts(current: TaskRow) -> bool:
    """Whether the status is the one that the facts on record give. Facts are checked by themselves."""
    facts = current.facts
    if facts is None or not facts.has_ended:
        return False
    return current.status is (TaskStatus.SUCCEEDED if _is_done(current) else TaskStatus.FAILED)


def _is_done(row: TaskRow) -> bool:
    return bool(row.facts and row.facts.succeeded and row.facts.ended_by_itself)


def knows_that_it_was_told(row: TaskRow, *, seen_told: bool) -> bool:
    """Whether the row knows since some look that the program was not done. A program that runs again clears it."""
    seen = row.cause == "pod_terminating" or (row.cause == "deleted_externally" and row.reason is not None)
    facts = row.facts
    on_record = facts is not None and (facts.told_to_end is True or (facts.has_ended and not facts.ended_by_itself))
    return seen or on_record or (seen_told and row.cause in ("finishing", "deleted_externally"))


def expected(life: Life, before: TaskRow, intent: Intent, *, seen_told: bool = False) -> set[TaskStatus]:
    """Return the statuses that the row may have once the last moment was seen three times, undisturbed."""
    last, stops = life.moments[-1], intent is not Intent.RUN
    if last.job is not None and last.job["metadata"]["uid"] != UID:
        last = Moment(None)
    if before.status.is_over and before.status is not TaskStatus.LOST:
        return {before.status}
    if life.was_told and (last.says("Complete") or (last.job is None and last.pods)):
        return _expected_of_a_told_program(last, before, stops=stops, seen_told=seen_told)
    if life.is_crossed and last.says("Complete"):
        return _expected_of_a_crossing(life, last, before, stops=stops)
    if last.says("Complete"):
        return {TaskStatus.SUCCEEDED}
    ends_late = last.job is not None and last.job["metadata"].get("deletionTimestamp") == DAYS_LATER
    if life.hangs_with is not None:
        return {TaskStatus.FAILED if life.hangs_with else TaskStatus.SUCCEEDED}
    if last.says("Failed"):
        if _is_done(before) or (last.shows_success and not last.was_told):
            return {TaskStatus.SUCCEEDED}  # whatever ended its pod afterwards
        was_told = last.job is not None and "deletionTimestamp" in last.job["metadata"] and not ends_late
        return {TaskStatus.STOPPED if stops and was_told else TaskStatus.FAILED}
    if life.is_hopeless and not stops:  # a stop ends it as any other
        return {TaskStatus.FAILED}
    if last.job is not None and "deletionTimestamp" in last.job["metadata"]:
        is_awaited = before.job_uid is None and not stops  # a deployment waits until its name is free
        return {before.status if is_awaited else TaskStatus.STOPPING}
    if last.job is not None:
        unseen = {TaskStatus.DEPLOYING} if "Unknown" in last.phases else set()
        rejected = {TaskStatus.FAILED} if last.has_no_pod else set()
        return {TaskStatus.PENDING, TaskStatus.RUNNING, TaskStatus.STOPPING} | unseen | rejected
    return _expected_without_a_job(last, before, stops=stops)


def _expected_of_a_told_program(last: Moment, before: TaskRow, *, stops: bool, seen_told: bool) -> set[TaskStatus]:
    if last.job is None and before.job_uid is None:
        return {TaskStatus.STOPPED if stops else before.status}
    if not (seen_told or last.pods):
        return {TaskStatus.SUCCEEDED}  # no object tells more
    was_stopped = stops and before.status is not TaskStatus.LOST
    return (
        {TaskStatus.STOPPED, TaskStatus.FAILED}
        if was_stopped and not last.pods
        else {TaskStatus.STOPPED if was_stopped else TaskStatus.FAILED}
    )


def _expected_of_a_crossing(life: Life, last: Moment, before: TaskRow, *, stops: bool) -> set[TaskStatus]:
    """Success needs a look or a stop that saw the end first, or clocks that tell it, or objects that tell no more."""
    not_done = TaskStatus.STOPPED if stops and before.status is not TaskStatus.LOST else TaskStatus.FAILED
    if before.facts and before.facts.has_ended:
        return {TaskStatus.SUCCEEDED if _is_done(before) or _clocks_tell(life, last) else not_done}
    return {TaskStatus.SUCCEEDED if not last.pods or _clocks_tell(life, last) else not_done}


def _clocks_tell(life: Life, last: Moment) -> bool:
    """Whether the last look shows that the end came first, by more than a minute."""
    ended = datetime.fromisoformat(LATER) + timedelta(seconds=life.skew)
    return bool(last.pods) and datetime.fromisoformat(A_MOMENT_LATER) - ended > TWO_CLOCKS


def _expected_without_a_job(last: Moment, before: TaskRow, *, stops: bool) -> set[TaskStatus]:
    if before.job_uid is None:  # no row knows that there was a Job
        return {TaskStatus.STOPPED if stops else before.status}
    if not last.pods:
        if before.status is TaskStatus.LOST:
            return {TaskStatus.LOST}
        if before.facts and before.facts.has_ended and (before.facts.ended_by_itself or not stops):
            return {TaskStatus.SUCCEEDED if _is_done(before) else TaskStatus.FAILED}
        return {TaskStatus.STOPPED if stops else TaskStatus.LOST}
    [left] = last.pods
    if left["status"]["phase"] == "Succeeded" or (last.shows_success and not last.was_told):
        return {TaskStatus.SUCCEEDED}
    if left["status"]["phase"] == "Failed":
        told = stops and "deletionTimestamp" in left["metadata"] and before.status is not TaskStatus.LOST
        return {TaskStatus.STOPPED if told else TaskStatus.FAILED}
    return {TaskStatus.STOPPING}
