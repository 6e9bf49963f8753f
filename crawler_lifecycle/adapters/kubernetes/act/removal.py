"""Removal of jobs whose end and evidence are on record; without removal every list would hold a week of jobs.

A job's log is kept first, among the run's files. For a silent or slow node the removal waits a while, and then keeps
the part received so far. A Job whose request may still be on its way has to stay: its name prevents a late copy from
starting the job again.
"""

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from crawler_lifecycle.adapters.kubernetes.http.answers import ApiFailed, Missing
from crawler_lifecycle.adapters.kubernetes.logs.files import InTheWay
from crawler_lifecycle.adapters.kubernetes.logs.follower import Listening
from crawler_lifecycle.adapters.kubernetes.logs.store import Logs, is_gone, node_is_silent
from crawler_lifecycle.adapters.kubernetes.objects import LAST_MOMENT, Pod
from crawler_lifecycle.adapters.kubernetes.observe.job_status import end_of
from crawler_lifecycle.adapters.kubernetes.observe.jobs import DatedJob, Jobs
from crawler_lifecycle.adapters.kubernetes.observe.pods import has_ended
from crawler_lifecycle.domain.looks import JobKey
from crawler_lifecycle.errors import TemporaryError
from crawler_lifecycle.ports import NO_UIDS

logger = logging.getLogger(__name__)
PATIENCE = timedelta(minutes=10)  # since a job's end, for a log that is missing or incomplete
MOST_BY_NAME = 20  # Jobs whose labels may have been edited; the cluster removes further Jobs by their time to live
BEGIN_SECONDS = 40.0  # later no log is begun: a log may take 60 seconds, and the surrounding step has 120
ON_THE_WAY = timedelta(seconds=60)  # how long a request sent in time may take to arrive


@dataclass(frozen=True, slots=True)
class Removing:
    jobs: Jobs
    logs: Logs
    listening: Listening

    def remove(self, run_uid: str, keys: Sequence[JobKey], uids: Mapping[JobKey, str] = NO_UIDS) -> int:
        """Remove jobs, and return how many have to stay for now."""
        self.listening.wait(run_uid, set(keys))
        last = dict(sorted(keys))  # the latest named attempt by task
        listed = self.jobs.dated(run_uid, last)
        unlisted = {key: uid for key, uid in uids.items() if key not in listed}
        if 0 < len(unlisted) <= MOST_BY_NAME:
            listed |= self.jobs.dated_by_name(run_uid, unlisted)
        jobs = {key: job for key, job in listed.items() if key[1] <= last[key[0]] and _is_over(job)}
        pods = self.jobs.pods(run_uid, jobs) if jobs else {}

        begin_until = time.monotonic() + BEGIN_SECONDS

        def has_to_stay(key: JobKey) -> bool:
            if time.monotonic() > begin_until:
                return True
            return self._remove(run_uid, key, jobs[key], pods.get(key, []))

        return sum(self.jobs.for_each(has_to_stay, list(jobs), "not all jobs could be removed"))

    def _remove(self, run_uid: str, key: JobKey, job: DatedJob, pods: list[Pod]) -> bool:
        """Remove the job unless it has to stay for now, and return whether it has to."""
        if not all(has_ended(pod) for pod in pods):
            return False  # the job runs on, and does not count as a job that has to stay
        may_come_again = _may_come_again(job)
        if may_come_again and self.logs.is_kept(run_uid, *key):  # a kept log is fetched again only when the job leaves
            return True
        try:
            if (pods and not self._has_kept_log(run_uid, key, job, pods[0])) or may_come_again:
                return True
        except OSError as error:
            raise TemporaryError(f"the log of a job cannot be kept: {error}") from error
        try:
            self.jobs.delete(self.jobs.api.jobs_path(job.metadata.name), job.metadata, "Background")
        except Missing:
            return False
        except ApiFailed as error:
            if error.status == 409:  # the Job has changed since it was read: the next look shows how
                return True
            raise
        return False

    def _has_kept_log(self, run_uid: str, key: JobKey, job: DatedJob, pod: Pod) -> bool:
        """Return whether the log is kept or cannot be kept: no log exists, no hope is left, or its place is taken."""
        try:
            return self._keep_log(run_uid, key, pod, has_waited=_has_waited(job, self.jobs.api.clock.now()))
        except InTheWay as error:
            logger.warning("run %s, task %s, attempt %s: its log is not kept: %s", run_uid, *key, error)
            self.logs.say_that_there_is_no_place(run_uid, str(error))
            return True

    def _keep_log(self, run_uid: str, key: JobKey, pod: Pod, *, has_waited: bool) -> bool:
        try:
            self.logs.keep(pod, run_uid, *key, or_a_part=has_waited)
        except (Missing, ApiFailed) as error:
            if is_gone(error):
                return True
            if not node_is_silent(error):
                raise
            if has_waited:
                logger.warning("run %s, task %s, attempt %s: its log is lost: %s", run_uid, *key, error.message)
                self.logs.keep_why_not(run_uid, *key, error.message)
            return has_waited
        return True


def _has_waited(job: DatedJob, now: datetime) -> bool:
    """Return whether the job ended long enough ago to give up a missing log."""
    end = end_of(job.status)
    ended_at = end.last_transition_time if end else None
    return ended_at is None or now - ended_at >= PATIENCE


def _is_over(job: DatedJob) -> bool:
    return job.metadata.deletion_timestamp is None and end_of(job.status) is not None


def _may_come_again(job: DatedJob) -> bool:
    """Return whether a late copy of the job's request could still make the job anew."""
    annotations = job.metadata.annotations
    try:
        not_after = datetime.fromisoformat((annotations and annotations.not_after) or "")
        return datetime.now(UTC) - ON_THE_WAY < not_after < LAST_MOMENT
    except (ValueError, TypeError):
        return False  # the request had no limit, or came from another service, or the annotation was edited
