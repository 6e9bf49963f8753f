"""Limits and pauses over the HTTP API. The record names the token."""

from collections.abc import Sequence

from typing_extensions import TypedDict

from crawler_lifecycle.client.http.connection import Connection
from crawler_lifecycle.contract.answers import InstallationView
from crawler_lifecycle.contract.limits import LimitChange, LimitRecord, PauseRequest, ScopeName


class _Limits(TypedDict):
    limits: list[LimitRecord]


class Limits:
    """Commands return all limits after the change."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def all(self) -> Sequence[LimitRecord]:
        """Return the limits and pauses for all scopes with the present use. The installation comes first."""
        return self._connection.read(_Limits, "/v1/limits")["limits"]

    def installation(self) -> InstallationView:
        """Return the installation's use and the runs without room in the cluster."""
        return self._connection.read(InstallationView, "/v1/installation")

    def change(self, request: LimitChange) -> Sequence[LimitRecord]:
        """Write the request's values."""
        return self._send("PUT", "/v1/limits", request, repeatable=True)

    def pause(self, request: PauseRequest) -> Sequence[LimitRecord]:
        """Pause the scope: new runs are accepted and wait, and work in the cluster continues."""
        return self._send("POST", "/v1/limits/pause", request, repeatable=True)

    def resume(self, scope: ScopeName) -> Sequence[LimitRecord]:
        """End the scope's pause. NotFound if the scope is not paused."""
        return self._send("POST", "/v1/limits/resume", scope, repeatable=False)

    def _send(self, method: str, path: str, request: ScopeName, *, repeatable: bool) -> Sequence[LimitRecord]:
        body = request.model_dump(mode="json", exclude_unset=True)
        return self._connection.command(_Limits, method, path, body, repeatable=repeatable)["limits"]
