"""A list of events that is cut: its last job was judged by its earlier events, and the main job by none.

One job with an earlier event of a quota made all jobs without a pod wait for the quota.
"""

from collections import Counter

import pytest

from crawler_lifecycle.clusters.kubernetes.http.answers import ApiFailed
from crawler_lifecycle.clusters.kubernetes.observe.looking import MOST_LISTS, Observer
from crawler_lifecycle.model.looks import Look
from tests.kit.clusters.kube import LATER, OURS, RUN, WHEN, Json, Shelf, event, job

pytestmark = pytest.mark.regression(
    "A list of events that is cut: its last job was judged by its earlier events, and the main job by none"
)

TASKS = 1000
QUOTA_BEFORE = "exceeded quota"
DENIED_SINCE = "admission webhook denied it"


def events_of(task: int) -> list[Json]:
    """Return the events of one Job, which lie side by side in a list: a quota at first, and a webhook since."""
    uid = f"uid-{task}"
    return [
        event(uid, "FailedCreate", QUOTA_BEFORE, WHEN),
        event(uid, "FailedCreate", QUOTA_BEFORE, LATER),
        event(uid, "FailedCreate", DENIED_SINCE),
    ]


def without_pods(page: int, order: range) -> Shelf:
    jobs = [job(task, 1, uid=f"uid-{task}") for task in range(TASKS)]
    return Shelf(page=page).put(jobs=jobs, events=[item for task in order for item in events_of(task)])


def look(shelf: Shelf) -> Look:
    return Observer(shelf, OURS).look(RUN, [(task, 1) for task in range(TASKS)])


def test_the_last_job_of_a_list_that_is_cut_is_not_judged_by_its_first_events() -> None:
    shelf = without_pods(100, range(TASKS))  # 33 jobs and the first event of another one
    seen = look(shelf)
    singly = MOST_LISTS - 11 - 1 - 1  # what lists of Jobs, pods and events leave of the budget
    causes = Counter(job.cause for job in seen.jobs.values())
    assert causes == {"pod_create_rejected": 33 + singly, "pod_not_created": TASKS - 33 - singly}
    assert len(shelf.calls) == MOST_LISTS


@pytest.mark.parametrize("pages", [1, 2])
def test_nor_is_it_where_the_list_breaks_off(pages: int) -> None:
    shelf = without_pods(500, range(TASKS))
    lists = Counter[str]()

    def fault(what: str) -> None:
        lists[what] += 1
        if what == "events" and lists[what] == pages + 1:
            raise ApiFailed("events: no answer", 500)

    shelf.fault = fault
    causes = Counter(job.cause for job in look(shelf).jobs.values())
    assert "quota" not in causes
    assert causes["pod_create_rejected"] == 500 * pages // 3 + 10


def test_the_last_list_of_the_budget_is_for_the_main_job() -> None:
    """The request was spent on a list of events that ended before those of the main job."""
    shelf = without_pods(53, range(TASKS - 1, -1, -1))
    seen = look(shelf)
    assert Counter(shelf.calls) == {"jobs": MOST_LISTS - 2, "pods": 1, "events": 1}
    assert (seen.jobs[0, 1].cause, seen.jobs[0, 1].message) == ("pod_create_rejected", DENIED_SINCE)


def test_without_a_main_job_that_waits_the_last_list_of_the_budget_is_for_all() -> None:
    shelf = without_pods(53, range(TASKS - 1, -1, -1))
    shelf.there["jobs"][0]["status"] |= {"active": 1, "ready": 1}
    seen = look(shelf)
    assert Counter(shelf.calls) == {"jobs": MOST_LISTS - 2, "pods": 1, "events": 1}
    assert Counter(job.cause for job in seen.jobs.values())["pod_create_rejected"] == 17
