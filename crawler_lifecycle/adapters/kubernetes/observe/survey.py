"""A survey collects a look's results: jobs seen so far, jobs that need their pods, and problems."""

from dataclasses import dataclass, field, replace
from datetime import datetime

from crawler_lifecycle.adapters.kubernetes.naming import key_named, key_of
from crawler_lifecycle.adapters.kubernetes.objects import Job, Labels
from crawler_lifecycle.adapters.kubernetes.observe import job_status
from crawler_lifecycle.domain.looks import JobKey, JobLook, JobPhase
from crawler_lifecycle.domain.naming import job_name

POD_NOT_READ = "its pod was not read"


@dataclass
class Survey:
    run_uid: str
    installation: str | None
    watched: frozenset[JobKey]  # jobs believed alive: their details and absence matter
    late: datetime  # a job whose end was due before this time is overdue
    jobs: dict[JobKey, JobLook] = field(default_factory=dict)
    need_pods: dict[JobKey, Job] = field(default_factory=dict)  # Jobs whose pods can change the look
    problems: list[str] = field(default_factory=list)
    lists: int = 0  # number of list requests so far

    def add(self, job: Job, key: JobKey | None = None) -> None:
        """Add a Job. `key`: known by the uid on record; without a key, the Job's labels and name decide."""
        labels, name = job.metadata.labels, job.metadata.name
        if key is None and self.is_theirs(labels):
            return
        if key is None and self.is_ours(labels):
            key = key_named(name, labels, self.run_uid)
        if key is None or not job.metadata.uid:
            self.add_unclear(key, name, f"job {name} does not tell which task it is, or has no uid")
            return
        if key in self.jobs and not self._replaces_known(key, name):
            return
        look = job_status.look_of_job(key, job)
        self.need_pods.pop(key, None)
        is_in_question = key in self.watched and job_status.needs_its_pods(look, job)
        is_late = look is not None and look.due_at is not None and look.due_at < self.late
        if is_in_question or is_late or job_status.may_be_overdue(look):
            self.need_pods[key] = job
        self.jobs[key] = look or job_status.unclear_look(key, name, POD_NOT_READ, job.metadata.uid)

    def add_unclear(self, key: JobKey | None, name: str, problem: str) -> None:
        """Add an unreadable job; without a key no job of the look counts as absent."""
        if key is None:
            self.problems.append(problem)
        else:
            self.need_pods.pop(key, None)
            self.jobs[key] = job_status.unclear_look(key, name, problem)

    def make_unclear(self, known: JobLook, problem: str) -> None:
        """Make a listed job unclear. Presence and pods stay: they tell a stop and a removal whether the job runs on."""
        self.need_pods.pop((known.task, known.attempt), None)
        unclear = job_status.unclear_look((known.task, known.attempt), known.name, problem, known.uid)
        self.jobs[known.task, known.attempt] = replace(unclear, presence=known.presence, pods=known.pods)

    def is_theirs(self, labels: Labels | None) -> bool:
        """Return whether the labels name another run or installation."""
        if labels is None:
            return False
        other_installation = self.installation and labels.installation not in (None, self.installation)
        return labels.run_uid not in (None, self.run_uid) or bool(other_installation)

    def is_ours(self, labels: Labels | None) -> bool:
        """Return whether the labels prove that the object is ours.

        False also if the labels name no run or installation, although the request selected by them: such an object may
        belong to any of our jobs.
        """
        if labels is None or labels.run_uid is None or labels.installation is None:
            return False
        return not self.is_theirs(labels)

    def key_of_ours(self, labels: Labels | None) -> JobKey | None:
        return key_of(labels) if self.is_ours(labels) else None

    @property
    def problem(self) -> str | None:
        """Return the first problem: an incomplete list, or else an unclear watched job."""
        unclear = (job for key, job in sorted(self.jobs.items()) if key in self.watched and not job.is_orphan)
        of_jobs = (job.message for job in unclear if job.phase is JobPhase.UNCLEAR)
        return next(iter(self.problems), None) or next(of_jobs, None)

    def name(self, key: JobKey) -> str:
        return job_name(self.run_uid, *key)

    def _replaces_known(self, key: JobKey, name: str) -> bool:
        """Return whether the Job with the name replaces the attempt's known Job.

        The Job with the attempt's proper name counts. If neither has the proper name, the job becomes unclear.
        """
        if self.name(key) == name:
            return True
        if self.jobs[key].name != self.name(key):
            self.add_unclear(
                key, name, f"jobs {self.jobs[key].name} and {name} both claim task {key[0]}, attempt {key[1]}"
            )
        return False
