import pytest

from crawler_lifecycle.database.database import Database
from crawler_lifecycle.flows.model.turns import Effects
from crawler_lifecycle.model.manager_items import Verdict
from crawler_lifecycle.model.states import RunStatus
from tests.kit.data.managers import Managed, managed, reopened

pytestmark = pytest.mark.regression(
    "A reaction to the end of a run that was reopened meanwhile counted for the run's next end"
)


@pytest.fixture
def flow(database: Database) -> Managed:
    return managed(database)


@pytest.mark.parametrize("retry", [{}, {"delay_seconds": 0}])
def test_a_reaction_to_a_former_end_has_no_effect(flow: Managed, retry: dict[str, float]) -> None:
    flow.offer("a", read=1)
    run = flow.ended_run(flow.started(), RunStatus.FAILED)
    (former,) = flow.ended()
    flow.close(reopened(flow, run), RunStatus.COMPLETED, "all_succeeded")
    flow.react(former, Verdict.BAD, Effects(stats={"n": 1}), **retry)
    (job,) = flow.ended()
    assert (job.outcome, job.is_failed, job.ended_at != former.ended_at) == ("finished", False, True)
    assert flow.waiting() == []
    flow.react(job, Verdict.OK, Effects(stats={"n": 10}))
    assert flow.ended() == []
    counts = flow.managers.counts(flow.mine)
    assert (counts.completed, counts.failed) == (1, 0)
    assert flow.begun("child-1").stats["n"] == 10
