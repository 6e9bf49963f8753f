"""Metrics of activities, exposed by Temporal's SDK together with its own metrics."""

from datetime import timedelta

from temporalio import activity


def count_saturated(cause: str | None, cluster: str) -> None:
    """Count a look at a run that is saturated by this cause. None: the run is not saturated, so do not count."""
    if cause is not None:
        meter = activity.metric_meter().with_additional_attributes({"cause": cause, "cluster": cluster})
        meter.create_counter("crawler_saturated_looks", "looks at runs that have been waiting for room").add(1)


def measure_clocks(ahead: timedelta | None, cluster: str) -> None:
    """Measure the distance between this machine's clock and the cluster's clock.

    `ahead` is None if both share a clock, or if the cluster has not answered yet.
    Temporal's gauges refuse negative values, so only `crawlctl doctor` says which clock is ahead.
    """
    if ahead is not None:
        meter = activity.metric_meter().with_additional_attributes({"cluster": cluster})
        gauge = meter.create_gauge_float(
            "crawler_cluster_clock_difference_seconds", "distance between our clock and the cluster's clock", "s"
        )
        gauge.set(abs(ahead.total_seconds()))
