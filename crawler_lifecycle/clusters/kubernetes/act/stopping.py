"""Stops: jobs are asked to end, or forced.

A Job is deleted with its pods in the foreground: the Job stays in sight until its last pod is gone. Only the version as
read is deleted: a job that ends in the same moment has changed since, and keeps its end. A Job with a job's labels and
another name, such as a person's copy, is ended as well, once the job's own Job is gone.
"""

import logging
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

from crawler_lifecycle.clusters.kubernetes.http.answers import ApiFailed, Missing
from crawler_lifecycle.clusters.kubernetes.logs.follower import Listening
from crawler_lifecycle.clusters.kubernetes.logs.store import Logs
from crawler_lifecycle.clusters.kubernetes.objects import Job, Metadata, Pod
from crawler_lifecycle.clusters.kubernetes.observe import pods
from crawler_lifecycle.clusters.kubernetes.observe.jobs import Jobs
from crawler_lifecycle.clusters.kubernetes.observe.outcome_facts import facts_by_uid
from crawler_lifecycle.clusters.kubernetes.observe.pods import controller_uid, has_ended
from crawler_lifecycle.clusters.ports import NO_UIDS, KeepFacts, Uids, keep_no_facts
from crawler_lifecycle.errors import LifecycleError, TemporaryError
from crawler_lifecycle.model.looks import JobKey, JobLook, OutcomeFacts

logger = logging.getLogger(__name__)
# A stop that cannot read its pods within this time continues without facts and logs.
PODS_SECONDS = 8.0
# A call waits at most this long, for all its jobs together, until listeners to their logs have begun.
LISTEN_SECONDS, HURRIED_SECONDS = 10.0, 2.0
MOST_READ_SINGLY = 20  # if a call ends more Jobs than this, the Jobs are read by lists
DELETION_TRIES = 5  # a Job that changes between reading and deletion is read and deleted at most this many times
CONDITIONS_OF_AN_END = ("Complete", "Failed", "SuccessCriteriaMet", "FailureTarget")
# The garbage collector passes a Job's deletion on to its pods within seconds. After this time it seems not to work, and
# pods are deleted singly.
DELETION_PASSED_ON_WITHIN = timedelta(minutes=5)
# A node kills a pod at the end of its grace. A pod that is still listed this long afterwards is on a cut-off node.
CUT_OFF_AFTER = timedelta(minutes=1)
# Later than this in a call no further node is asked: the surrounding step has a minute or two.
NODES_SECONDS = 20.0
WITHOUT_GRACE = {"gracePeriodSeconds": 0}
NOT_ALL_JOBS = "not all jobs could be asked to end"
CONFLICT = 409  # status of the answer if the object differs from the object as read


@dataclass(frozen=True, slots=True)
class JobEnding:
    """The Job whose deletion, or whose own end, also ends its pods."""

    uid: str
    manager: str | None  # the Job's controller, unless the cluster's own runs the Job


