"""Schedules over the HTTP API."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from typing_extensions import TypedDict

from crawler_lifecycle.runs.client import start_body
from crawler_lifecycle.schedules.model import (
    Backfilled,
    ManagerSchedule,
    ScheduleDetails,
    ScheduleRequest,
    ScheduleSummary,
    Triggered,
)
from crawler_lifecycle.transport.connection import HttpConnection, segment, with_actor


class _Schedules(TypedDict):
    schedules: list[ScheduleSummary]


class _Deleted(TypedDict):
    deleted: bool


class ApiSchedules:
    """NotFound without a schedule with the name."""

    def __init__(self, connection: HttpConnection) -> None:
        self._connection = connection

    def list(self) -> Sequence[ScheduleSummary]:
        return self._connection.read(_Schedules, "/v1/schedules")["schedules"]

    def show(self, schedule: str, *, occurrences: int = 10, before: datetime | None = None) -> ScheduleDetails:
        moment = before.isoformat() if before else None
        return self._connection.read(ScheduleDetails, _path(schedule), occurrences=occurrences, before=moment)

    def create(self, request: ScheduleRequest | ManagerSchedule, *, actor: str | None = None) -> ScheduleDetails:
        """Make a schedule. Conflict if the name is taken."""
        return self._put(request, actor, {"If-None-Match": "*"}, repeatable=False)

    def replace(self, request: ScheduleRequest | ManagerSchedule, *, actor: str | None = None) -> ScheduleDetails:
        """Give the schedule these rules from now on."""
        self.show(request.schedule_id, occurrences=0)
        return self._put(request, actor, {}, repeatable=True)

    def pause(self, schedule: str, *, actor: str | None = None, reason: str | None = None) -> ScheduleDetails:
        return self._set("pause", schedule, actor, reason)

    def resume(self, schedule: str, *, actor: str | None = None, reason: str | None = None) -> ScheduleDetails:
        return self._set("resume", schedule, actor, reason)

    def trigger(self, schedule: str, *, actor: str | None = None) -> Triggered:
        """Start an occurrence now."""
        return self._connection.command(
            Triggered, "POST", with_actor(f"{_path(schedule)}/trigger", actor), repeatable=False
        )

    def backfill(
        self, schedule: str, since: datetime, until: datetime, *, at_once: bool = False, actor: str | None = None
    ) -> Backfilled:
        """Start the past occurrences between two times."""
        body = {"since": since.isoformat(), "until": until.isoformat(), "at_once": at_once}
        path = with_actor(f"{_path(schedule)}/backfill", actor)
        return self._connection.command(Backfilled, "POST", path, body, repeatable=False)

    def delete(self, schedule: str, *, actor: str | None = None) -> None:
        self._connection.command(_Deleted, "DELETE", with_actor(_path(schedule), actor), repeatable=False)

    def _put(
        self,
        request: ScheduleRequest | ManagerSchedule,
        actor: str | None,
        headers: dict[str, str],
        *,
        repeatable: bool,
    ) -> ScheduleDetails:
        path, body = with_actor(_path(request.schedule_id), actor), _body(request)
        return self._connection.command(ScheduleDetails, "PUT", path, body, repeatable=repeatable, headers=headers)

    def _set(self, verb: str, schedule: str, actor: str | None, reason: str | None) -> ScheduleDetails:
        body = {"actor": actor, "reason": reason}
        return self._connection.command(ScheduleDetails, "POST", f"{_path(schedule)}/{verb}", body, repeatable=True)


def _body(request: ScheduleRequest | ManagerSchedule) -> dict[str, Any]:
    body = request.model_dump(
        mode="json", exclude={"schedule_id", "run", "flow", "requested_by"}, exclude_defaults=True, exclude_none=True
    )
    if isinstance(request, ManagerSchedule):
        return body
    if request.flow is not None:
        body["flow"] = request.flow.model_dump(mode="json")
    if request.run is not None:
        body["run"] = start_body(request.run)
    return body


def _path(schedule: str) -> str:
    return f"/v1/schedules/{segment(schedule)}"
