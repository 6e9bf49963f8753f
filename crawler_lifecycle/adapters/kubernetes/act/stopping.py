"""How are jobs asked to end, and made to?

A Job is deleted, and its pods with it, in the foreground: it stays in sight until the last of its pods is gone. What is
deleted is exactly what was read: a job that ends in the same moment has changed since, and keeps its end.
"""

import logging
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
from crawler_lifecycle.domain.looks import JobKey
from crawler_lifecycle.errors import PermanentError, TemporaryError
from crawler_lifecycle.ports import NO_UIDS, KeepFacts, keep_no_facts

logger = logging.getLogger(__name__)
PODS_SECONDS = 8.0  # to read the pods whose facts are kept and whose logs are listened to
LISTEN_SECONDS, HURRIED_SECONDS = 10.0, 2.0  # that the jobs of one call may wait for somebody who listens
FEW = 20
TRIES = 5  # against a job that changes between the reading and the deleting
IS_ENDING = ("Complete", "Failed", "SuccessCriteriaMet", "FailureTarget")
TOLD_BY_THEN = timedelta(minutes=5)  # the garbage collector passes a Job's deletion on to its pods within seconds
LONG_DUE = timedelta(minutes=1)  # its node kills it when its grace is over
NODES_SECONDS = 20.0  # of asking nodes; the step around has a minute or two
AT_ONCE = {"gracePeriodSeconds": 0}


@dataclass(frozen=True, slots=True)
class Stopping:
    jobs: Jobs
    listening: Listening

    def ask(
        self,
        run_uid: str,
        keys: Sequence[JobKey],
        uids: Mapping[JobKey, str] = NO_UIDS,
        *,
        hurried: bool = False,
        keep: KeepFacts = keep_no_facts,
    ) -> None:
        """Ask Jobs first, since a Job makes its pod anew; then the pods whom no Job tells."""
        living = self._living_pods(run_uid, keys, uids, keep)
        told = self._delete_jobs(run_uid, keys, uids, living, HURRIED_SECONDS if hurried else LISTEN_SECONDS)
        left = self._left_pods(run_uid, [key for key in keys if key not in told])
        self._end_pods([*left, *_of_earlier_jobs(living, told)], {})

    def kill(
        self,
        run_uid: str,
        keys: Sequence[JobKey],
        uids: Mapping[JobKey, str] = NO_UIDS,
        keep: KeepFacts = keep_no_facts,
    ) -> None:
        """End them without asking. A pod that is gone from the API server may still run on a node that is cut off."""
        try:
            living = self._living_pods(run_uid, keys, uids, keep)
            self._delete_jobs(run_uid, keys, uids, living, HURRIED_SECONDS)
        finally:  # what is in the way of one Job keeps no pod alive
            self._end_pods(self._left_pods(run_uid, keys), AT_ONCE)

    def _delete_jobs(
        self,
        run_uid: str,
        keys: Sequence[JobKey],
        uids: Mapping[JobKey, str],
        living: Mapping[JobKey, Sequence[Pod]],
        patience: float,
    ) -> dict[JobKey, str]:
        """The uids of those that tell their pods. Before each is deleted somebody listens to it, if there is anybody in
        time."""
        # a list goes through all jobs of the namespace: thirty deployers that end one each would ask for thirty
        listed = self.jobs.list_jobs(run_uid, keys) if len(keys) > FEW else {}
        until = time.monotonic() + patience

        def in_turn() -> Iterator[JobKey]:
            """In our own thread: those of the pool are for others as well, and some of these are forced."""
            for key in sorted(keys):
                for pod in living.get(key, ())[:1]:
                    is_told = pod.metadata.deletion_timestamp is not None
                    self.listening.begin(run_uid, key, pod, 0.0 if is_told else until)
                yield key

        def delete(key: JobKey) -> tuple[JobKey, str | None]:
            for pod in living.get(key, ())[:1]:
                self.listening.until_answered(pod, until)
            return key, self._delete_job(run_uid, key, listed.get(key), uids.get(key))

        done = self.jobs.for_each(delete, in_turn(), "not all jobs could be told to end")
        return {key: uid for key, uid in done if uid is not None}

    def _living_pods(
        self, run_uid: str, keys: Sequence[JobKey], uids: Mapping[JobKey, str], keep: KeepFacts
    ) -> dict[JobKey, list[Pod]]:
        """Return the living pods of these jobs, newest first, once the outcome facts of all their pods are kept.

        A list of pods that cannot be read delays no stop."""
        try:
            found = self.jobs.pods(run_uid, keys, time.monotonic() + PODS_SECONDS)
        except (TemporaryError, PermanentError) as error:
            message = "run %s: its pods cannot be read before its jobs are ended: no facts, no listening to logs: %s"
            logger.info(message, run_uid, error.message)
            return {}
        if facts := facts_by_uid(found, uids):
            keep(facts)
        return {key: living for key, pods in found.items() if (living := _living(pods))}

    def _left_pods(self, run_uid: str, keys: Sequence[JobKey]) -> list[Pod]:
        """These have to be known."""
        found = self.jobs.pods(run_uid, keys) if keys else {}
        return _living(pod for pods in found.values() for pod in pods)

    def _delete_job(self, run_uid: str, key: JobKey, listed: Job | None, on_record: str | None) -> str | None:
        """Return the uid of a Job that tells its pods. A Job that changed since it was listed is read by its name."""
        for _ in range(TRIES):
            job, listed = listed or self.jobs.read_job(run_uid, key, on_record), None
            if job is None:
                return None
            uid = job.metadata.uid
            if deleted := job.metadata.deletion_timestamp:
                return uid if self.jobs.api.clock.now() - deleted < TOLD_BY_THEN else None
            if is_ending(job):
                return uid
            try:
                self.jobs.delete(self.jobs.api.batch("jobs", job.metadata.name), job.metadata, "Foreground")
            except Missing:
                return None
            except ApiFailed as error:
                if error.status != 409:
                    raise
            else:
                return uid
        raise TemporaryError(f"the job of task {key[0]} changes faster than it can be told to end")

    def _end_pods(self, living: Sequence[Pod], options: dict[str, int]) -> None:
        """One that was asked already is only forced."""
        chosen = living if options else [pod for pod in living if not pod.metadata.deletion_timestamp]

        def delete(pod: Pod) -> None:
            try:
                self.jobs.delete(self.jobs.api.core("pods", pod.metadata.name), pod.metadata, None, options)
            except Missing:
                return
            except ApiFailed as error:
                if error.status != 409:  # another pod of that name, which the next round finds
                    raise

        self.jobs.for_each(delete, chosen, "not all pods could be told to end")