@dataclass(frozen=True, slots=True)
class JobStopping:
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
    ) -> dict[JobKey, str]:
        """Ask the jobs to end: delete their Jobs first, since a Job replaces its pod, then the pods that no Job ends.

        Return the jobs under another controller. If `keep` raises Fenced, no job and no pod is ended: they may
        belong to a later supervisor.
        """
        living = self._living_pods(run_uid, keys, uids, keep)
        listen_seconds = HURRIED_SECONDS if hurried else LISTEN_SECONDS
        ending = self._delete_jobs(run_uid, keys, uids, living, listen_seconds)
        remaining = self._remaining_pods(run_uid, [key for key in keys if key not in ending])
        self._end_pods([*remaining, *_pods_of_earlier_jobs(living, {key: job.uid for key, job in ending.items()})])
        return {key: job.manager for key, job in ending.items() if job.manager}

    def give_up(self, run_uid: str, waiting: Sequence[JobLook]) -> set[JobKey]:
        """Delete the Jobs exactly as the look has shown them. Return the keys of the deleted Jobs.

        A Job changes as soon as the Job controller sees that the Job has a pod, or a ready pod, and then stays. Its
        pods are listed again as well, since the controller sees a started pod a moment later.
        """
        try:
            pods_by_key = self.jobs.pods(run_uid, [(job.task, job.attempt) for job in waiting])
        except LifecycleError as error:
            logger.info("run %s: jobs that wait in vain stay, since their pods cannot be read: %s", run_uid, error)
            return set()

        def delete(job: JobLook) -> JobKey | None:
            key = job.task, job.attempt
            if job.version is None or any(pods.phase(pod) != pods.PENDING for pod in pods_by_key.get(key, ())):
                return None
            metadata = Metadata(name=job.name, uid=job.uid, resource_version=job.version)
            try:
                self.jobs.delete(self.jobs.api.jobs_path(job.name), metadata, "Foreground")
            except LifecycleError as error:
                logger.info("run %s: %s waits in vain and stays for now: %s", run_uid, job.name, error)
                return None
            return key

        return {key for key in self.jobs.for_each(delete, waiting, NOT_ALL_JOBS) if key is not None}

    def kill(
        self,
        run_uid: str,
        keys: Sequence[JobKey],
        uids: Uids = NO_UIDS,
        keep: KeepFacts = keep_no_facts,
    ) -> None:
        """End the jobs without grace: delete their Jobs, then their living pods, even if a Job cannot be deleted.

        A pod that is gone from the API server may still run on a cut-off node. If `keep` raises Fenced, no job and no
        pod is ended: they may belong to a later supervisor.
        """
        living = self._living_pods(run_uid, keys, uids, keep)
        try:
            self._delete_jobs(run_uid, keys, uids, living, HURRIED_SECONDS)
        except LifecycleError:  # the pods have to end, although a Job could not be deleted
            with suppress(LifecycleError):  # the caller gets the first error, about the Jobs
                self._end_pods(self._remaining_pods(run_uid, keys), forced=True)
            raise
        self._end_pods(self._remaining_pods(run_uid, keys), forced=True)

    def _delete_jobs(
        self,
        run_uid: str,
        keys: Sequence[JobKey],
        uids: Uids,
        living: Mapping[JobKey, Sequence[Pod]],
        listen_seconds: float,
    ) -> dict[JobKey, JobEnding]:
        """Delete the Jobs. Return, by job, the Jobs whose end also ends their pods.

        Before its deletion a job's newest living pod gets a listener, if there is room for the listener within
        `listen_seconds`.
        """
        # a list reads all jobs in the namespace: thirty deployers that end a single job would cause thirty lists
        listed = self.jobs.list_jobs(run_uid, keys) if len(keys) > MOST_READ_SINGLY else {}
        listen_until = time.monotonic() + listen_seconds

        def keys_with_listeners() -> Iterator[JobKey]:
            """Begin a job's listener, then yield the job's key.

            Our own thread waits for a free place among the listeners: the pool's threads also serve other stops.
            """
            for key in sorted(keys):
                for pod in living.get(key, ())[:1]:
                    is_ending_already = pod.metadata.deletion_timestamp is not None  # no time to wait for a place
                    self.listening.begin(run_uid, key, pod, until=0.0 if is_ending_already else listen_until)
                yield key

        def delete(key: JobKey) -> tuple[JobKey, JobEnding | None]:
            for pod in living.get(key, ())[:1]:
                self.listening.wait_for_answer(pod, listen_until)
            return key, self._delete_job(run_uid, key, listed.get(key), uid_on_record=uids.get(key))

        ending = dict(self.jobs.for_each(delete, keys_with_listeners(), NOT_ALL_JOBS))
        if without_job := [key for key, job in ending.items() if job is None]:
            self.jobs.for_each(self._delete_copy, self.jobs.under_other_names(run_uid, without_job), NOT_ALL_JOBS)
        return {key: job for key, job in ending.items() if job is not None}

    def _living_pods(
        self, run_uid: str, keys: Sequence[JobKey], uids: Uids, keep: KeepFacts
    ) -> dict[JobKey, list[Pod]]:
        """Return the jobs' living pods, newest first, after keeping the outcome facts of all their pods.

        Return nothing if the pods cannot be read in time: a stop must not wait for facts and logs.
        """
        try:
            pods_by_key = self.jobs.pods(run_uid, keys, time.monotonic() + PODS_SECONDS)
        except LifecycleError as error:
            message = "run %s: its pods cannot be read before its jobs are ended: no facts, no listening to logs: %s"
            logger.info(message, run_uid, error.message)
            return {}
        if facts := _outcome_facts(run_uid, pods_by_key, uids):
            keep(facts)
        return {key: living for key, pods in pods_by_key.items() if (living := _living(pods))}

    def _remaining_pods(self, run_uid: str, keys: Sequence[JobKey]) -> list[Pod]:
        """Return the jobs' living pods. An unreadable list is an error, since pods would continue unnoticed."""
        pods_by_key = self.jobs.pods(run_uid, keys) if keys else {}
        return _living(pod for pods in pods_by_key.values() for pod in pods)

    def _delete_job(
        self, run_uid: str, key: JobKey, listed: Job | None, *, uid_on_record: str | None
    ) -> JobEnding | None:
        """Delete the Job. Return the Job if its deletion or its own end also ends its pods.

        Return None if the caller has to end the pods: the Job does not exist, or was deleted longer ago than
        DELETION_PASSED_ON_WITHIN, so that the cluster seems not to pass the deletion on.
        """
        for _ in range(DELETION_TRIES):
            job = listed or self.jobs.read_job(run_uid, key, uid_on_record)
            listed = None  # a next turn reads the Job again, since the listed Job has changed
            if job is None:
                return None
            ending = JobEnding(job.metadata.uid, job.other_manager)
            if deleted := job.metadata.deletion_timestamp:
                return ending if self.jobs.api.clock.now() - deleted < DELETION_PASSED_ON_WITHIN else None
            try:
                if self._delete_once(job):
                    return ending
            except Missing:
                return None
        raise TemporaryError(f"the job of task {key[0]} changes faster than it can be asked to end")

    def _delete_copy(self, job: Job) -> None:
        """Delete the Job under another name; after a change meanwhile, the next round sees the Job."""
        with suppress(Missing):
            self._delete_once(job)

    def _delete_once(self, job: Job) -> bool:
        """Delete the Job as read. Return False if the Job has changed since. Leave an ending Job alone."""
        if job.metadata.deletion_timestamp is not None or _is_ending(job):
            return True
        try:
            self.jobs.delete(self.jobs.api.jobs_path(job.metadata.name), job.metadata, "Foreground")
        except ApiFailed as error:
            if error.status != CONFLICT:
                raise
            return False
        return True

    def _end_pods(self, living: Sequence[Pod], *, forced: bool = False) -> None:
        """Delete the pods, by force without grace. Only force deletes a pod again that is already being deleted."""
        chosen = living if forced else [pod for pod in living if not pod.metadata.deletion_timestamp]
        options = WITHOUT_GRACE if forced else {}

        def delete(pod: Pod) -> None:
            try:
                self.jobs.delete(self.jobs.api.core_path("pods", pod.metadata.name), pod.metadata, None, options)
            except Missing:
                return
            except ApiFailed as error:
                if error.status != CONFLICT:  # another pod has the same name by now: the next round ends this pod
                    raise

        self.jobs.for_each(delete, chosen, "not all pods could be asked to end")


