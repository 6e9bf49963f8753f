"""Was a pod that ended with 0 told to end before it did? A program that ends in order when it is asked to was not done.

All times are the cluster's own, in whole seconds: what was told in the second in which it ended counts as told.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from crawler_lifecycle.adapters.kubernetes import failure, pods
from crawler_lifecycle.adapters.kubernetes.objects import Pod
from crawler_lifecycle.domain.reasons import DELETED_EXTERNALLY


def was_told(found: Sequence[Pod], job_deleted: datetime | None = None) -> bool | None:
    """Of the pods of one job, those that succeeded. None: nothing is left that could tell."""
    answers = {_was_told(pod, job_deleted) for pod in found if pods.phase(pod) == pods.SUCCEEDED}
    return next((each for each in (False, True) if each in answers), None)


def by_whom(found: Sequence[Pod], job_deleted: datetime | None = None) -> str | None:
    """In one word of those for failures; None: somebody deleted the pod."""
    disruptions = sorted(word for pod in found if (word := failure.disruption(pod)))
    return disruptions[0] if disruptions else DELETED_EXTERNALLY if job_deleted else None


def _was_told(pod: Pod, job_deleted: datetime | None) -> bool | None:
    signs = list(_signs(pod, job_deleted))
    end = pods.end_of_main(pod)
    ended = end.finished_at if end else None
    if ended is not None and any(told is not None and told <= ended for told in signs):
        return True
    return None if signs and (ended is None or None in signs) else False


def _signs(pod: Pod, job_deleted: datetime | None) -> Iterator[datetime | None]:
    """When it was told, each by another. None: at a time that nobody knows any more."""
    if job_deleted:
        yield job_deleted
    deleted = pod.metadata.deletion_timestamp
    disruption = pods.condition(pod, failure.DISRUPTION)
    # it only announces a deletion, and stays if that fails: for minutes, or for ever once the pod has ended
    if disruption and disruption.is_true and (deleted or disruption.reason == failure.BY_KUBELET):
        yield disruption.last_transition_time
    if deleted is not None:
        grace = pod.metadata.deletion_grace_period_seconds or 0
        yield deleted - timedelta(seconds=grace)  # it is dated to the end of the grace
        if (
            not grace
        ):  # and again when its node is done with it, or somebody cleans up: by then it has no grace any more
            yield None
