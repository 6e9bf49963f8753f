"""A reading that had begun before a step's end came after the plan that followed this end. The supervisor kept the
planned state and forgot to write it: a job that waited for its retry stayed so on record, also when the plan had
cancelled it. The older row now counts until the end is observed again, and the plan is made again."""

import pytest

from crawler_lifecycle.flows import RetryPolicy, Workflow
from crawler_lifecycle.flows.rules.ends import AttemptEnd
from tests.flows.plays import FAILED, Play
from tests.kit.authors.work import plain

pytestmark = pytest.mark.regression(
    "The supervisor forgot to write a planned state if an older reading of a step's end came after the plan"
)


def test_a_reading_from_before_an_end_leaves_the_plan_behind_the_end() -> None:
    policy = RetryPolicy(max_attempts=2, pause_seconds=60)
    flow = Play(Workflow(max_parallel=1).add("a", plain, retry=policy).add("b", plain))
    flow.advance()
    read = flow.row("a")
    flow.end("a", FAILED)
    ended_at = flow.now
    flow.advance()
    flow.later(seconds=61)
    (change,) = flow.planner.advance(flow.now).changes
    assert (change.row.path, change.was.state, change.row.state) == ("a", "retryable", "available")
    assert flow.planner.restore([read]) == [0]
    flow.planner.observe(AttemptEnd(0, 1, FAILED, ended_at))
    (change,) = flow.planner.advance(flow.now).changes
    assert (change.row.path, change.was.state, change.row.state) == ("a", "executing", "available")
