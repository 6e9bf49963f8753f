"""An evicted pod that one look saw without its reason, of a Job that was about to fail.

The first facts about an end stayed, so the task was FAILED by `failed`, which counts as the program's own failure, and
the reason in all later looks was ignored. One of 1.6 million generated lives showed it.
"""

import pytest

from crawler_lifecycle.clusters.kubernetes.observe.looking import Observer
from crawler_lifecycle.model.looks import Look
from crawler_lifecycle.model.states import TaskStatus
from tests.kit.clusters.kube import LATER, OURS, RUN, UID, Json, Shelf, condition, ended, job, pod
from tests.kit.data.rows import after, row
from tests.worlds.looks import IN_TIME

pytestmark = pytest.mark.regression(
    "A task whose evicted pod one look saw without the reason was FAILED, whatever later looks showed"
)

FAILED = job(0, 1, condition("Failed", "PodFailurePolicy", at=LATER), failed=1)
NOTHING = pod("Failed")


def look(there: Json, *pods: Json) -> Look:
    return Observer(Shelf().put(jobs=[there], pods=list(pods)), OURS, IN_TIME).look(RUN, [(0, 1)])


@pytest.mark.parametrize(
    ("explained", "reason", "code"),
    [
        (pod("Failed", reason="Evicted"), "evicted", None),
        (pod("Failed", ended(3)), "exit_3", 3),
    ],
)
def test_a_later_look_explains_the_end(explained: Json, reason: str, code: int | None) -> None:
    seen = after(row(TaskStatus.RUNNING, UID), look(job(active=1, ready=0), NOTHING))
    assert seen.facts is not None
    assert (seen.facts.reason, seen.facts.exit_code) == ("failed", None)
    now = after(seen, look(FAILED, explained))
    assert (now.status, now.reason, now.exit_code) == (TaskStatus.FAILED, reason, code)


def test_an_explained_end_stays() -> None:
    """A pod without a reason also counted as proof that nobody had asked the program to end."""
    seen = after(row(TaskStatus.RUNNING, UID), look(job(active=1, ready=0), pod("Failed", reason="Evicted")))
    assert seen.facts is not None
    assert seen.facts.reason == "evicted"
    assert after(seen, look(FAILED, NOTHING)).facts == seen.facts
