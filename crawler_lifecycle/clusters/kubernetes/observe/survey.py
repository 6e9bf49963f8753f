"""A survey collects the results of one look: the jobs seen so far, the Jobs that need their pods, and problems.

The look (`looking.py`) adds Jobs as it lists them; the survey recognizes our Jobs by their labels and names.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import chain

from crawler_lifecycle.clusters.kubernetes.naming import key_named, key_of
from crawler_lifecycle.clusters.kubernetes.objects import Job, Labels
from crawler_lifecycle.clusters.kubernetes.observe import job_status
from crawler_lifecycle.model.looks import JobKey, JobLook, JobPhase
from crawler_lifecycle.model.naming import job_name

POD_NOT_READ = "its pod was not read"


@dataclass
class Survey:
    run_uid: str
    installation: str | None
    watched: frozenset[JobKey]  # jobs believed alive: their details and absence matter
    overdue_before: datetime  # jobs due to end before this time are overdue
    jobs: dict[JobKey, JobLook] = field(default_factory=dict)
    jobs_needing_pods: dict[JobKey, Job] = field(default_factory=dict)  # pods can change the looks at these Jobs
    problems: list[str] = field(default_factory=list)  # each makes the look incomplete
    remarks: list[str] = field(default_factory=list)  # news for people about a complete look
    list_requests: int = 0  # list pages requested so far

    def add(self, job: Job, key: JobKey | None = None) -> None:
        """Add the job's look by the Job alone, and note whether the Job needs its pods.

        `key` is given for a Job that is known to be ours. Without a key, the Job's labels and name decide: a foreign
        Job is left out. A Job without a uid makes the job unclear; a Job that names no task makes the look incomplete.
        """
        labels, name = job.metadata.labels, job.metadata.name
        if key is None and self.is_foreign(labels):
            return
        if key is None and self.is_ours(labels):
            key = key_named(name, labels, self.run_uid)
        if key is None or not job.metadata.uid:
            self.add_unclear(key, name, f"job {name} does not name its task, or has no uid")
            return
        if key in self.jobs and not self._settle_two_jobs(key, name):
            return
        if remark := job_status.remark_on_pods(job):
            self.remarks.append(remark)
        look = job_status.look_of_job(key, job)
        self.jobs_needing_pods.pop(key, None)
        # pods show more of a watched job, and show for any job whether a part still runs after the due time
        needs_details = key in self.watched and job_status.needs_its_pods(look, job)
        is_past_due = look is not None and look.due_at is not None and look.due_at < self.overdue_before
        if needs_details or is_past_due or job_status.may_be_overdue(look):
            self.jobs_needing_pods[key] = job
        # without a look by the Job alone, the job is unclear until the pods are read
        self.jobs[key] = look or job_status.unclear_look(key, name, POD_NOT_READ, job.metadata.uid)

    def add_unclear(self, key: JobKey | None, name: str, problem: str) -> None:
        """Add an unreadable job. Without a key, any job may be the unreadable job, and the look is incomplete."""
        if key is None:
            self.problems.append(problem)
        else:
            self.jobs_needing_pods.pop(key, None)
            self.jobs[key] = job_status.unclear_look(key, name, problem)

    def make_unclear(self, known: JobLook, problem: str) -> None:
        """Make a listed job unclear. Presence and pods stay: stops and removals need them to see whether it runs."""
        self.jobs_needing_pods.pop((known.task, known.attempt), None)
        unclear = job_status.unclear_look((known.task, known.attempt), known.name, problem, known.uid)
        self.jobs[known.task, known.attempt] = replace(unclear, presence=known.presence, pods=known.pods)

    def is_foreign(self, labels: Labels | None) -> bool:
        """Return whether the labels name another run or installation; False if they name none."""
        if labels is None:
            return False
        names_other_run = labels.run_uid not in (None, self.run_uid)
        names_other_installation = bool(self.installation) and labels.installation not in (None, self.installation)
        return names_other_run or names_other_installation

    def is_ours(self, labels: Labels | None) -> bool:
        """Return whether the labels name this look's run and installation.

        An object may be neither ours nor foreign: a broken API server or proxy may leave labels out, although the
        request selected the object by its labels. Such an object may belong to any of our jobs.
        """
        if labels is None or labels.run_uid is None or labels.installation is None:
            return False
        return not self.is_foreign(labels)

    def own_key(self, labels: Labels | None) -> JobKey | None:
        """Return the job's key by the labels; None if they do not prove that the object is ours, or name no task."""
        return key_of(labels) if self.is_ours(labels) else None

    @property
    def problem(self) -> str | None:
        """Return the first problem of an incomplete look, or else of an unclear watched job, or else a remark.

        Remains of an absent Job are no problem, even if unclear. None: no problem.
        """
        watched = (job for key, job in sorted(self.jobs.items()) if key in self.watched)
        unclear = (job.message for job in watched if job.phase is JobPhase.UNCLEAR and not job.is_orphan)
        return next(chain(self.problems, unclear, self._strangers(), self.remarks), None)

    def _strangers(self) -> Iterator[str]:
        """Yield a sentence for every living Job with our labels and without a task, such as a copy."""
        for key, job in sorted(self.jobs.items()):
            if key not in self.watched and not job.gone and job.name != self.proper_name(key):
                yield (
                    f"job {job.name} has the labels of this run (task {key[0]}, attempt {key[1]}), but the run did not "
                    "create it: the job is ended, and a stop waits for its end"
                )

    def counted(self, list_pages: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the pages of a list, and count each page as a request of the look."""
        for page in list_pages:
            self.list_requests += 1
            yield page

    def proper_name(self, key: JobKey) -> str:
        return job_name(self.run_uid, *key)

    def _settle_two_jobs(self, key: JobKey, name: str) -> bool:
        """Return whether a further Job of the same attempt, with this name, replaces the known Job.

        The Job with the attempt's proper name counts. If neither has the proper name, make the job unclear.
        """
        known, proper = self.jobs[key].name, self.proper_name(key)
        if name == known:
            return True  # after beginning anew, a list repeats Jobs
        problem = f"jobs {known} and {name} both claim task {key[0]}, attempt {key[1]}"
        if proper in (name, known):
            self.remarks.append(f"{problem}: delete the copy")
            return name == proper
        self.add_unclear(key, name, problem)
        return False
