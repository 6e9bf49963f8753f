"""Stops: jobs are asked to end, or forced.

A Job is deleted with its pods in the foreground: the Job stays in sight until its last pod is gone. Only the version as
read is deleted: a job that ends in the same moment has changed since, and keeps its end.
"""

import logging
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

from crawler_lifecycle.adapters.kubernetes.http.answers import ApiFailed, Missing
from crawler_lifecycle.adapters.kubernetes.logs.follower import Listening
from crawler_lifecycle.adapters.kubernetes.logs.store import Logs
from crawler_lifecycle.adapters.kubernetes.objects import Job, Pod
from crawler_lifecycle.adapters.kubernetes.observe import pods
from crawler_lifecycle.adapters.kubernetes.observe.jobs import Jobs
from crawler_lifecycle.adapters.kubernetes.observe.outcome_facts import facts_by_uid
from crawler_lifecycle.adapters.kubernetes.observe.pods import controller_uid, has_ended
from crawler_lifecycle.contract.outcome_facts import OutcomeFacts
from crawler_lifecycle.domain.looks import JobKey
from crawler_lifecycle.errors import LifecycleError, TemporaryError
from crawler_lifecycle.ports import NO_UIDS, KeepFacts, Uids, keep_no_facts

logger = logging.getLogger(__name__)
PODS_SECONDS = 8.0  # for reading pods, to keep their facts and to listen to their logs
LISTEN_SECONDS, HURRIED_SECONDS = 10.0, 2.0  # for listeners to begin, in all for the jobs in a call
FEW = 20  # jobs; more are read by lists
TRIES = 5  # against a job that changes between reading and deletion
IS_ENDING = ("Complete", "Failed", "SuccessCriteriaMet", "FailureTarget")
TOLD_BY_THEN = timedelta(minutes=5)  # the garbage collector passes a Job's deletion on to its pods within seconds
LONG_DUE = timedelta(minutes=1)  # a node kills a pod when its grace is over, unless the node is cut off
NODES_SECONDS = 20.0  # for requests to nodes; the surrounding step has a minute or two
AT_ONCE = {"gracePeriodSeconds": 0}


@dataclass(frozen=True, slots=True)
class Stopping:
    jobs: Jobs
    listening: Listening

    def ask(
        self,
        run_uid: str,
        keys: Sequence[JobKey],
        uids: Uids = NO_UIDS,
        *,
        hurried: bool = False,
        keep: KeepFacts = keep_no_facts,
    ) -> None:
        """Ask Jobs first, since a Job replaces its pod; then ask the pods that no Job ends."""
        living = self._living_pods(run_uid, keys, uids, keep)
        ending_uids = self._delete_jobs(run_uid, keys, uids, living, HURRIED_SECONDS if hurried else LISTEN_SECONDS)
        remaining = self._remaining_pods(run_uid, [key for key in keys if key not in ending_uids])
        self._end_pods([*remaining, *_pods_of_earlier_jobs(living, ending_uids)], {})

    def kill(
        self,
        run_uid: str,
        keys: Sequence[JobKey],
        uids: Uids = NO_UIDS,
        keep: KeepFacts = keep_no_facts,
    ) -> None:
        """End jobs without asking. A pod that is gone from the API server may still run on a cut-off node.

        Fenced by `keep`: no job and no pod is ended, since they may belong to a later supervisor.
        """
        living = self._living_pods(run_uid, keys, uids, keep)
        try:
            self._delete_jobs(run_uid, keys, uids, living, HURRIED_SECONDS)
        except LifecycleError:  # a Job that cannot be deleted keeps no pod alive
            with suppress(LifecycleError):  # the first problem is raised
                self._end_pods(self._remaining_pods(run_uid, keys), AT_ONCE)
            raise
        self._end_pods(self._remaining_pods(run_uid, keys), AT_ONCE)

    def _delete_jobs(
        self,
        run_uid: str,
        keys: Sequence[JobKey],
        uids: Uids,
        living: Mapping[JobKey, Sequence[Pod]],
        patience: float,
    ) -> dict[JobKey, str]:
        """Delete Jobs, and return the uids of Jobs that end their own pods.

        Before its deletion a job's log gets a listener, if a listener is free in time.
        """
        # a list reads all jobs in the namespace: thirty deployers that end a single job would cause thirty lists
        listed = self.jobs.list_jobs(run_uid, keys) if len(keys) > FEW else {}
        until = time.monotonic() + patience

        def keys_with_listeners() -> Iterator[JobKey]:
            """Begin the job's listener before its key is passed on.

            The listeners wait for a free place in our own thread: the pool's threads also serve other stops.
            """
            for key in sorted(keys):
                for pod in living.get(key, ())[:1]:
                    is_ending_already = pod.metadata.deletion_timestamp is not None  # no time to wait for a place
                    self.listening.begin(run_uid, key, pod, 0.0 if is_ending_already else until)
                yield key

        def delete(key: JobKey) -> tuple[JobKey, str | None]:
            for pod in living.get(key, ())[:1]:
                self.listening.until_answered(pod, until)
            return key, self._delete_job(run_uid, key, listed.get(key), uids.get(key))

        done = self.jobs.for_each(delete, keys_with_listeners(), "not all jobs could be told to end")
        return {key: uid for key, uid in done if uid is not None}

    def _living_pods(
        self, run_uid: str, keys: Sequence[JobKey], uids: Uids, keep: KeepFacts
    ) -> dict[JobKey, list[Pod]]:
        """Return the jobs' living pods, newest first, after keeping the outcome facts of all their pods.

        Pods that cannot be read delay no stop.
        """
        try:
            pods_by_key = self.jobs.pods(run_uid, keys, time.monotonic() + PODS_SECONDS)
        except LifecycleError as error:
            message = "run %s: its pods cannot be read before its jobs are ended: no facts, no listening to logs: %s"
            logger.info(message, run_uid, error.message)
            return {}
        if facts := _facts(run_uid, pods_by_key, uids):
            keep(facts)
        return {key: living for key, pods in pods_by_key.items() if (living := _living(pods))}

    def _remaining_pods(self, run_uid: str, keys: Sequence[JobKey]) -> list[Pod]:
        """Return the jobs' living pods; here an unreadable list is an error."""
        pods_by_key = self.jobs.pods(run_uid, keys) if keys else {}
        return _living(pod for pods in pods_by_key.values() for pod in pods)

    def _delete_job(self, run_uid: str, key: JobKey, listed: Job | None, on_record: str | None) -> str | None:
        """Delete the Job. Return its uid if its deletion or its own end also ends its pods, else None.

        None also if the Job was deleted longer ago than TOLD_BY_THEN: the cluster seems not to pass the deletion on, so
        the caller ends the pods.
        """
        for _ in range(TRIES):
            job = listed or self.jobs.read_job(run_uid, key, on_record)
            listed = None  # the next turn reads a Job that has changed since
            if job is None:
                return None
            uid = job.metadata.uid
            if deleted := job.metadata.deletion_timestamp:
                return uid if self.jobs.api.clock.now() - deleted < TOLD_BY_THEN else None
            if is_ending(job):
                return uid
            try:
                self.jobs.delete(self.jobs.api.jobs_path(job.metadata.name), job.metadata, "Foreground")
            except Missing:
                return None
            except ApiFailed as error:
                if error.status != 409:
                    raise
            else:
                return uid
        raise TemporaryError(f"the job of task {key[0]} changes faster than it can be told to end")

    def _end_pods(self, living: Sequence[Pod], options: dict[str, int]) -> None:
        """Delete the pods. Only force deletes a pod again that is already being deleted."""
        chosen = living if options else [pod for pod in living if not pod.metadata.deletion_timestamp]

        def delete(pod: Pod) -> None:
            try:
                self.jobs.delete(self.jobs.api.core_path("pods", pod.metadata.name), pod.metadata, None, options)
            except Missing:
                return
            except ApiFailed as error:
                if error.status != 409:  # another pod with the same name: the next round ends it
                    raise

        self.jobs.for_each(delete, chosen, "not all pods could be told to end")


