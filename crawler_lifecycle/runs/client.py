"""Client for runs over the HTTP API: lists, details, logs, the stream of changes, and commands.

The commands start, stop, resume and export a run, and add tasks.
"""

import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from typing_extensions import TypedDict

from crawler_lifecycle.errors import TemporaryError
from crawler_lifecycle.model.answers import Resumed, Started, Stopping
from crawler_lifecycle.model.deployment import Problem
from crawler_lifecycle.model.notices import Notice
from crawler_lifecycle.model.records import (
    EXPORT_PATIENCE,
    ExportRecord,
    LogPart,
    RunDetails,
    RunOverview,
    RunSummary,
    TaskLine,
    TaskOrder,
    TaskRecord,
)
from crawler_lifecycle.model.requests import RunParameters, RunRequest
from crawler_lifecycle.model.states import TaskStatus
from crawler_lifecycle.model.usage import Usage, UsageBy
from crawler_lifecycle.transport.connection import HttpConnection, segment, with_actor
from crawler_lifecycle.transport.streams import AnswerPage, every, followed

LARGEST_PAGE = 500  # runs
OUTAGE_PATIENCE = 60.0  # seconds: longest outage while a run is watched
PAUSE = 0.5  # seconds between two reads while the exports are made, or after a failed read


@dataclass(frozen=True, slots=True)
class Change:
    """An event in the stream.

    `kind`: `ready` (the stream has begun), `reset` (read the state anew), `run`, `notice` or `problem` (the database
    does not answer). A later stream continues after the event with `id`.
    """

    kind: str
    id: str | None
    run: RunSummary | None = None
    notice: Notice | None = None
    problem: Problem | None = None


def follow_changes(
    connection: HttpConnection, run: int | str | None = None, *, flows: bool = False, last_id: str | None = None
) -> Iterator[Change]:
    """Yield every change in the runs, or in a single run, indefinitely. Unknown events are left out."""
    params = ({} if run is None else {"run": str(run)}) | ({"flows": "true"} if flows else {})
    for event in followed(connection, "/v1/changes", params, last_id):
        match event.kind:
            case "run":
                yield Change(event.kind, event.id, run=connection.model(RunSummary, event.data))
            case "notice":
                yield Change(event.kind, event.id, notice=connection.model(Notice, event.data))
            case "problem":
                yield Change(event.kind, event.id, problem=connection.model(Problem, event.data))
            case "ready" | "reset":
                yield Change(event.kind, event.id)


class _RunPage(TypedDict):
    runs: list[RunSummary]
    next: str | None


class _Notices(TypedDict):
    notices: list[Notice]


class _TaskPage(TypedDict):
    tasks: list[TaskLine]
    next: int | None


class _Exported(TypedDict):
    exports: list[ExportRecord]


class _Added(TypedDict):
    first: int
    count: int


