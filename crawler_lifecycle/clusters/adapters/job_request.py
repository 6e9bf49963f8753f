"""Rules for a deployment request on every cluster: its hash, arguments, variables, and refusals."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta

from crawler_lifecycle.errors import Refused, TemporaryError
from crawler_lifecycle.model.deployment import DeploymentRequest

LONGEST_STRING = 128 * 1024 - 1  # bytes; Linux starts no program with a longer argument or variable
# The grace period, from SIGTERM to SIGKILL, if neither a request nor its catalogue entry has one. Requests for runs
# always have a grace period. Other callers may omit the field, and a deadline has to end even a program that ignores
# SIGTERM.
GRACE_SECONDS = 30


def request_hash(request: DeploymentRequest) -> str:
    """Return a hash that is equal for every try of a request.

    The excluded fields differ between tries: the claim's expiry, the number of tasks (people may add tasks), and the
    namespace. Retries are no part of the job. Defaults are excluded, so that a later version's new fields do not change
    the hash.
    """
    values = request.model_dump(mode="json", exclude_defaults=True, exclude={"not_after", "tasks", "namespace"})
    values["crawler"].pop("retries", None)
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def refuse_if_late(request: DeploymentRequest, takes: timedelta = timedelta()) -> None:
    """Raise TemporaryError if the request's claim has expired, or expires within `takes`, the time that a try needs.

    The caller may have been suspended for long. Its run may be over by now, with proof that nothing runs.
    """
    if request.not_after is not None and request.not_after <= datetime.now(UTC) + takes:
        raise TemporaryError(f"the claim on {request.key} has run out: it has to be claimed again")


def grace_seconds(request: DeploymentRequest) -> int:
    """Return the grace period of the request, else of its catalogue entry, else GRACE_SECONDS."""
    return request.grace_seconds or request.crawler.grace_seconds or GRACE_SECONDS


def arguments_of(request: DeploymentRequest) -> list[str]:
    """Return the request's arguments and settings as the last parts of the command; without a flag, no parts."""
    crawler = request.crawler
    return [*_flagged(crawler.argument_flag, request.arguments), *_flagged(crawler.setting_flag, request.settings)]


def _flagged(flag: str | None, values: Mapping[str, str]) -> list[str]:
    return [part for name, value in values.items() for part in (flag, f"{name}={value}")] if flag else []


def environment_of(request: DeploymentRequest, files: str, result: str) -> dict[str, str]:
    """Return the job's environment: the catalogue entry's variables, and above them our CRAWL_ variables.

    `files` is the folder for the run's files, `result` the file for the crawl's result.
    """
    return {
        **request.crawler.environment,
        "CRAWL_RUN_ID": str(request.run_id),
        "CRAWL_RUN_UID": request.run_uid,
        "CRAWL_TASK": str(request.task),
        "CRAWL_TASKS": str(request.tasks),
        "CRAWL_ATTEMPT": str(request.attempt),
        "CRAWL_ARGUMENTS": json.dumps(request.arguments, ensure_ascii=False),
        "CRAWL_SETTINGS": json.dumps(request.settings, ensure_ascii=False),
        "CRAWL_FILES": files,
        "CRAWL_RESULT": result,
    }


def refuse_unusable_texts(environment: Mapping[str, str], command: Iterable[str]) -> None:
    """Raise Refused for a variable or a part of the command that Linux cannot give to a program."""
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
