"""Translation between rows of items and attempts, and messages."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Row

from crawler_lifecycle.base.names import last_name
from crawler_lifecycle.database.manager_schema import manager_attempts
from crawler_lifecycle.database.schema import histories
from crawler_lifecycle.model.manager_items import Item, ItemState, Job, JobState, Origin, Override, Waiting
from crawler_lifecycle.model.naming import crawl_workflow_id
from crawler_lifecycle.model.requests import KeptRequest, RunParameters
from crawler_lifecycle.model.states import RunStatus

DELAYED, ADDED, GENERATED = range(3)  # an item's place: a manager chooses items by place, then by number
NOT_STARTED = "the manager was closed before the item could start"  # problem of an item that a close has cancelled
NOT_TRIED_AGAIN = "the manager was closed before the item's next attempt"  # the same, for people, after an attempt
JOB_COLUMNS = [
    *(column for column in manager_attempts.c if column.name not in ("flow", "manager", "verdict")),
    histories.c.started_at.label("running_at"),
]
WITH_RUNS = manager_attempts.outerjoin(histories, histories.c.id == manager_attempts.c.run_id)  # for JOB_COLUMNS


def job_of(flow_uid: str, row: Row[Any]) -> Job:
    """Return the attempt from a row with JOB_COLUMNS."""
    return Job(
        key=crawl_workflow_id(flow_uid, row.member, row.attempt),
        number=row.number,
        attempt=row.attempt,
        tries=row.tries,
        override=row.override,
        request=row.request,
        state=JobState.RUNNING if row.ended_at is None else JobState.FINISHED,
        outcome=row.outcome,
        is_failed=row.is_failed,
        has_reaction=row.reacted_at is not None,
        stats=row.stats or {},
        result=row.result,
        run_id=row.run_id,
        run_uid=row.run_uid,
        started_at=row.began_at,
        running_at=row.running_at,
        ended_at=row.ended_at,
    )


def job_of_run(row: Row[Any], tags: Sequence[str]) -> Job:
    """Return any run as a job, with the parameters of its request. A run without a manager has the number 0."""
    request = KeptRequest.model_validate_json(row.request)
    parameters = RunParameters.model_validate(request.model_dump(include=set(RunParameters.model_fields)))
    override: Override = {"spider_args": dict(request.arguments), "job_settings": dict(request.settings)}
    link = request.flow
    return Job(
        key=row.workflow_id,
        number=0 if link is None or link.manager is None else int(last_name(link.path)),
        attempt=1 if link is None else link.attempt,
        override=override if request.memory_factor == 1 else {**override, "units": request.memory_factor},
        request=parameters.model_copy(update={"tags": list(tags)}),
        state=JobState.FINISHED if row.status.is_over else JobState.RUNNING,
        outcome=row.outcome,
        is_failed=row.status is RunStatus.FAILED,
        stats=row.stats or {},
        result=row.result,
        run_id=row.id,
        run_uid=row.run_uid,
        started_at=row.created_at,
        running_at=row.started_at,
        ended_at=row.finished_at,
    )


def waiting_of(row: Row[Any]) -> Waiting:
    return Waiting(
        number=row.number,
        attempt=row.attempt + 1,
        key=row.dedup_key,
        generation=row.generation,
        tries=row.tries,
        origin=row.origin,
        override=row.override,
        request=row.request,
        is_delayed=row.place == DELAYED,
    )


def place_of(item: Waiting) -> int:
    """Return the place of an item that `waiting_of` has returned."""
    if item.is_delayed:
        return DELAYED
    return ADDED if item.origin is Origin.ADDED or item.tries else GENERATED


def new_item(key: Mapping[str, int], number: int, member: int, item: Item, now: datetime) -> dict[str, Any]:
    """Return the values for a new row. `key`: flow and manager."""
    is_refused = item.problem is not None or item.request is None
    return {
        **key,
        "number": number,
        "member": member,
        "dedup_key": item.key,
        "origin": item.origin,
        "state": ItemState.REFUSED if is_refused else ItemState.WAITING,
        "place": ADDED if item.origin is Origin.ADDED else GENERATED,
        "generation": 1,
        "attempt": 0,
        "tries": 0,
        "override": item.override,
        "request": None if is_refused else item.request,
        "problem": (item.problem or "the parameters give no request") if is_refused else None,
        "changed_at": now,
    }


def place_of_job(key: str) -> tuple[str, int, int] | None:
    """Return flow, member and attempt from a job's key; None for a text in another form."""
    head, _, attempt = key.rpartition("-")
    head, _, member = head.rpartition("-")
    if not head.startswith("flow-") or not member.isdigit() or not attempt.isdigit():
        return None
    return head.removeprefix("flow-"), int(member), int(attempt)
