"""Names and ids of jobs, events, archives and workflows. Every caller computes the same name on every try."""

import re
import shlex
from typing import TYPE_CHECKING
from uuid import UUID, uuid5

from crawler_lifecycle.errors import BadInput

if TYPE_CHECKING:  # a local job's runner imports this module and has to start fast, without pydantic
    from crawler_lifecycle.model.looks import JobKey

LABEL_DOMAIN = "crawler-lifecycle"  # prefix for the keys of our labels and annotations
TENANT = "tenant:"  # start for a label with the run's tenant
MAIN_TASK = 0  # number of the task whose job is the main job
SCHEDULED = "crawl-"  # workflow ids of schedules' occurrences begin so
RUN_WORKFLOW = "CrawlerLifecycleWorkflow"
EXPORT_WORKFLOW = "RunExportWorkflow"
AUDIT_WORKFLOW = "AuditWorkflow"
FLOW_WORKFLOW = "FlowWorkflow"
SCHEDULED_FLOW_WORKFLOW = "ScheduledFlowWorkflow"
OWN = "@flow:"  # separates a queue from its flow's id


def checked_uid(run_uid: str) -> str:
    """Return the run_uid if the text is a UUID in the usual form, which is safe in paths, labels and names.

    Raise BadInput otherwise.
    """
    try:
        if str(UUID(run_uid)) == run_uid:
            return run_uid
    except ValueError:
        pass
    raise BadInput("run_uid", f"expected a UUID such as 123e4567-e89b-12d3-a456-426614174000, not {run_uid!r}")


def job_name(run_uid: str, task: int, attempt: int) -> str:
    """Return the name of an attempt's job, which is unique and fits into a DNS label (63 characters)."""
    return f"crawl-{UUID(run_uid).hex}-{task}-{attempt}"


def task_and_attempt(name: str, run_uid: str) -> "JobKey | None":
    """Return the task and attempt in a name by `job_name`; None for a name with another form or of another run."""
    match = re.fullmatch(rf"crawl-{UUID(run_uid).hex}-([0-9]{{1,9}})-([0-9]{{1,9}})", name)
    return (int(match[1]), int(match[2])) if match else None


def event_id(run_uid: str, kind: str, number: int | str = 1) -> str:
    """Return the id of a run's notice or event. `number` distinguishes several of a kind, such as for a second end."""
    return str(uuid5(UUID(run_uid), f"{kind}:{number}"))


def export_workflow_id(run_uid: str) -> str:
    return f"export-{run_uid}"


def archive_queue(task_queue: str) -> str:
    """Return the task queue for archives beside this task queue: an archive takes no slot of a look or a stop."""
    return f"{task_queue}-archives"


def archive_name(run_uid: str, end: int) -> str:
    """Return the name of the archive for the run's end with this number. A reopened run has several ends."""
    return f"{run_uid}.zip" if end <= 1 else f"{run_uid}-{end}.zip"


def flow_workflow_id(flow_uid: str) -> str:
    return f"flow-{flow_uid}"


def scheduled_flow_id(workflow_id: str) -> str:
    """Return the id for the flow started by a schedule's occurrence."""
    return workflow_id.removeprefix(SCHEDULED)


def crawl_workflow_id(flow_uid: str, member: int, attempt: int) -> str:
    """Return the workflow id for a crawl's attempt: an attempt makes a single run."""
    return f"flow-{flow_uid}-{member}-{attempt}"


def managers_queue(queue: str) -> str:
    """Return the queue for the crawl managers beside a queue of steps."""
    return f"{queue}@managers"


def own_queue(queue: str, own_host: str) -> str:
    """Return the steps' queue for a single flow's hosts; without an own host, the plain queue."""
    return f"{queue}{OWN}{own_host}" if own_host else queue


def route_parts(route: str) -> tuple[str, str, str]:
    """Return a step's queue, module and function."""
    queue, module, function = route.rsplit("|", 2)
    return queue, module, function


def host_of(route: str) -> str:
    """Return the command-line arguments for a host with the route."""
    queue, module, _ = route_parts(route)
    own_host = queue.removesuffix(managers_queue("")).partition(OWN)[2]
    return f"{module} --flow {shlex.quote(own_host)}" if own_host else module


def steps_queue(task_queue: str, route: str) -> str:
    """Return the task queue for a step's route: its queue and module. A host polls the queues of its own modules."""
    queue, module, _ = route_parts(route)
    return f"{task_queue}-steps-{queue}-{module}"
