"""`Remote`: access to an installation by its HTTP API, with schedules, audits and limits."""

from collections.abc import Sequence
from datetime import datetime

from crawler_lifecycle.cli.remote.runs import RemoteRuns
from crawler_lifecycle.cli.remote.threads import call
from crawler_lifecycle.client.http import Api
from crawler_lifecycle.contract.audits import AuditReport, AuditRequest, AuditView
from crawler_lifecycle.contract.limits import LimitChange, LimitRecord, PauseRequest, ScopeName
from crawler_lifecycle.contract.schedules import (
    Backfilled,
    ManagerSchedule,
    ScheduleDetails,
    ScheduleRequest,
    ScheduleSummary,
    Triggered,
)


class Remote:
    """All commands over the API. `actor`: claimed name, which stands beside the token's name."""

    def __init__(self, api: Api, actor: str | None) -> None:
        self.runs = RemoteRuns(api, actor)
        self.schedules = RemoteSchedules(api, actor)
        self.audits = RemoteAudits(api, actor)


class RemoteLimits:
    def __init__(self, api: Api, actor: str | None) -> None:
        self._limits = api.limits
        self._actor = actor

    def all(self) -> Sequence[LimitRecord]:
        return self._limits.all()

    def change(self, request: LimitChange) -> Sequence[LimitRecord]:
        return self._limits.change(request, actor=self._actor)

    def pause(self, request: PauseRequest) -> Sequence[LimitRecord]:
        return self._limits.pause(request, actor=self._actor)

    def resume(self, request: ScopeName) -> Sequence[LimitRecord]:
        return self._limits.resume(request, actor=self._actor)


class RemoteSchedules:
    def __init__(self, api: Api, actor: str | None) -> None:
        self._schedules = api.schedules
        self._actor = actor

    async def create(self, request: ScheduleRequest | ManagerSchedule) -> ScheduleDetails:
        return await call(lambda: self._schedules.create(request, actor=self._actor))

    async def replace(self, request: ScheduleRequest | ManagerSchedule) -> ScheduleDetails:
        return await call(lambda: self._schedules.replace(request, actor=self._actor))

    async def list(self) -> Sequence[ScheduleSummary]:
        return await call(self._schedules.list)

    async def show(self, schedule_id: str, *, occurrences: int = 10, before: datetime | None = None) -> ScheduleDetails:
        return await call(lambda: self._schedules.show(schedule_id, occurrences=occurrences, before=before))

    async def pause(self, schedule_id: str, *, reason: str | None = None) -> ScheduleDetails:
        return await call(lambda: self._schedules.pause(schedule_id, actor=self._actor, reason=reason))

    async def resume(self, schedule_id: str, *, reason: str | None = None) -> ScheduleDetails:
        return await call(lambda: self._schedules.resume(schedule_id, actor=self._actor, reason=reason))

    async def trigger(self, schedule_id: str) -> Triggered:
        return await call(lambda: self._schedules.trigger(schedule_id, actor=self._actor))

    async def backfill(
        self, schedule_id: str, since: datetime, until: datetime, *, at_once: bool = False
    ) -> Backfilled:
        return await call(
            lambda: self._schedules.backfill(schedule_id, since, until, at_once=at_once, actor=self._actor)
        )

    async def delete(self, schedule_id: str) -> None:
        await call(lambda: self._schedules.delete(schedule_id, actor=self._actor))


class RemoteAudits:
    def __init__(self, api: Api, actor: str | None) -> None:
        self._audits = api.audits
        self._actor = actor

    async def view(self) -> AuditView:
        return await call(self._audits.overview)

    async def run(self, request: AuditRequest) -> AuditReport:
        """Start an audit and return its report."""
        return await call(lambda: self._audits.run(request.model_copy(update={"requested_by": self._actor})))
