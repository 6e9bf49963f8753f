"""What is counted for whoever watches the installation as a whole."""

from temporalio import activity


def noted(saturated: str | None, cluster: str) -> str | None:
    """A look that found the cluster full."""
    if saturated is not None:
        meter = activity.metric_meter().with_additional_attributes({"cause": saturated, "cluster": cluster})
        meter.create_counter("crawler_saturated_looks", "looks at runs that have been waiting for room").add(1)
    return saturated
