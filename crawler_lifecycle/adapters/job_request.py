"""What does a deployment request ask for, on whichever cluster?"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta

from crawler_lifecycle.contract.deployment import DeploymentRequest
from crawler_lifecycle.errors import Refused, TemporaryError

LONGEST_STRING = 128 * 1024 - 1  # what Linux passes to a program in one piece
# From the SIGTERM at a job's deadline to its SIGKILL, for a request that leaves it open. Those for runs of ours never
# do; whoever else asks the scheduler service may, and a deadline has to end what does not listen all the same.
GRACE_SECONDS = 30


def request_hash(request: DeploymentRequest) -> str:
    """The same on every try, also after new fields with defaults were added, or tasks to the run."""
    values = request.model_dump(mode="json", exclude_defaults=True, exclude={"not_after", "tasks"})
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def refuse_if_late(request: DeploymentRequest, takes: timedelta = timedelta()) -> None:
    """Whoever asked may have been stopped for long, and the run proved over since, or be before it is done: it takes
    up to so long to make the job."""
    if request.not_after is not None and request.not_after <= datetime.now(UTC) + takes:
        raise TemporaryError(f"the claim on {request.key} has run out: it has to be claimed again")


def grace_seconds(request: DeploymentRequest) -> int:
    return request.grace_seconds or request.crawler.grace_seconds or GRACE_SECONDS


def arguments_of(request: DeploymentRequest) -> list[str]:
    """The request's arguments as they stand at the end of the command."""
    flag = request.crawler.argument_flag
    if not flag:
        return []
    return [part for name, value in request.arguments.items() for part in (flag, f"{name}={value}")]


def environment_of(request: DeploymentRequest, files: str) -> dict[str, str]:
    """What the job is told, whatever the catalogue's entry says about the same names."""
    return {
        **request.crawler.environment,
        "CRAWL_RUN_ID": str(request.run_id),
        "CRAWL_RUN_UID": request.run_uid,
        "CRAWL_TASK": str(request.task),
        "CRAWL_TASKS": str(request.tasks),
        "CRAWL_ATTEMPT": str(request.attempt),
        "CRAWL_ARGUMENTS": json.dumps(request.arguments, ensure_ascii=False),
        "CRAWL_FILES": files,
    }


def refuse_what_no_program_can_get(environment: Mapping[str, str], command: Iterable[str]) -> None:
    for name, value in environment.items():
        if not name or "=" in name or "\0" in name + value:
            raise Refused(f"environment: {name!r} cannot be set: a name without '=' and no zero bytes were expected")
        if len(f"{name}={value}".encode()) >= LONGEST_STRING:
            raise Refused(f"environment: {name} is longer than the {LONGEST_STRING} bytes a program can be given")
    for number, part in enumerate(command):
        if number == 0 and not part:
            raise Refused("command: the name of the program is empty")
        if "\0" in part:
            raise Refused(f"command: {part!r} has a zero byte")
        if len(part.encode()) >= LONGEST_STRING:
            raise Refused(f"command: a part is longer than the {LONGEST_STRING} bytes a program can be given")