def _facts(run_uid: str, pods_by_key: Mapping[JobKey, Sequence[Pod]], uids: Uids) -> dict[JobKey, OutcomeFacts]:
    """Return the outcome facts of the jobs with a uid on record. A fault in their computation delays no stop."""
    try:
        return facts_by_uid(pods_by_key, uids)
    except Exception:
        logger.exception("run %s: how its programs ended cannot be read from its pods", run_uid)
        return {}


def is_ending(job: Job) -> bool:
    """Return whether the job ends by itself or has ended: a deletion could only lose its outcome."""
    status = job.status
    if status is None:
        return False
    return bool(status.succeeded) or any(
        condition.is_true and condition.type in IS_ENDING for condition in status.conditions or []
    )


def _pods_of_earlier_jobs(living: Mapping[JobKey, Sequence[Pod]], ending_uids: Uids) -> Iterator[Pod]:
    """Yield living pods of replaced Jobs: the new Job with the same name ends only its own pods."""
    for key, uid in ending_uids.items():
        yield from (pod for pod in living.get(key, ()) if controller_uid(pod) not in (None, uid))


def _living(pods: Iterable[Pod]) -> list[Pod]:
    return [pod for pod in pods if not has_ended(pod)]


@dataclass(frozen=True, slots=True)
class Reaching:
    """Reaching finds jobs on nodes that do not answer: a forced end removes their pods, and their programs may go on.

    Pods show such nodes, and so do nodes: a node that answers can send the log of a pod that runs there.
    """

    jobs: Jobs
    logs: Logs

    def unreached(self, run_uid: str, keys: Sequence[JobKey]) -> dict[JobKey, str]:
        """Return the jobs on nodes that do not answer, with the node's name."""
        pods_by_key = self.jobs.pods(run_uid, keys) if keys else {}
        living = [
            (key, pod, node) for key, several in pods_by_key.items() for pod in several if (node := _lives_on(pod))
        ]
        silent = self._silent({node: pod for _, pod, node in living})
        now = self.jobs.api.clock.now()
        return {key: node for key, pod, node in living if node in silent or _is_given_up(pod, now)}

    def _silent(self, pod_by_node: dict[str, Pod]) -> set[str]:
        until = time.monotonic() + NODES_SECONDS

        def is_silent(node: str) -> bool:
            return time.monotonic() < until and not self.logs.node_answers(pod_by_node[node])

        nodes = list(pod_by_node)
        return {
            node for node, silent in zip(nodes, self.jobs.for_each(is_silent, nodes, "no node"), strict=True) if silent
        }


def _lives_on(pod: Pod) -> str | None:
    return None if pods.has_ended(pod) or pod.spec is None else pod.spec.node_name


def _is_given_up(pod: Pod, now: datetime) -> bool:
    """Return whether the control plane gave the pod up, or the pod is overdue."""
    due = pod.metadata.deletion_timestamp
    return pods.is_out_of_sight(pod) or (due is not None and now - due > LONG_DUE)
