"""How are things called that must get the same name whoever names them, however often?"""

from uuid import UUID, uuid5

MAIN_TASK = 0
RUN_WORKFLOW = "CrawlerLifecycleWorkflow"
EXPORT_WORKFLOW = "RunExportWorkflow"


def job_name(run_uid: str, task: int, attempt: int) -> str:
    """Fits a DNS label (63 characters), tells the run, and never repeats."""
    return f"crawl-{UUID(run_uid).hex}-{task}-{attempt}"


def deployment_key(run_uid: str, task: int, attempt: int) -> str:
    return f"{run_uid}:{task}:{attempt}"


def event_id(run_uid: str, kind: str, number: int | str = 1) -> str:
    """The id of a notice or an event; `number` tells repeated ones (progress, a second end) apart."""
    return str(uuid5(UUID(run_uid), f"{kind}:{number}"))


def export_workflow_id(run_uid: str) -> str:
    return f"export-{run_uid}"


def archive_name(run_uid: str, end: int) -> str:
    """A run that was reopened ends more than once; each end keeps its archive."""
    return f"{run_uid}.zip" if end <= 1 else f"{run_uid}-{end}.zip"
