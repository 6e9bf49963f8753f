"""State for all endpoints, and the scopes that callers need."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated

from fastapi import Depends, Path, Request, Security
from fastapi.security import HTTPBearer
from starlette.exceptions import HTTPException

from crawler_lifecycle.control.bulkhead import Bulkhead
from crawler_lifecycle.control.control import Control
from crawler_lifecycle.ports import Records
from crawler_lifecycle.services.api.metrics import Metrics
from crawler_lifecycle.services.api.readiness import Readiness
from crawler_lifecycle.services.api.slots import Slots
from crawler_lifecycle.services.api.tokens import Scope, Token, Tokens
from crawler_lifecycle.services.disk import DiskWatch
from crawler_lifecycle.settings.processes import ApiSettings

# together fewer than the database connections of a process
CHANGE_READERS, LOG_READERS, TAIL_READERS, ARCHIVE_READERS = 6, 8, 4, 2
PATIENCE = 10.0  # seconds that a request may wait for a thread


@dataclass
class Desk:
    control: Control
    settings: ApiSettings
    tokens: Tokens
    closing: asyncio.Event = field(
        default_factory=asyncio.Event
    )  # ends the streams: an open stream would hold up the end
    streams: Slots = field(init=False)
    metrics: Metrics = field(default_factory=Metrics)
    change_readers: Bulkhead = field(default_factory=lambda: Bulkhead("the reading of changes", CHANGE_READERS))
    log_readers: Bulkhead = field(default_factory=lambda: Bulkhead("the following of logs", LOG_READERS))
    tail_readers: Bulkhead = field(
        default_factory=lambda: Bulkhead("the reading of logs", TAIL_READERS, patience=PATIENCE)
    )
    archive_readers: Bulkhead = field(
        default_factory=lambda: Bulkhead("the store of archives", ARCHIVE_READERS, patience=PATIENCE)
    )
    readiness: Readiness = field(default_factory=Readiness)
    disks: DiskWatch = field(default_factory=lambda: DiskWatch(()))

    def __post_init__(self) -> None:
        self.streams = Slots(self.settings.streams, self.settings.streams_of_one_token)

    @property
    def records(self) -> Records:
        return self.control.context.store.records


def _desk(request: Request) -> Desk:
    desk: Desk = request.app.state.desk
    return desk


def caller(request: Request) -> Token:
    """Return the token admitted by the gate."""
    token: Token = request.state.caller
    return token


def may(scope: Scope) -> Callable[[Request], None]:
    def check(request: Request) -> None:
        token = caller(request)
        if scope not in token.scopes:
            raise HTTPException(403, f"the token {token.name} has not the scope {scope}")

    return check


# The gate checks the token before reading a body; the document declares the token here.
BEARER = Security(HTTPBearer(auto_error=False, description="Made by `crawlctl token create`."))
READING = [BEARER, Depends(may(Scope.READ))]
OPERATING = [BEARER, Depends(may(Scope.OPERATE))]

CurrentDesk = Annotated[Desk, Depends(_desk)]
Caller = Annotated[Token, Depends(caller)]
Run = Annotated[str, Path(max_length=64, description="RunID (a number) or run_uid (a UUID)")]