class ApiRuns:
    """Reads and commands. Callers name a run by its RunID or its run_uid. NotFound without such a run."""

    def __init__(self, connection: HttpConnection) -> None:
        self._connection = connection

    def page(self, *, limit: int = 50, cursor: str | None = None, **filters: Any) -> AnswerPage[RunSummary, str]:
        """Return a page with runs, newest first. `filters` are the parameters in `GET /v1/runs`, such as `status`."""
        page = self._connection.read(_RunPage, "/v1/runs", limit=limit, cursor=cursor, **filters)
        return AnswerPage(page["runs"], page["next"])

    def all(self, *, page_size: int = LARGEST_PAGE, **filters: Any) -> Iterator[RunSummary]:
        """Yield all chosen runs, newest first, page after page."""
        limit = min(page_size, LARGEST_PAGE)
        return every(lambda cursor: self.page(limit=limit, cursor=cursor, **filters))

    def usage(
        self, by: UsageBy = UsageBy.CRAWLER, *, since: datetime | None = None, until: datetime | None = None
    ) -> Usage:
        """Sum the use over the runs with an end in the period, by default in the 30 days before `until`."""
        times = {"since": since and since.isoformat(), "until": until and until.isoformat()}
        return self._connection.read(Usage, "/v1/usage", by=by, **times)

    def show(self, run: int | str) -> RunDetails:
        """Return the run with all its tasks and their evidence."""
        return self._connection.read(RunDetails, f"{_path(run)}/details")

    def watch(self, run: int | str) -> Iterator[RunDetails]:
        """Yield the run at every change, until the run is over and its exports are done, or exceed EXPORT_PATIENCE."""
        last = self.show(run)
        yield last
        number = last.run.run_id
        if not last.run.status.is_over:
            for _ in followed(self._connection, "/v1/changes", {"run": str(number)}):
                if (details := self._show_after_outage(number)) != last:
                    yield (last := details)
                if last.run.status.is_over:
                    break
        deadline = time.monotonic() + EXPORT_PATIENCE
        while not last.is_handed_over and time.monotonic() < deadline:
            time.sleep(PAUSE)
            if (details := self._show_after_outage(number)) != last:
                yield (last := details)

    def _show_after_outage(self, run: int) -> RunDetails:
        """Return the run, also after an outage for at most OUTAGE_PATIENCE."""
        deadline = time.monotonic() + OUTAGE_PATIENCE
        while True:
            try:
                return self.show(run)
            except TemporaryError:
                if time.monotonic() > deadline:
                    raise
            time.sleep(PAUSE)

    def overview(self, run: int | str) -> RunOverview:
        """Return the run without its tasks."""
        return self._connection.read(RunOverview, _path(run))

    def notices(self, run: int | str) -> Sequence[Notice]:
        """Return the sent notices about the run, in order."""
        return self._connection.read(_Notices, _path(run))["notices"]

    def tasks(
        self,
        run: int | str,
        *,
        first: int = 0,
        limit: int = 100,
        status: TaskStatus | None = None,
        order: TaskOrder = TaskOrder.TASK,
    ) -> AnswerPage[TaskLine, int]:
        """Return a page with tasks, without their evidence, from the task with the number `first` on.

        In another `order` than by number, `first` counts places in the order, from 0 on.
        """
        parameters = {"first": first, "limit": limit, "status": status, "sort": order}
        page = self._connection.read(_TaskPage, f"{_path(run)}/tasks", **parameters)
        return AnswerPage(page["tasks"], page["next"])

    def task(self, run: int | str, number: int) -> TaskRecord:
        """Return a task with its evidence."""
        return self._connection.read(TaskRecord, f"{_path(run)}/tasks/{number}")

    def log(self, run: int | str, task: int = 0, offset: int = 0) -> LogPart:
        """Return a part from the log for the task's last attempt, from the byte `offset` on."""
        return self._connection.read(LogPart, f"{_path(run)}/logs", task=task, offset=offset)

    def follow_log(self, run: int | str, task: int = 0, offset: int = 0) -> Iterator[LogPart]:
        """Yield the task's log, attempt after attempt, until the task is over."""
        for event in followed(self._connection, f"{_path(run)}/logs/stream", {"task": task, "offset": offset}):
            if event.kind == "log":
                yield self._connection.model(LogPart, event.data)
            elif event.kind == "problem":
                problem = self._connection.model(Problem, event.data)
                if problem.status < 500:
                    raise TemporaryError(problem.detail, cause=problem.cause)
            elif event.kind == "end":
                return

    def start(self, request: RunRequest, key: str | None = None) -> Started:
        """Start a run. A second start with the same key returns the first run; without a key, every call makes a run.

        Without a key, a random key is sent: the client repeats the start after a broken connection.
        """
        headers = {"Idempotency-Key": key or uuid.uuid4().hex}
        return self._connection.command(
            Started, "POST", "/v1/runs", start_body(request), repeatable=True, headers=headers
        )

    def stop(
        self, run: int | str, *, force: bool = False, reason: str | None = None, actor: str | None = None
    ) -> Stopping:
        """Stop the run. `actor`: name for the record, beside the token's name."""
        body = {"force": force, "reason": reason, "actor": actor}
        return self._connection.command(Stopping, "POST", f"{_path(run)}/stop", body, repeatable=True)

    def resume(self, run: int | str, *, reopen: bool = False, actor: str | None = None) -> Resumed:
        """Give the run a supervisor again; with `reopen`, give a FAILED run's tasks another attempt."""
        path, body = with_actor(f"{_path(run)}/resume", actor), {"reopen": reopen}
        return self._connection.command(Resumed, "POST", path, body, repeatable=not reopen)

    def export(self, run: int | str, *, actor: str | None = None) -> Sequence[ExportRecord]:
        """Announce the run's end and archive its files again."""
        path = with_actor(f"{_path(run)}/export", actor)
        return self._connection.command(_Exported, "POST", path, repeatable=True)["exports"]

    def add_tasks(self, run: int | str, count: int, key: str | None = None) -> range:
        """Add tasks to a run under way and return their numbers. A second call with the same key adds no tasks."""
        headers = {"Idempotency-Key": key or uuid.uuid4().hex}
        added = self._connection.command(
            _Added, "POST", f"{_path(run)}/tasks", {"count": count}, repeatable=True, headers=headers
        )
        return range(added["first"], added["first"] + added["count"])


def start_body(request: RunRequest) -> dict[str, Any]:
    """Return the request's fields for the API, without defaults: an older API may not know newer fields."""
    fields = request.model_dump(mode="json", include=set(RunParameters.model_fields), exclude_defaults=True)
    return fields | {"trigger": request.trigger.value}


def _path(run: int | str) -> str:
    return f"/v1/runs/{segment(run)}"
