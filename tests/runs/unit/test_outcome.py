"""How a run ends follows from how its tasks ended."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler_lifecycle.model.states import Intent, RunStatus, TaskStatus
from crawler_lifecycle.runs.rules.outcome import SENTENCES, in_a_sentence, outcome

S, F, X, L = TaskStatus.SUCCEEDED, TaskStatus.FAILED, TaskStatus.STOPPED, TaskStatus.LOST


@pytest.mark.parametrize(
    ("tasks", "intent", "allowed", "main", "given_reason", "expected"),
    [
        ({S: 4}, Intent.RUN, 0.0, S, None, (RunStatus.COMPLETED, "all_succeeded")),
        ({S: 3, F: 1}, Intent.RUN, 0.0, S, None, (RunStatus.FAILED, "tasks_failed")),
        ({S: 3, L: 1}, Intent.RUN, 0.0, S, None, (RunStatus.FAILED, "tasks_lost")),
        ({S: 3, F: 1}, Intent.RUN, 0.25, S, None, (RunStatus.COMPLETED, "failures_allowed")),
        ({S: 3, F: 1}, Intent.RUN, 1.0, F, None, (RunStatus.FAILED, "main_job_failed")),
        ({S: 3, L: 1}, Intent.RUN, 1.0, L, None, (RunStatus.FAILED, "main_job_lost")),
        ({S: 3, X: 1}, Intent.RUN, 1.0, S, None, (RunStatus.FAILED, "tasks_lost")),
        ({S: 4}, Intent.STOP, 0.0, S, None, (RunStatus.COMPLETED, "all_succeeded")),
        ({S: 3, F: 1}, Intent.STOP, 0.0, S, None, (RunStatus.FAILED, "tasks_failed")),
        ({S: 3, F: 1}, Intent.STOP, 1.0, S, None, (RunStatus.COMPLETED, "failures_allowed")),
        ({S: 3, X: 1}, Intent.STOP, 1.0, S, None, (RunStatus.FAILED, "stopped")),
        ({S: 4}, Intent.STOP, 0.0, S, "max_duration", (RunStatus.COMPLETED, "all_succeeded")),
        ({X: 4}, Intent.FORCE, 0.0, X, None, (RunStatus.FAILED, "stopped_forced")),
        ({X: 1}, Intent.STOP, 0.0, X, "never_started", (RunStatus.FAILED, "never_started")),
        ({F: 1}, Intent.RUN, 0.0, F, "deployment_refused", (RunStatus.FAILED, "deployment_refused")),
    ],
)
def test_ends(
    tasks: dict[TaskStatus, int],
    intent: Intent,
    allowed: float,
    main: TaskStatus,
    given_reason: str | None,
    expected: tuple[RunStatus, str],
) -> None:
    assert outcome(tasks, intent, allowed, main, given_reason) == expected
    assert expected[1] in SENTENCES
    assert "_" not in in_a_sentence(*expected)


@pytest.mark.parametrize("allowed", [0.0, 1.0])
@pytest.mark.parametrize("tasks", [{F: 1}, {S: 3, F: 1}, {F: 1, L: 1}])
def test_time_that_was_up_is_the_reason_also_where_the_cluster_was_the_first_to_notice(
    tasks: dict[TaskStatus, int], allowed: float
) -> None:
    ended = outcome(tasks, Intent.STOP, allowed, F, "max_duration", out_of_time=True)
    assert ended == (RunStatus.FAILED, "max_duration")
    by_itself = outcome(tasks, Intent.STOP, 0.0, F, "max_duration")
    assert by_itself == (RunStatus.FAILED, "main_job_failed"), "it had failed before its time was up"


ENDS = st.lists(st.sampled_from([S, F, X, L]), min_size=1, max_size=30)


@given(ENDS, st.sampled_from(Intent), st.floats(min_value=0, max_value=1))
@pytest.mark.long
def test_completed_means_that_enough_succeeded_and_nobody_stopped_it(
    ends: list[TaskStatus], intent: Intent, allowed: float
) -> None:
    tasks = {status: ends.count(status) for status in set(ends)}
    status, reason = outcome(tasks, intent, allowed, ends[0], None)
    assert reason
    if status is RunStatus.COMPLETED and set(ends) != {S}:
        assert X not in tasks
        assert tasks.get(F, 0) + tasks.get(L, 0) <= allowed * len(ends)
    if set(ends) == {S}:
        assert status is RunStatus.COMPLETED
