"""Two lists of events for each job that had failed: the API server reads all events of the namespace for each. While
5,000 jobs were stopped, three of four lists of events were given up."""

import threading
from collections.abc import Iterator
from pathlib import Path
from time import monotonic

import pytest

from crawler_lifecycle.clusters.kubernetes.http.api import LISTS_AT_ONCE
from crawler_lifecycle.clusters.kubernetes.logs import evidence
from tests.clusters.acting import Acting, ended_with, warn
from tests.kit.clusters.api_servers import Answered, Fault, an_api_server

pytestmark = pytest.mark.regression(
    "Two lists of events for each job that had failed: the API server reads all events of the namespace for each"
)

TASKS = 30
OTHERS = 1500  # warnings: there is a second page


@pytest.fixture
def failed(tmp_path: Path) -> Iterator[Acting]:
    """So many jobs, each with a warning of its own and one of its pod."""
    with an_api_server() as server:
        acting = Acting(server, tmp_path)
        for number in range(OTHERS):
            warn(acting, {"metadata": {"uid": f"other-{number}"}}, f"other-{number}", "somebody else warns")
        for task in range(TASKS):
            job = acting.deploy(task)
            pod = acting.pod(job, "Failed", **ended_with(9, "Error"))
            server.logs[pod["metadata"]["name"]] = b"the end\n"
            server.end(acting.name(task), "Failed")
            warn(acting, job, f"job-{task}", f"job {task} warns")
            warn(acting, pod, f"pod-{task}", "its pod warns")
        yield acting


def collected(acting: Acting, tasks: int = TASKS) -> dict[int, list[str]]:
    """The events of each, without their times."""
    found = acting.collecting.evidence(acting.run_uid, [(task, 1) for task in range(tasks)])
    assert [each.log_tail for each in found] == ["the end"] * tasks
    return {each.task: [event.partition(" ")[2] for event in each.events] for each in found}


def test_they_are_asked_for_once(failed: Acting) -> None:
    told = collected(failed)
    expected = {
        task: [f"BackOff: job {task} warns (3 times)", "BackOff: its pod warns (3 times)"] for task in range(TASKS)
    }
    assert told == expected
    assert [seen.query["fieldSelector"] for seen in failed.server.asked("GET", "events")] == ["type=Warning"] * 2


def test_of_a_few_nothing_else_is_sent(failed: Acting) -> None:
    assert collected(failed, 2)[1] == ["BackOff: job 1 warns (3 times)", "BackOff: its pod warns (3 times)"]
    asked = [seen.query["fieldSelector"] for seen in failed.server.asked("GET", "events")]
    assert len(asked) == 4
    assert all(selector.startswith("involvedObject.uid=") for selector in asked)


def test_those_before_a_page_that_fails_are_kept_and_it_is_said(failed: Acting) -> None:
    events = failed.server.objects["events"]
    ours = {name: event for name, event in events.items() if not name.startswith("other")}
    failed.server.objects["events"] = ours | events
    failed.server.faults = [Fault("GET", "continue", Answered(500, "InternalError", "the list is lost"))]
    for told in collected(failed).values():
        assert len(told) == 3
        assert "the list is lost" in told[-1]


def test_whatever_they_cost_the_last_lines_are_read(failed: Acting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evidence, "LOGS_AND_EVENTS_SECONDS", 4.0)
    failed.server.faults = [Fault("GET", "events", after=10)]
    began = monotonic()
    for told in collected(failed).values():
        assert len(told) == 1
        assert "not read" in told[0]
    assert monotonic() - began < 4


def test_events_that_hang_keep_no_thread_from_those_who_read_last_lines(failed: Acting) -> None:
    """Many steps at once, each of few jobs, each waiting for a place among the lists."""
    hung = threading.Event()
    failed.server.faults = [Fault("GET", "events", hang=hung) for _ in range(LISTS_AT_ONCE)]
    keys = [(task, 1) for task in range(TASKS)]
    found = failed.jobs.pods(failed.run_uid, keys)
    until = monotonic() + 20
    collecting = failed.collecting
    begun = [
        evidence.begin_reading_warnings(failed.api, collecting.event_readers, [str(task)], until)
        for task in range(TASKS)
    ]
    try:
        tails = collecting.jobs.for_each(lambda key: collecting.logs.tail(found[key][0], until), keys, "no log")
        assert tails == ["the end"] * TASKS
        assert monotonic() < until - 17, "they waited for the events"
    finally:
        hung.set()
    assert len([answered() for answered in begun]) == TASKS
