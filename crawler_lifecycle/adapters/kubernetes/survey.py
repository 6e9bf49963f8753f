"""What does a look know so far: which jobs there are, which of them need a closer look, and what could not be seen?"""

from dataclasses import dataclass, field
from datetime import datetime

from crawler_lifecycle.adapters.kubernetes import leaving, status
from crawler_lifecycle.adapters.kubernetes.objects import Job, Labels
from crawler_lifecycle.adapters.kubernetes.status import Key
from crawler_lifecycle.domain.looks import JobLook
from crawler_lifecycle.domain.naming import job_name

NOT_ASKED = "its pod was not asked for"


@dataclass
class Survey:
    """What is known so far."""

    run_uid: str
    installation: str | None
    watched: frozenset[Key]
    late: datetime  # what should have ended before that is overdue
    jobs: dict[Key, JobLook] = field(default_factory=dict)
    closer: dict[Key, Job] = field(default_factory=dict)  # their pods have to be asked
    problems: list[str] = field(default_factory=list)
    lists: int = 0  # asked for so far

    def add(self, job: Job) -> None:
        labels, name = job.metadata.labels, job.metadata.name
        if self.is_theirs(labels):
            return
        key = self.key_of_ours(labels)
        if key is None or not job.metadata.uid:
            self.add_unclear(key, name, f"job {name} does not tell which task it is, or has no uid")
            return
        if key in self.jobs and not self._goes_before(key, name):
            return
        look = status.of_job(key, job)
        self.closer.pop(key, None)
        is_in_question = key in self.watched and status.needs_its_pods(look, job)
        is_late = look is not None and look.due_at is not None and look.due_at < self.late
        if is_in_question or is_late or status.may_be_overdue(look):
            self.closer[key] = job
        self.jobs[key] = look or leaving.unclear(key, name, NOT_ASKED, job.metadata.uid)

    def add_unclear(self, key: Key | None, name: str, problem: str) -> None:
        """A job that cannot be read; if it does not even tell which it is, nothing counts as absent."""
        if key is None:
            self.problems.append(problem)
        else:
            self.closer.pop(key, None)
            self.jobs[key] = leaving.unclear(key, name, problem)

    def is_theirs(self, labels: Labels | None) -> bool:
        """Of another run or installation, and saying so."""
        if labels is None:
            return False
        other_installation = self.installation and labels.installation not in (None, self.installation)
        return labels.run_uid not in (None, self.run_uid) or bool(other_installation)

    def key_of_ours(self, labels: Labels | None) -> Key | None:
        """None also for what was selected by labels that it does not have: it may be any of ours."""
        if labels is None or labels.run_uid is None or labels.installation is None or self.is_theirs(labels):
            return None
        return key_of(labels)

    def name(self, key: Key) -> str:
        return job_name(self.run_uid, *key)

    def _goes_before(self, key: Key, name: str) -> bool:
        """Of two Jobs that say they are the same attempt, the one with the right name is meant."""
        if self.name(key) == name:
            return True
        if self.jobs[key].name != self.name(key):
            self.add_unclear(key, name, f"jobs {self.jobs[key].name} and {name} both say that they are this one")
        return False


def key_of(labels: Labels | None) -> Key | None:
    """Task and attempt as the labels tell them; None: they are no numbers of ours."""
    task, attempt = (labels.task or "", labels.attempt or "") if labels else ("", "")
    numbers = task.isascii() and task.isdecimal() and attempt.isascii() and attempt.isdecimal()
    return (int(task), int(attempt)) if numbers and len(task) < 10 and len(attempt) < 10 else None