def is_ending(job: Job) -> bool:
    """It ends by itself, or has: to delete it now could only lose how."""
    status = job.status
    if status is None:
        return False
    return bool(status.succeeded) or any(
        condition.is_true and condition.type in IS_ENDING for condition in status.conditions or []
    )


def _of_earlier_jobs(living: Mapping[JobKey, Sequence[Pod]], told: Mapping[JobKey, str]) -> Iterator[Pod]:
    """Somebody took their Job from them, and another one of its name was made since: that tells only its own."""
    for key, uid in told.items():
        yield from (pod for pod in living.get(key, ()) if controller_uid(pod) not in (None, uid))


def _living(pods: Iterable[Pod]) -> list[Pod]:
    return [pod for pod in pods if not has_ended(pod)]


@dataclass(frozen=True, slots=True)
class Reaching:
    """Finds jobs that run on nodes which do not answer: a forced end removes their pods, and their programs may go on.

    Pods tell, and nodes: a node that answers can be asked for the log of a pod that runs there.
    """

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
        until = time.monotonic() + NODES_SECONDS

        def is_silent(node: str) -> bool:
            return time.monotonic() < until and not self.logs.can_be_asked(one_of_each[node])

        nodes = list(one_of_each)
        return {
            node for node, silent in zip(nodes, self.jobs.for_each(is_silent, nodes, "no node"), strict=True) if silent
        }


def _lives_on(pod: Pod) -> str | None:
    return None if pods.has_ended(pod) or pod.spec is None else pod.spec.node_name


def _is_given_up(pod: Pod, now: datetime) -> bool:
    """By the control plane, or as what it should have been ended by has not come."""
    due = pod.metadata.deletion_timestamp
    return pods.is_out_of_sight(pod) or (due is not None and now - due > LONG_DUE)
