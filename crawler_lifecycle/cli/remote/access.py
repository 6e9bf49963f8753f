"""`Remote`: access to an installation by its HTTP API, with schedules, audits and limits."""

import time
from collections.abc import Sequence
from datetime import datetime

from crawler_lifecycle.cli.remote.runs import RemoteRuns
from crawler_lifecycle.cli.remote.threads import call
from crawler_lifecycle.client.http import Api
from crawler_lifecycle.contract.audits import AuditOverview, AuditReport, AuditRequest
from crawler_lifecycle.contract.limits import LimitChange, LimitRecord, PauseRequest, ScopeName
from crawler_lifecycle.contract.schedules import (
    Backfilled,
    ManagerSchedule,
    ScheduleDetails,
    ScheduleRequest,
    ScheduleSummary,
    Triggered,
)
from crawler_lifecycle.errors import TemporaryError

AUDIT_PATIENCE = 120.0  # seconds to wait for a report
AUDIT_PAUSE = 1.0  # seconds between two reads


class Remote:
    """All commands over the API. `actor`: claimed name, which stands beside the token's name where the API takes it."""

    def __init__(self, api: Api, actor: str | None) -> None:
        self.runs = RemoteRuns(api)
        self.schedules = RemoteSchedules(api, actor)
        self.audits = RemoteAudits(api)


class RemoteLimits:
    """Limits over the API. The API records the token's name, and has no place for an actor."""

    def __init__(self, api: Api) -> None:
        self._limits = api.limits

    def all(self) -> Sequence[LimitRecord]:
        return self._limits.all()

    def change(self, request: LimitChange) -> Sequence[LimitRecord]:
        return self._limits.change(request)

    def pause(self, request: PauseRequest) -> Sequence[LimitRecord]:
        return self._limits.pause(request)

    def resume(self, request: ScopeName) -> Sequence[LimitRecord]:
        return self._limits.resume(request)


class RemoteSchedules:
    def __init__(self, api: Api, actor: str | None) -> None:
        self._schedules = api.schedules
        self._actor = actor

    async def create(self, request: ScheduleRequest | ManagerSchedule) -> ScheduleDetails:
        return await call(lambda: self._schedules.create(request))

    async def replace(self, request: ScheduleRequest | ManagerSchedule) -> ScheduleDetails:
        return await call(lambda: self._schedules.replace(request))

    async def list(self) -> Sequence[ScheduleSummary]:
        return await call(self._schedules.list)

    async def show(self, schedule_id: str, *, occurrences: int = 10, before: datetime | None = None) -> ScheduleDetails:
        return await call(lambda: self._schedules.show(schedule_id, occurrences=occurrences, before=before))

    async def pause(self, schedule_id: str, *, reason: str | None = None) -> ScheduleDetails:
        return await call(lambda: self._schedules.pause(schedule_id, actor=self._actor, reason=reason))

    async def resume(self, schedule_id: str, *, reason: str | None = None) -> ScheduleDetails:
        return await call(lambda: self._schedules.resume(schedule_id, actor=self._actor, reason=reason))

    async def trigger(self, schedule_id: str) -> Triggered:
        return await call(lambda: self._schedules.trigger(schedule_id))

    async def backfill(
        self, schedule_id: str, since: datetime, until: datetime, *, at_once: bool = False
    ) -> Backfilled:
        return await call(lambda: self._schedules.backfill(schedule_id, since, until, at_once=at_once))

    async def delete(self, schedule_id: str) -> None:
        await call(lambda: self._schedules.delete(schedule_id))


class RemoteAudits:
    def __init__(self, api: Api) -> None:
        self._audits = api.audits

    def overview(self) -> AuditOverview:
        return self._audits.overview()

    async def check_punctuality(self, overview: AuditOverview) -> str | None:
        """Return None: the period of the audits is a setting over there, which the API does not return."""
        del overview
        return None

    async def run(self, request: AuditRequest) -> AuditReport:
        """Start an audit and return its report. TemporaryError if the report takes longer than AUDIT_PATIENCE."""
        return await call(lambda: self._run(request))

    def _run(self, request: AuditRequest) -> AuditReport:
        audit, deadline = self._audits.start(request).audit, time.monotonic() + AUDIT_PATIENCE
        while (report := self._audits.report(audit)) is None:
            if time.monotonic() > deadline:
                raise TemporaryError(
                    f"audit {audit} is under way but not done after {AUDIT_PATIENCE:.0f} s: `crawlctl audit` shows the "
                    "findings later"
                )
            time.sleep(AUDIT_PAUSE)
        return report
