"""Access to an installation, as commands need it: by database and Temporal (`Control`), or by the HTTP API (`Remote`).

A protocol has the methods in use. A command without an equivalent in the API takes a `Control` by `open_local`.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from crawler_lifecycle.contract.answers import InstallationView, Resumed, Started, Stopping
    from crawler_lifecycle.contract.attention import Attention
    from crawler_lifecycle.contract.audits import AuditOverview, AuditReport, AuditRequest
    from crawler_lifecycle.contract.limits import LimitChange, LimitRecord, PauseRequest, ScopeName
    from crawler_lifecycle.contract.records import RunDetails, RunOverview, RunSummary
    from crawler_lifecycle.contract.requests import RunRequest, StopRequest
    from crawler_lifecycle.contract.schedules import (
        Backfilled,
        ManagerSchedule,
        ScheduleDetails,
        ScheduleRequest,
        ScheduleSummary,
        Triggered,
    )
    from crawler_lifecycle.contract.states import ListedStatus
    from crawler_lifecycle.control.reading import OpenArchive
    from crawler_lifecycle.ports import LogChunk


class RunAccess(Protocol):
    def list(
        self,
        *,
        limit: int = 20,
        before: int | None = None,
        status: "ListedStatus | None" = None,
        crawler: str | None = None,
        flows: bool = False,
        flow: str | None = None,
        tag: str | None = None,
        outcome: str | None = None,
        label: str | None = None,
    ) -> "Sequence[RunSummary]": ...

    def installation(self, most_saturated: int) -> "InstallationView": ...

    def attention(self) -> "Attention": ...

    def show(self, run: int | str) -> "RunDetails": ...

    def watch(self, run: int | str) -> "AsyncIterator[RunDetails]": ...

    def log(self, details: "RunDetails", task: int, offset: int = 0) -> "LogChunk": ...

    def download(self, run: int | str, end: int | None = None) -> "AbstractContextManager[OpenArchive]": ...


class RunCommandAccess(RunAccess, Protocol):
    async def start(self, request: "RunRequest") -> "Started": ...

    async def stop(self, run: int | str, request: "StopRequest") -> "Stopping": ...

    async def resume(self, run: int | str, *, reopen: bool = False) -> "Resumed": ...

    async def export(self, run: int | str) -> "RunOverview": ...


class LimitAccess(Protocol):
    def all(self) -> "Sequence[LimitRecord]": ...

    def change(self, request: "LimitChange") -> "Sequence[LimitRecord]": ...

    def pause(self, request: "PauseRequest") -> "Sequence[LimitRecord]": ...

    def resume(self, request: "ScopeName") -> "Sequence[LimitRecord]": ...


class ScheduleAccess(Protocol):
    async def create(self, request: "ScheduleRequest | ManagerSchedule") -> "ScheduleDetails": ...

    async def replace(self, request: "ScheduleRequest | ManagerSchedule") -> "ScheduleDetails": ...

    async def list(self) -> "Sequence[ScheduleSummary]": ...

    async def show(
        self, schedule_id: str, *, occurrences: int = 10, before: datetime | None = None
    ) -> "ScheduleDetails": ...

    async def pause(self, schedule_id: str, *, reason: str | None = None) -> "ScheduleDetails": ...

    async def resume(self, schedule_id: str, *, reason: str | None = None) -> "ScheduleDetails": ...

    async def trigger(self, schedule_id: str) -> "Triggered": ...

    async def backfill(
        self, schedule_id: str, since: datetime, until: datetime, *, at_once: bool = False
    ) -> "Backfilled": ...

    async def delete(self, schedule_id: str) -> None: ...


class AuditAccess(Protocol):
    def overview(self) -> "AuditOverview": ...

    async def run(self, request: "AuditRequest") -> "AuditReport": ...

    async def check_punctuality(self, overview: "AuditOverview") -> str | None: ...


class Access(Protocol):
    """Access to all parts. The properties are read-only, so that `Control` fits with its own classes."""

    @property
    def runs(self) -> RunCommandAccess: ...

    @property
    def schedules(self) -> ScheduleAccess: ...

    @property
    def audits(self) -> AuditAccess: ...
