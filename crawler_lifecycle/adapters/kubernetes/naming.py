"""Names and labels of jobs.

The Job and its pods carry the same labels; every read selects by installation and run.
"""

from collections.abc import Iterable, Iterator

from crawler_lifecycle.adapters.kubernetes.objects import Labels
from crawler_lifecycle.domain.looks import JobKey
from crawler_lifecycle.domain.naming import checked_uid, task_and_attempt

PREFIX = "crawler-lifecycle/"
INSTALLATION = PREFIX + "installation"
RUN_UID = PREFIX + "run-uid"
TASK = PREFIX + "task"
ATTEMPT = PREFIX + "attempt"
SPEC_HASH = PREFIX + "spec-hash"
NOT_AFTER = PREFIX + "not-after"  # an annotation: a late copy of the request may still create the job until then

TASKS_IN_A_SELECTOR = 500  # a selector is part of the address, and the length of an address is limited

METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"


def selector(installation: str | None, run_uid: str | None = None, tasks: Iterable[int] = ()) -> str:
    """Return a label selector; without an installation for all installations, without tasks for all tasks."""
    parts = [INSTALLATION if installation is None else f"{INSTALLATION}={installation}"]
    if run_uid is not None:
        parts.append(f"{RUN_UID}={run_uid}")
    if numbers := sorted(set(tasks)):
        parts.append(f"{TASK} in ({','.join(map(str, numbers))})")
    return ",".join(parts)


def selectors(installation: str | None, run_uid: str, tasks: Iterable[int]) -> Iterator[str]:
    """Yield selectors for tasks of a run, several tasks in every selector."""
    numbers = sorted(set(tasks))
    for start in range(0, len(numbers), TASKS_IN_A_SELECTOR):
        yield selector(installation, checked_uid(run_uid), numbers[start : start + TASKS_IN_A_SELECTOR])


def key_named(name: str, labels: Labels | None, run_uid: str) -> JobKey | None:
    """Return task and attempt of this run's Job. Names of our form come first: unlike labels, names are final."""
    return task_and_attempt(name, run_uid) or key_of(labels)


def key_of(labels: Labels | None) -> JobKey | None:
    """Return task and attempt by the labels; None if the labels do not hold our numbers."""
    task, attempt = (labels.task or "", labels.attempt or "") if labels else ("", "")
    numbers = task.isascii() and task.isdecimal() and attempt.isascii() and attempt.isdecimal()
    return (int(task), int(attempt)) if numbers and len(task) < 10 and len(attempt) < 10 else None
