"""Limits over the HTTP API."""

from collections.abc import Sequence

from typing_extensions import TypedDict

from crawler_lifecycle.model.answers import InstallationView
from crawler_lifecycle.model.limits import LimitChange, LimitRecord, PauseRequest, ScopeName
from crawler_lifecycle.transport.connection import HttpConnection, with_actor


class _Limits(TypedDict):
    limits: list[LimitRecord]


class ApiLimits:
    """Commands return all limits after the change. `actor`: name for the record, beside the token's name."""

    def __init__(self, connection: HttpConnection) -> None:
        self._connection = connection

    def all(self) -> Sequence[LimitRecord]:
        """Return the limits and pauses for all scopes with the present use. The installation comes first."""
        return self._connection.read(_Limits, "/v1/limits")["limits"]

    def installation(self) -> InstallationView:
        """Return the installation's use and the runs without room in the cluster."""
        return self._connection.read(InstallationView, "/v1/installation")

    def change(self, request: LimitChange, *, actor: str | None = None) -> Sequence[LimitRecord]:
        """Write the request's values."""
        return self._send("PUT", "/v1/limits", request, actor, repeatable=True)

    def pause(self, request: PauseRequest, *, actor: str | None = None) -> Sequence[LimitRecord]:
        """Pause the scope: new runs are accepted and wait, and work in the cluster continues."""
        return self._send("POST", "/v1/limits/pause", request, actor, repeatable=True)

    def resume(self, scope: ScopeName, *, actor: str | None = None) -> Sequence[LimitRecord]:
        """End the scope's pause. NotFound if the scope is not paused."""
        return self._send("POST", "/v1/limits/resume", scope, actor, repeatable=False)

    def _send(
        self, method: str, path: str, request: ScopeName, actor: str | None, *, repeatable: bool
    ) -> Sequence[LimitRecord]:
        body = request.model_dump(mode="json", exclude_unset=True)
        return self._connection.command(_Limits, method, with_actor(path, actor), body, repeatable=repeatable)["limits"]
