"""Rules that decide whether a pod's program was told to end before its end: such a program has not finished its work.

Only the deletion of a pod, or its kubelet, tells a program to end. The node dates the end and the API server dates the
deletion, and the two clocks may differ by a minute: dates that differ by more than a minute show the order. Within a
minute, a grace proves the request, since the API server gives an ended pod no grace. Without a grace the order is
unknown.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

from crawler_lifecycle.adapters.kubernetes.objects import Pod
from crawler_lifecycle.adapters.kubernetes.observe import failure, pods
from crawler_lifecycle.domain.reasons import DELETED_EXTERNALLY

TWO_CLOCKS = timedelta(minutes=1)


def told_to_end(own_pods: Sequence[Pod], ended_as: str = pods.SUCCEEDED) -> bool | None:
    """Return whether pods that ended in this phase were told to end. None: no pod can decide."""
    answers = {pod_told_to_end(pod) for pod in own_pods if pods.phase(pod) == ended_as}
    return next((answer for answer in (False, True) if answer in answers), None)


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
    # The date is the end of the grace. A node deletes a finished pod again without a grace; the API server then dates
    # the deletion back to the first request, so the request's time is known in both cases.
    told_at = deleted - timedelta(seconds=grace or 0)
    if ended and ended > told_at + TWO_CLOCKS:
        return True
    if ended and ended < told_at - TWO_CLOCKS:
        return False
    return True if grace else None
