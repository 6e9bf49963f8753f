"""Decide whether a pod's program was told to end before its end: such a program has not finished its work.

A program is told to end by its pod's deletion, or by the kubelet, the agent on its node. The node's clock dates the end
and the API server's clock the deletion, and the two clocks may differ by a minute, so only dates more than a minute
apart show the order. Within a minute, a grace proves that the request came first, since the API server gives an ended
pod no grace. Without a grace the order is unknown.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

from crawler_lifecycle.adapters.kubernetes.objects import Pod
from crawler_lifecycle.adapters.kubernetes.observe import failure, pods
from crawler_lifecycle.domain.reasons import DELETED_EXTERNALLY

CLOCK_DIFFERENCE = timedelta(minutes=1)  # the clocks of a node and the API server differ by at most this time


def were_told_to_end(own_pods: Sequence[Pod]) -> bool | None:
    """Return whether the pods that succeeded were told to end before. None: no pod can decide.

    A single pod that succeeded without a request is enough for False: its program has finished the work.
    """
    answers = {was_told_to_end(pod) for pod in own_pods if pods.phase(pod) == pods.SUCCEEDED}
    if False in answers:
        return False
    return True if True in answers else None


def author_of_request(own_pods: Sequence[Pod], job_deleted_at: datetime | None = None) -> str | None:
    """Return, as a reason for failure, the author: a disruption, or a client that deleted the Job.

    None: an unnamed client deleted the pods alone.
    """
    disruptions = sorted(reason for pod in own_pods if (reason := failure.disruption(pod)))
    if disruptions:
        return disruptions[0]
    return DELETED_EXTERNALLY if job_deleted_at else None


def was_told_to_end(pod: Pod) -> bool | None:
    """Return whether the pod's main container was told to end before its end. None: unknown."""
    end = pods.end_of_main(pod)
    ended_at = end.finished_at if end else None
    disruption = pods.condition(pod, failure.DISRUPTION)
    if disruption and disruption.is_true and disruption.reason == failure.BY_KUBELET:
        # the kubelet dates both with one clock, and deletes no pod: a missing date leaves the order unknown
        disrupted_at = disruption.last_transition_time
        return None if ended_at is None or disrupted_at is None else disrupted_at <= ended_at
    grace_end, grace = pod.metadata.deletion_timestamp, pod.metadata.deletion_grace_period_seconds
    if grace_end is None:
        return False  # a disruption alone only announces a deletion, and the deletion may fail
    # When a node later deletes the finished pod for good, the API server sets the grace to 0, and `grace_end` back to
    # the first request's time. So `told_at` is the first request's time in both cases.
    told_at = grace_end - timedelta(seconds=grace or 0)
    if ended_at and ended_at > told_at + CLOCK_DIFFERENCE:
        return True
    if ended_at and ended_at < told_at - CLOCK_DIFFERENCE:
        return False
    return True if grace else None
