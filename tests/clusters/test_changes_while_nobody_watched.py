import pytest

from tests.kit.clusters.clusters import LocalBench
from tests.kit.waiting import until

pytestmark = pytest.mark.regression(
    "A run whose jobs ended while the watcher was away was not nudged: up to 15 minutes went by until its next look"
)


@pytest.mark.long
def test_a_watcher_that_was_away_is_told_what_it_missed(local: LocalBench) -> None:
    request = local.request("exit 0")
    local.cluster.deploy(request)
    local.until_ended(request)

    told = local.cluster.changes()
    until(lambda: request.run_uid in next(told), "what was missed to be told")
    next(told)

    later = local.cluster.changes()
    assert next(later) == set(), "it was handed on already"


@pytest.mark.long
def test_a_change_is_told_again_by_the_next_watcher_unless_it_was_handed_on(local: LocalBench) -> None:
    request = local.request("exit 0")
    local.cluster.deploy(request)
    local.until_ended(request)
    cut_off = local.cluster.changes()
    until(lambda: request.run_uid in next(cut_off), "what was missed to be told")
    cut_off.close()  # type: ignore[attr-defined]
    assert request.run_uid in next(local.cluster.changes())
