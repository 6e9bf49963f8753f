"""Names and labels of jobs.

The Job and its pods carry the same labels; every read selects by installation and run.
"""

import re
from collections.abc import Iterable, Iterator

from crawler_lifecycle.clusters.kubernetes.objects import Labels
from crawler_lifecycle.model.looks import JobKey
from crawler_lifecycle.model.naming import LABEL_DOMAIN, checked_uid, task_and_attempt

PREFIX = f"{LABEL_DOMAIN}/"
INSTALLATION = PREFIX + "installation"
RUN_UID = PREFIX + "run-uid"
TASK = PREFIX + "task"
ATTEMPT = PREFIX + "attempt"
SPEC_HASH = PREFIX + "spec-hash"
# for people and their reports of costs; never read back
CRAWLER = PREFIX + "crawler"
RUN = PREFIX + "run"
TENANT = PREFIX + "tenant"
NOT_AFTER = PREFIX + "not-after"  # annotation with a time, until which a late copy of the request may create the job

TASKS_IN_A_SELECTOR = 500  # a selector is part of the address, and the length of an address is limited
LONGEST_LABEL = 63  # characters of a label's value
LONGEST_NUMBER = 9  # digits of a task or attempt; longer numbers are not ours, and may exceed a database column

QUEUE = "kueue.x-k8s.io/queue-name"  # Kueue's label for a Job with the name of the LocalQueue

# values of the header Accept, for an answer with only the objects' metadata: of a list, and of a single object
METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"


def label_value(text: str) -> str:
    """Return the text as a label's value: other characters than letters, digits, `_`, `.` and `-` become `_`."""
    return re.sub(r"[^A-Za-z0-9_.-]", "_", text)[:LONGEST_LABEL].strip("_.-")


def selector(installation: str | None, run_uid: str | None = None, tasks: Iterable[int] = ()) -> str:
    """Return a label selector. An argument that is missing does not limit the selection."""
    parts = [INSTALLATION if installation is None else f"{INSTALLATION}={installation}"]
    if run_uid is not None:
        parts.append(f"{RUN_UID}={run_uid}")
    if numbers := sorted(set(tasks)):
        parts.append(f"{TASK} in ({','.join(map(str, numbers))})")
    return ",".join(parts)


def selectors(installation: str | None, run_uid: str, tasks: Iterable[int]) -> Iterator[str]:
    """Yield selectors for tasks of a run, at most TASKS_IN_A_SELECTOR in each."""
    numbers = sorted(set(tasks))
    for start in range(0, len(numbers), TASKS_IN_A_SELECTOR):
        yield selector(installation, checked_uid(run_uid), numbers[start : start + TASKS_IN_A_SELECTOR])


def key_named(name: str, labels: Labels | None, run_uid: str) -> JobKey | None:
    """Return task and attempt of this run's Job, by its name or else by its labels; None if neither is ours.

    The name is tried first, since users can edit the labels of a Job but not its name.
    """
    return task_and_attempt(name, run_uid) or key_of(labels)


def key_of(labels: Labels | None) -> JobKey | None:
    """Return task and attempt by the labels; None if a label is missing or holds no number."""
    task, attempt = (labels.task or "", labels.attempt or "") if labels else ("", "")
    return (int(task), int(attempt)) if _is_number(task) and _is_number(attempt) else None


def _is_number(label: str) -> bool:
    """Return whether the label is a number in plain digits, without a sign, and at most LONGEST_NUMBER long."""
    return label.isascii() and label.isdecimal() and len(label) <= LONGEST_NUMBER
