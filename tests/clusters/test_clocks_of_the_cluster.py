"""Ages of what the cluster shows come from the API server's clock, however far ours is away from that clock."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import pytest
from temporalio.runtime import MetricBuffer, Runtime, TelemetryConfig
from temporalio.testing import ActivityEnvironment

from crawler_lifecycle.clusters.kubernetes.http.api import KubernetesApi, ServerClock
from crawler_lifecycle.clusters.kubernetes.observe.looking import Observer
from crawler_lifecycle.model.looks import JobLook
from crawler_lifecycle.runs.activities.metrics import measure_clocks
from tests.kit.clusters.api_servers import an_access, an_api_server
from tests.kit.clusters.kube import OURS, RUN, Json, Shelf, job, pod, running

pytestmark = pytest.mark.regression(
    "Ages of Kubernetes' objects were counted by our clock, however far it was from the API server's clock"
)

KEY = (0, 1)
HOUR = timedelta(hours=1)


def as_header(at: datetime) -> str:
    return format_datetime(at.astimezone(UTC), usegmt=True)


def seen_by_a_clock_an_hour_ahead(told_at: datetime, made: datetime | None = None) -> JobLook:
    """Look at a pod that was told to end, with a grace of ten minutes, by an API server an hour behind our clock."""
    there = job(active=0, terminating=1)
    there["metadata"]["creationTimestamp"] = (made or told_at - HOUR).isoformat()
    ending: Json = pod("Running", running())
    ending["metadata"] |= {
        "deletionTimestamp": (told_at + timedelta(minutes=10)).isoformat(),
        "deletionGracePeriodSeconds": 600,
    }
    shelf = Shelf().put(jobs=[there], pods=[ending])
    shelf.clock.set(as_header(datetime.now(UTC) - HOUR))
    return Observer(shelf, OURS).look(RUN, [KEY]).jobs[KEY]


def test_a_pod_has_its_grace_where_our_clock_is_ahead() -> None:
    drained_just_now = datetime.now(UTC) - HOUR - timedelta(seconds=5)

    assert not seen_by_a_clock_an_hour_ahead(drained_just_now).overdue


def test_a_pod_that_is_overdue_by_the_clock_of_the_cluster_is_overdue() -> None:
    drained_long_ago = datetime.now(UTC) - 2 * HOUR

    assert seen_by_a_clock_an_hour_ahead(drained_long_ago).overdue


def test_no_pod_was_told_to_end_before_its_job_was_made() -> None:
    made_just_now = datetime.now(UTC) - HOUR

    assert not seen_by_a_clock_an_hour_ahead(datetime.now(UTC) - 3 * HOUR, made_just_now).overdue


@pytest.mark.parametrize(
    "nonsense", [None, "", "yesterday", "Fri, 01 Jan 1960 00:00:00 GMT", "Fri, 31 Dec 9999 23:59:59 GMT"]
)
def test_a_header_that_makes_no_sense_changes_nothing(nonsense: str | None) -> None:
    clock = ServerClock()
    clock.set(as_header(datetime.now(UTC) - HOUR))
    clock.set(nonsense)

    assert clock.difference is not None
    assert abs(clock.difference - HOUR) < timedelta(seconds=5)


def test_of_several_api_servers_the_slowest_clock_counts() -> None:
    clock = ServerClock()
    for difference in (timedelta(), HOUR, -HOUR, HOUR):
        clock.set(as_header(datetime.now(UTC) + difference))

    assert clock.difference is not None
    assert abs(clock.difference - HOUR) < timedelta(seconds=5)


def test_a_clock_that_was_slow_counts_until_nobody_has_shown_it_for_a_period(monkeypatch: pytest.MonkeyPatch) -> None:
    """An API server whose clock was set right, or that is gone, must not make every age too small for good."""
    clock, now = ServerClock(), [5000.0]
    monkeypatch.setattr("crawler_lifecycle.clusters.kubernetes.http.api.time.monotonic", lambda: now[0])
    began_at = datetime.now(UTC)
    clock.set(as_header(began_at - HOUR))
    ages = []
    for passed in (1700, 1900, 3500, 3700):
        now[0] = 5000 + passed
        clock.set(as_header(began_at + timedelta(seconds=passed)))
        ages.append(round((clock.now() - began_at).total_seconds()))

    assert ages == pytest.approx([1700 - 3600, 1900 - 3600, 3500 - 3600, 3700], abs=2)


def test_a_pod_keeps_its_grace_while_two_api_servers_answer_whose_clocks_are_far_apart() -> None:
    told_at = datetime.now(UTC) - timedelta(seconds=5)
    ending: Json = pod("Running", running())
    ending["metadata"] |= {"deletionTimestamp": (told_at + timedelta(minutes=10)).isoformat()}
    there = job(active=0, terminating=1)
    there["metadata"]["creationTimestamp"] = (told_at - HOUR).isoformat()
    shelf = Shelf().put(jobs=[there], pods=[ending])
    shelf.clock.set(as_header(datetime.now(UTC)))
    shelf.clock.set(as_header(datetime.now(UTC) + timedelta(minutes=45)))

    assert not Observer(shelf, OURS).look(RUN, [KEY]).jobs[KEY].overdue


def test_before_the_first_answer_the_clock_is_ours() -> None:
    clock = ServerClock()

    assert clock.difference is None
    assert abs(clock.now() - datetime.now(UTC)) < timedelta(seconds=5)


@pytest.mark.parametrize(
    ("ahead", "words"), [(90, "is 90 s behind ours"), (-90, "is 90 s ahead of ours"), (0, "agrees with ours")]
)
def test_doctor_says_how_far_the_clocks_are_apart(ahead: int, words: str) -> None:
    clock = ServerClock()
    clock.set(as_header(datetime.now(UTC) - timedelta(seconds=ahead)))

    assert clock.words() == f"its clock {words}"


def test_every_answer_sets_the_clock_and_a_look_tells_the_difference(tmp_path: Path) -> None:
    with an_api_server() as server:
        api = KubernetesApi(an_access(server, tmp_path))
        look = Observer(api, OURS).look(RUN)

    assert look.clock_ahead is not None
    assert abs(look.clock_ahead) < timedelta(seconds=5)


@pytest.mark.parametrize("ahead", [90, -90])
def test_a_gauge_shows_the_distance_of_the_clocks_and_never_fails_a_look(ahead: int) -> None:
    buffer = MetricBuffer(10)
    environment = ActivityEnvironment()
    environment.metric_meter = Runtime(telemetry=TelemetryConfig(metrics=buffer)).metric_meter

    environment.run(measure_clocks, timedelta(seconds=ahead), "default")

    (gauge,) = buffer.retrieve_updates()
    assert (gauge.metric.name, gauge.value) == ("crawler_cluster_clock_difference_seconds", 90)
    assert gauge.attributes["cluster"] == "default"
