"""Removal of jobs whose end and evidence are stored; without removal every list would hold a week of jobs.

A job's log is kept first, among the run's files. For a silent or slow node the removal waits a while, and then keeps
the part received so far. A Job whose request may still be on its way has to stay: its name prevents a late copy from
starting the job again.
"""

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from crawler_lifecycle.base.pacing import ON_THE_WAY
from crawler_lifecycle.clusters.kubernetes.http.answers import ApiFailed, Missing
from crawler_lifecycle.clusters.kubernetes.logs.files import InTheWay
from crawler_lifecycle.clusters.kubernetes.logs.follower import Listening
from crawler_lifecycle.clusters.kubernetes.logs.store import Logs, no_log_exists, node_is_silent
from crawler_lifecycle.clusters.kubernetes.objects import LAST_MOMENT, Pod
from crawler_lifecycle.clusters.kubernetes.observe.job_status import deciding_pod, end_of
from crawler_lifecycle.clusters.kubernetes.observe.jobs import DatedJob, Jobs
from crawler_lifecycle.clusters.kubernetes.observe.pods import has_ended
from crawler_lifecycle.clusters.ports import NO_UIDS
from crawler_lifecycle.errors import TemporaryError
from crawler_lifecycle.model.looks import JobKey

logger = logging.getLogger(__name__)
LOG_PATIENCE = timedelta(minutes=10)  # a job stays at most this long after its end for a missing or incomplete log
# Jobs that no list shows, since their labels were edited, are read by their names. If the lists miss more Jobs than
# this, no missing Job is read, and the cluster removes these Jobs by their time to live.
MOST_BY_NAME = 20
# No job's removal begins later than this after the beginning of the call: a log may take 60 seconds, and the
# surrounding step has 120.
BEGIN_SECONDS = 40.0


@dataclass(frozen=True, slots=True)
class Removing:
    jobs: Jobs
    logs: Logs
    listening: Listening

    def remove(self, run_uid: str, keys: Sequence[JobKey], uids: Mapping[JobKey, str] = NO_UIDS) -> int:
        """Remove ended jobs of these tasks, up to the named attempts. Return how many jobs a later call has to remove.

        Jobs that run on, are being deleted or do not exist are left out of this number.
        """
        self.listening.wait(run_uid, set(keys))  # a follower may still be writing the last lines of a job's log
        latest_attempts = dict(sorted(keys))  # by task: a later key of the same task replaces the earlier key
        listed = self.jobs.list_dated(run_uid, latest_attempts)
        unlisted = {key: uid for key, uid in uids.items() if key not in listed and key[0] in latest_attempts}
        if 0 < len(unlisted) <= MOST_BY_NAME:
            listed |= self.jobs.read_dated(run_uid, unlisted)
        jobs = {key: job for key, job in listed.items() if key[1] <= latest_attempts[key[0]] and _is_removable(job)}
        pods = self.jobs.pods(run_uid, jobs) if jobs else {}

        begin_until = time.monotonic() + BEGIN_SECONDS

        def remove_or_postpone(key: JobKey) -> bool:
            if time.monotonic() > begin_until:
                return True
            return self._remove_or_postpone(run_uid, key, jobs[key], pods.get(key, []))

        postponed = self.jobs.for_each(remove_or_postpone, list(jobs), "not all jobs could be removed")
        return sum(postponed)

    def _remove_or_postpone(self, run_uid: str, key: JobKey, job: DatedJob, pods: list[Pod]) -> bool:
        """Keep the job's log and delete the Job. Return whether the deletion is postponed to a later call.

        The deletion is postponed while the log may still come, while the request may still arrive, and if the Job has
        changed since it was read.
        """
        if not all(has_ended(pod) for pod in pods):
            return False  # the job runs on, and does not count as postponed
        may_come_again = _may_come_again(job)
        if may_come_again and self.logs.is_place_taken(run_uid, *key):
            return True  # the Job stays for now; its log is fetched once more just before the deletion
        pod = deciding_pod(job, pods)
        try:
            is_log_settled = pod is None or self._settle_log(run_uid, key, job, pod)
        except OSError as error:
            raise TemporaryError(f"the log of a job cannot be kept: {error}") from error
        if may_come_again or not is_log_settled:
            return True
        try:
            self.jobs.delete(self.jobs.api.jobs_path(job.metadata.name), job.metadata, "Background")
        except Missing:
            return False
        except ApiFailed as error:
            if error.status == 409:  # the Job has changed since it was read
                return True
            raise
        return False

    def _settle_log(self, run_uid: str, key: JobKey, job: DatedJob, pod: Pod) -> bool:
        """Keep the pod's log. Return False if a later call may get the log, or its missing rest.

        True: the log is kept, or never will be: no log exists, the job has waited for
        LOG_PATIENCE, or something that is not ours is in the place of the log's file.
        """
        has_waited = _has_waited_for_log(job, self.jobs.api.clock.now())
        try:
            return self._keep_log(run_uid, key, pod, has_waited=has_waited)
        except InTheWay as error:
            logger.warning("run %s, task %s, attempt %s: its log is not kept: %s", run_uid, *key, error)
            self.logs.note_occupied_place(run_uid, str(error))
            return True

    def _keep_log(self, run_uid: str, key: JobKey, pod: Pod, *, has_waited: bool) -> bool:
        """Keep the log, after the wait even a part; if the node is silent after the wait, keep the reason instead.

        Return False if the node is silent before the end of the wait.
        """
        try:
            self.logs.keep(pod, run_uid, *key, part_is_enough=has_waited)
        except (Missing, ApiFailed) as error:
            if no_log_exists(error):
                return True
            if not node_is_silent(error):
                raise
            if has_waited:
                logger.warning("run %s, task %s, attempt %s: its log is lost: %s", run_uid, *key, error.message)
                self.logs.keep_problem(run_uid, *key, error.message)
            return has_waited
        return True


def _has_waited_for_log(job: DatedJob, now: datetime) -> bool:
    """Return whether the job ended at least LOG_PATIENCE ago, or at an unknown time."""
    end = end_of(job.status)
    ended_at = end.last_transition_time if end else None
    return ended_at is None or now - ended_at >= LOG_PATIENCE


def _is_removable(job: DatedJob) -> bool:
    """Return whether the job has ended and is not being deleted already."""
    return job.metadata.deletion_timestamp is None and end_of(job.status) is not None


def _may_come_again(job: DatedJob) -> bool:
    """Return whether a late copy of the job's request could still make the job anew."""
    annotations = job.metadata.annotations
    try:
        not_after = datetime.fromisoformat((annotations and annotations.not_after) or "")
        # a time after LAST_MOMENT comes from an edited annotation, and would keep the Job forever
        return datetime.now(UTC) - ON_THE_WAY < not_after < LAST_MOMENT
    except (ValueError, TypeError):
        return False  # the annotation is missing, as from another service, or empty, as without a limit, or was edited
