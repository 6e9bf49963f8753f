"""Rules that decide whether a pod's program was told to end before its end: such a program has not finished its work.

A program is told to end by its pod's deletion, or by its kubelet. The node dates the end and the API server dates the
deletion, and the two clocks may differ by a minute, so only dates more than a minute apart show the order. Within a
minute, a grace proves that the request came first, since the API server gives an ended pod no grace. Without a grace
the order is unknown.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

from crawler_lifecycle.adapters.kubernetes.objects import Pod
from crawler_lifecycle.adapters.kubernetes.observe import failure, pods
from crawler_lifecycle.domain.reasons import DELETED_EXTERNALLY

TWO_CLOCKS = timedelta(minutes=1)


def told_to_end(own_pods: Sequence[Pod], ended_as: str = pods.SUCCEEDED) -> bool | None:
    """Return whether pods that ended in the phase were told to end. None: no pod can decide.

    A single pod that ended without a request is enough for False: its program has finished the work.
    """
    answers = {pod_told_to_end(pod) for pod in own_pods if pods.phase(pod) == ended_as}
    if False in answers:
        return False
    return True if True in answers else None


def told_by(own_pods: Sequence[Pod], job_deleted: datetime | None = None) -> str | None:
    """Return the author of the request as a reason of failure; None: an unnamed client deleted the pod."""
    disruptions = sorted(word for pod in own_pods if (word := failure.disruption(pod)))
    return disruptions[0] if disruptions else DELETED_EXTERNALLY if job_deleted else None


def pod_told_to_end(pod: Pod) -> bool | None:
    """Return whether the pod's main container was told to end before its end. None: unknown."""
    end = pods.end_of_main(pod)
    ended = end.finished_at if end else None
    disruption = pods.condition(pod, failure.DISRUPTION)
    disrupted = disruption.last_transition_time if disruption and disruption.is_true else None
    if disruption and disruption.is_true and disruption.reason == failure.BY_KUBELET:
        # the kubelet dates both with one clock, and deletes no pod: a missing date leaves the order unknown
        return None if ended is None or disrupted is None else disrupted <= ended
    deleted, grace = pod.metadata.deletion_timestamp, pod.metadata.deletion_grace_period_seconds
    if deleted is None:
        return False  # a disruption alone only announces a deletion, and the deletion may fail
    # `deleted` is the grace's end. When a node later deletes the finished pod for good, with grace 0, the API server
    # sets `deleted` back to the first request's time. So `told_at` is the request's time in both cases.
    told_at = deleted - timedelta(seconds=grace or 0)
    if ended and ended > told_at + TWO_CLOCKS:
        return True
    if ended and ended < told_at - TWO_CLOCKS:
        return False
    return True if grace else None
