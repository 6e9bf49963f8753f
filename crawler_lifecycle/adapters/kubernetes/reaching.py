"""Which jobs run where nobody reaches them? Ended by force, their pods are gone at once, and what they ran may go on.

Told by the pods, and by the nodes: one that answers can be asked for the log of a pod that it runs.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from crawler_lifecycle.adapters.kubernetes import pods
from crawler_lifecycle.adapters.kubernetes.jobs import Jobs
from crawler_lifecycle.adapters.kubernetes.logs import Logs
from crawler_lifecycle.adapters.kubernetes.objects import Pod
from crawler_lifecycle.domain.looks import JobKey

LONG_DUE = timedelta(minutes=1)  # its node kills it when its grace is over
SECONDS = 20.0  # of asking nodes; the step around has a minute or two


@dataclass(frozen=True, slots=True)
class Reaching:
    jobs: Jobs
    logs: Logs

    def unreached(self, run_uid: str, keys: Sequence[JobKey]) -> dict[JobKey, str]:
        """Those that live on a node which does not answer, each with its node."""
        found = self.jobs.pods(run_uid, keys) if keys else {}
        living = [(key, pod, node) for key, several in found.items() for pod in several if (node := _lives_on(pod))]
        silent = self._silent({node: pod for _, pod, node in living})
        now = self.jobs.api.clock.now()
        return {key: node for key, pod, node in living if node in silent or _is_given_up(pod, now)}

    def _silent(self, one_of_each: dict[str, Pod]) -> set[str]:
        until = time.monotonic() + SECONDS

        def is_silent(node: str) -> bool:
            return time.monotonic() < until and not self.logs.can_be_asked(one_of_each[node])

        nodes = list(one_of_each)
        return {node for node, silent in zip(nodes, self.jobs.each(is_silent, nodes, "no node"), strict=True) if silent}


def _lives_on(pod: Pod) -> str | None:
    return None if pods.has_ended(pod) or pod.spec is None else pod.spec.node_name


def _is_given_up(pod: Pod, now: datetime) -> bool:
    """By the control plane, or as what it should have been ended by has not come."""
    due = pod.metadata.deletion_timestamp
    return pods.is_out_of_sight(pod) or (due is not None and now - due > LONG_DUE)
