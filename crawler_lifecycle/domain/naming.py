"""Names and ids of jobs, events, archives and workflows: every caller and every try computes the same name."""

from typing import TYPE_CHECKING
from uuid import UUID, uuid5

from crawler_lifecycle.errors import BadInput

if TYPE_CHECKING:  # a local job's runner imports this module and has to start fast, without pydantic
    from crawler_lifecycle.domain.looks import JobKey

MAIN_TASK = 0
RUN_WORKFLOW = "CrawlerLifecycleWorkflow"
EXPORT_WORKFLOW = "RunExportWorkflow"
AUDIT_WORKFLOW = "AuditWorkflow"


def checked_uid(run_uid: str) -> str:
    """Return the run_uid, or raise BadInput unless its form is the usual UUID, safe in paths, labels and names."""
    try:
        if str(UUID(run_uid)) == run_uid:
            return run_uid
    except ValueError:
        pass
    raise BadInput("run_uid", f"expected a UUID such as 123e4567-e89b-12d3-a456-426614174000, not {run_uid!r}")


def job_name(run_uid: str, task: int, attempt: int) -> str:
    """Return a unique name that fits a DNS label (63 characters) and contains the run."""
    return f"crawl-{UUID(run_uid).hex}-{task}-{attempt}"


def task_and_attempt(name: str, run_uid: str) -> "JobKey | None":
    """Return the key in a job's name; None for a name with another form or another run."""
    prefix, _, rest = name.partition(f"crawl-{UUID(run_uid).hex}-")
    numbers = [] if prefix else rest.split("-")
    if len(numbers) != 2 or not all(text.isascii() and text.isdecimal() and len(text) < 10 for text in numbers):
        return None
    return int(numbers[0]), int(numbers[1])


def event_id(run_uid: str, kind: str, number: int | str = 1) -> str:
    """Return the id of a notice or event; `number` separates repetitions (progress, a second end)."""
    return str(uuid5(UUID(run_uid), f"{kind}:{number}"))


def export_workflow_id(run_uid: str) -> str:
    return f"export-{run_uid}"


def archive_name(run_uid: str, end: int) -> str:
    """Return the archive's name. A reopened run has several ends with an archive for every end."""
    return f"{run_uid}.zip" if end <= 1 else f"{run_uid}-{end}.zip"