def _outcome_facts(run_uid: str, pods_by_key: Mapping[JobKey, Sequence[Pod]], uids: Uids) -> dict[JobKey, OutcomeFacts]:
    """Return the outcome facts of the jobs with a recorded uid. A fault in their computation delays no stop."""
    try:
        return facts_by_uid(pods_by_key, uids)
    except Exception:
        logger.exception("run %s: how its programs ended cannot be read from its pods", run_uid)
        return {}


def _is_ending(job: Job) -> bool:
    """Return whether the job is ending on its own or has ended: a deletion could only lose its outcome."""
    status = job.status
    if status is None:
        return False
    return bool(status.succeeded) or any(
        condition.is_true and condition.type in CONDITIONS_OF_AN_END for condition in status.conditions or []
    )


def _pods_of_earlier_jobs(living: Mapping[JobKey, Sequence[Pod]], ending_uids: Uids) -> Iterator[Pod]:
    """Yield living pods of replaced Jobs: the new Job with the same name ends only its own pods."""
    for key, uid in ending_uids.items():
        yield from (pod for pod in living.get(key, ()) if controller_uid(pod) not in (None, uid))


def _living(pods: Iterable[Pod]) -> list[Pod]:
    return [pod for pod in pods if not has_ended(pod)]


@dataclass(frozen=True, slots=True)
class Reaching:
    """Reaching finds jobs on nodes that do not answer: a forced end removes their pods, and their programs may keep
    running.

    A node does not answer if it cannot send the log of its pod, or if the control plane's data about the pod say so.
    """

    jobs: Jobs
    logs: Logs

    def unreached(self, run_uid: str, keys: Sequence[JobKey]) -> dict[JobKey, str]:
        """Return the jobs on nodes that do not answer, with the node's name."""
        pods_by_key = self.jobs.pods(run_uid, keys) if keys else {}
        living = [
            (key, pod, node)
            for key, pods_of_job in pods_by_key.items()
            for pod in pods_of_job
            if (node := _node_of_living(pod))
        ]
        silent_nodes = self._silent_nodes({node: pod for _, pod, node in living})
        now = self.jobs.api.clock.now()
        return {key: node for key, pod, node in living if node in silent_nodes or _is_given_up(pod, now)}

    def _silent_nodes(self, pod_by_node: dict[str, Pod]) -> set[str]:
        """Ask each node for the log of its pod, and return the silent nodes.

        A node that is not asked in time is left out; its pods alone decide.
        """
        until = time.monotonic() + NODES_SECONDS

        def is_silent(node: str) -> bool:
            return time.monotonic() < until and not self.logs.node_answers(pod_by_node[node])

        nodes = list(pod_by_node)
        answers = self.jobs.for_each(is_silent, nodes, "not all nodes could be asked for a log")
        return {node for node, silent in zip(nodes, answers, strict=True) if silent}


def _node_of_living(pod: Pod) -> str | None:
    return None if pods.has_ended(pod) or pod.spec is None else pod.spec.node_name


def _is_given_up(pod: Pod, now: datetime) -> bool:
    """Return whether the control plane gave the pod up, or its grace ended more than CUT_OFF_AFTER ago."""
    grace_end = pod.metadata.deletion_timestamp
    return pods.is_out_of_sight(pod) or (grace_end is not None and now - grace_end > CUT_OFF_AFTER)
