"""A pod of no known phase counted as one that lived when its Job was deleted, and that is never forgotten: what had
succeeded a moment before the stop became STOPPED."""

import pytest

from crawler_lifecycle.adapters.kubernetes.observe.looking import Observer
from crawler_lifecycle.contract.states import Intent, TaskStatus
from crawler_lifecycle.domain.looks import Look
from tests.kube import LATER, OURS, RUN, UID, Json, Shelf, condition, deleted, ended, job, pod, running
from tests.rows import after, row
from tests.worlds.looks import IN_TIME

TOO_LATE = "2026-11-20T09:00:01Z"


def look(there: Json, *pods: Json) -> Look:
    return Observer(Shelf().put(jobs=[there], pods=list(pods)), OURS, IN_TIME).look(RUN, [(0, 1)])


@pytest.mark.parametrize(
    ("there", "end"),
    [
        (pod("Banana", ended(0)), TaskStatus.SUCCEEDED),
        (pod("Running", ended(0), running("proxy")), TaskStatus.SUCCEEDED),  # its main container had ended
        (pod("Running", running()), TaskStatus.STOPPED),
    ],
)
def test_what_had_succeeded_before_the_stop_is_not_stopped(there: Json, end: TaskStatus) -> None:
    leaving = look(deleted(job(active=1, ready=1), TOO_LATE), there)
    now = after(row(TaskStatus.RUNNING, UID), leaving, intent=Intent.STOP)
    assert now.status is TaskStatus.STOPPING
    complete = deleted(job(0, 1, condition("Complete", at=LATER), succeeded=1, completionTime=LATER), TOO_LATE)
    assert after(now, look(complete), intent=Intent.STOP).status is end
