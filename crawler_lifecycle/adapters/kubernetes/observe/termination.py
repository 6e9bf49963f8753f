"""Whether a pod that ended was told to end before. A program that ends in order when it is told to was not done.

Nothing but the deletion of a pod tells its program to end, or its kubelet. The node dates the end and the API server
dates the deletion, and two clocks may be a minute apart: dates that are further apart than a minute tell the order. In
between, a grace tells that the program was told, since the API server gives no grace to a pod that has ended. Without a
grace the order is not known.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

from crawler_lifecycle.adapters.kubernetes.objects import Pod
from crawler_lifecycle.adapters.kubernetes.observe import failure, pods
from crawler_lifecycle.domain.reasons import DELETED_EXTERNALLY

TWO_CLOCKS = timedelta(minutes=1)


def told_to_end(found: Sequence[Pod], ended_as: str = pods.SUCCEEDED) -> bool | None:
    """Return it of those pods of one job that ended so. None: nothing is left that could tell."""
    answers = {pod_told_to_end(pod) for pod in found if pods.phase(pod) == ended_as}
    return next((each for each in (False, True) if each in answers), None)


def told_by(found: Sequence[Pod], job_deleted: datetime | None = None) -> str | None:
    """Return one word of those for failures; None: somebody deleted the pod."""
    disruptions = sorted(word for pod in found if (word := failure.disruption(pod)))
    return disruptions[0] if disruptions else DELETED_EXTERNALLY if job_deleted else None


def pod_told_to_end(pod: Pod) -> bool | None:
    """Return whether the main container of this pod was told to end before it ended. None: it is not known."""
    end = pods.end_of_main(pod)
    ended = end.finished_at if end else None
    disruption = pods.condition(pod, failure.DISRUPTION)
    disrupted = disruption.last_transition_time if disruption and disruption.is_true else None
    if disruption and disrupted and disruption.reason == failure.BY_KUBELET:  # its clock is that of `ended`, too
        return None if ended is None else disrupted <= ended
    deleted, grace = pod.metadata.deletion_timestamp, pod.metadata.deletion_grace_period_seconds
    if deleted is None:
        return False  # a disruption alone only announces a deletion, which may fail
    # The date is the end of the grace. A node that is done with a pod deletes the pod again without a grace; the API
    # server then dates the deletion back to its first request, so the request's time is known in both cases.
    told_at = deleted - timedelta(seconds=grace or 0)
    if ended and ended > told_at + TWO_CLOCKS:
        return True
    if ended and ended < told_at - TWO_CLOCKS:
        return False
    return True if grace else None
