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
    watched: frozenset[JobKey]
    late: datetime  # an end that was due before is overdue
    jobs: dict[JobKey, JobLook] = field(default_factory=dict)
    need_pods: dict[JobKey, Job] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    lists: int = 0  # number of list requests so far

    def add(self, job: Job, key: JobKey | None = None) -> None:
        """Add a Job. `key`: known by the uid on record; otherwise labels and name decide."""
        labels, name = job.metadata.labels, job.metadata.name
        if key is None and self.is_theirs(labels):
            return
        if key is None and self.is_ours(labels):
            key = key_named(name, labels, self.run_uid)
        if key is None or not job.metadata.uid:
            self.add_unclear(key, name, f"job {name} does not tell which task it is, or has no uid")
            return
        if key in self.jobs and not self._goes_before(key, name):
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
        """Make a listed job unclear. The Job still proves whether the job runs on, for a stop and for a removal."""
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

        An object without the labels that selected the object may belong to any of our jobs: False.
        """
        if labels is None or labels.run_uid is None or labels.installation is None:
            return False
        return not self.is_theirs(labels)

    def key_of_ours(self, labels: Labels | None) -> JobKey | None:
        return key_of(labels) if self.is_ours(labels) else None

    @property
    def problem(self) -> str | None:
        """Return the first problem: an incomplete list, or an unclear job with a waiting row."""
        unclear = (job for key, job in sorted(self.jobs.items()) if key in self.watched and not job.is_orphan)
        of_jobs = (job.message for job in unclear if job.phase is JobPhase.UNCLEAR)
        return next(iter(self.problems), None) or next(of_jobs, None)

    def name(self, key: JobKey) -> str:
        return job_name(self.run_uid, *key)

    def _goes_before(self, key: JobKey, name: str) -> bool:
        """Return whether this Job replaces the known Job of the same attempt: the Job with the right name does."""
        if self.name(key) == name:
            return True
        if self.jobs[key].name != self.name(key):
            self.add_unclear(
                key, name, f"jobs {self.jobs[key].name} and {name} both claim task {key[0]}, attempt {key[1]}"
            )
        return False
