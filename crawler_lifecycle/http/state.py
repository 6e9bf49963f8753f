"""The endpoints' shared state, and the FastAPI dependencies by which an endpoint gets state and caller.

`StreamSlots` limits the open live streams, by process and by token. `workflow_url` links runs and flows to their
workflows in Temporal's Web UI.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Annotated, Generic, Protocol, Self, TypeAlias, TypeVar
from urllib.parse import quote

from fastapi import Depends, Path, Query, Request, Security
from fastapi.security import HTTPBearer
from starlette.exceptions import HTTPException

from crawler_lifecycle.base.bulkhead import Bulkhead
from crawler_lifecycle.base.requesters import LONGEST_CLAIM, Requester, of_token
from crawler_lifecycle.errors import LifecycleError, TemporaryError
from crawler_lifecycle.http.health import DiskWatch, PublicProblems
from crawler_lifecycle.http.middleware import Metrics
from crawler_lifecycle.http.problems import RETRY_AFTER_SECONDS
from crawler_lifecycle.http.tokens import Scope, Token, Tokens
from crawler_lifecycle.settings.processes import ApiSettings
from crawler_lifecycle.temporal.engine import Engine

VALID_SECONDS = 1.0  # all callers within this time share a result of the readiness check
DOOR = "api"
# Numbers of threads. Those that only read the database leave two of LEAST_CONNECTIONS to commands.
CHANGE_READERS = 3  # for streams of changes
LOG_READERS = 8  # for streams that follow a log
LOG_PART_READERS = 4  # for single parts of a log
ARCHIVE_READERS = 2
SEARCHERS = 2  # for lists with filters, and counts: three find no more in a second, and slow down other requests
PATIENCE = 10.0  # seconds that a request waits for a thread, and then fails; streams wait without a limit


@dataclass
class StreamSlots:
    """Open streams, counted by token. Without a limit for one token, a single client could take every slot."""

    limit: int
    limit_per_token: int
    _open: Counter[str] = field(default_factory=Counter)  # by name of the token

    @property
    def open_count(self) -> int:
        return self._open.total()

    def refuse_too_many(self, token: str) -> None:
        """Raise TemporaryError if the process has no free slot, and HTTPException if the token has no free slot."""
        if self.open_count >= self.limit:
            raise TemporaryError(f"{self.open_count} streams are open, which is all this process serves")
        if self._open[token] >= self.limit_per_token:
            message = f"{self._open[token]} streams of the token {token} are open, which is all that one token may have"
            raise HTTPException(429, message, {"Retry-After": str(RETRY_AFTER_SECONDS)})

    @contextmanager
    def take(self, token: str) -> Iterator[None]:
        """Take a slot during the block, or raise an error like `refuse_too_many`."""
        self.refuse_too_many(token)
        self._open[token] += 1
        try:
            yield
        finally:
            self._open -= Counter({token: 1})  # the subtraction drops tokens without a stream


class Readiness:
    """Last check for readiness, valid for a moment: strangers may ask, and a check asks database and Temporal."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = asyncio.Lock()  # concurrent callers wait for the same check
        self._valid_until = float("-inf")
        self._problem: LifecycleError | None = None

    async def require(self, check: Callable[[], Awaitable[None]]) -> None:
        """Check if the last result is not valid any more, and raise the problem of the last check, if any."""
        async with self._lock:
            if self._clock() >= self._valid_until:
                self._problem = await _problem_of(check)
                self._valid_until = self._clock() + VALID_SECONDS
            if self._problem is not None:
                raise self._problem


async def _problem_of(check: Callable[[], Awaitable[None]]) -> LifecycleError | None:
    try:
        await check()
    except LifecycleError as error:
        return error
    return None


class ForCallers(Protocol):
    """Commands as all endpoints need them. A capability's endpoints extend the protocol by its commands."""

    engine: Engine

    def asked_by(self, requester: Requester) -> Self:
        """Return the same commands for a requester."""


C_co = TypeVar("C_co", bound=ForCallers, covariant=True)


@dataclass
class ApiState(Generic[C_co]):
    """The endpoints' parts, limits and threads. Every kind of slow call has its own threads."""

    control: C_co
    settings: ApiSettings
    tokens: Tokens
    # set when the process shuts down, so that streams end: an open stream would hold up the process
    closing: asyncio.Event = field(default_factory=asyncio.Event)
    streams: StreamSlots = field(init=False)
    metrics: Metrics = field(default_factory=Metrics)
    change_readers: Bulkhead = field(default_factory=lambda: Bulkhead("the reading of changes", CHANGE_READERS))
    log_readers: Bulkhead = field(default_factory=lambda: Bulkhead("the following of logs", LOG_READERS))
    log_part_readers: Bulkhead = field(
        default_factory=lambda: Bulkhead("the reading of logs", LOG_PART_READERS, patience=PATIENCE)
    )
    archive_readers: Bulkhead = field(
        default_factory=lambda: Bulkhead("the store of archives", ARCHIVE_READERS, patience=PATIENCE)
    )
    searchers: Bulkhead = field(
        default_factory=lambda: Bulkhead("the search among all runs", SEARCHERS, patience=PATIENCE)
    )
    readiness: Readiness = field(default_factory=Readiness)
    public_problems: PublicProblems = field(default_factory=PublicProblems)
    disks: DiskWatch = field(default_factory=lambda: DiskWatch(()))

    def __post_init__(self) -> None:
        self.streams = StreamSlots(self.settings.streams, self.settings.streams_of_one_token)


AnyApi: TypeAlias = ApiState[ForCallers]


# The dependencies are async although none waits: FastAPI would run them in the threads that slow requests may fill.
async def api_state(request: Request) -> AnyApi:
    api: AnyApi = request.app.state.api
    return api


async def caller_of(request: Request) -> Token:
    """Return the caller's token, which the gate has checked."""
    token: Token = request.state.caller
    return token


Actor = Annotated[
    str | None,
    Query(max_length=LONGEST_CLAIM, description="requester's name, for records; the token's name stands beside it"),
]


async def commands(request: Request, actor: Actor = None) -> ForCallers:
    """Return the commands for the caller, by the query's `actor`: these requests have no body with a name."""
    return commands_of(await api_state(request), await caller_of(request), actor)


def commands_of(api: ApiState[C_co], caller: Token, claimed: str | None = None, field: str = "actor") -> C_co:
    """Return the commands for the caller. `claimed`: the request's own name, for records beside the token's name."""
    return api.control.asked_by(of_token(caller.name, claimed, DOOR, field))


def needs_scope(scope: Scope) -> Callable[[Request], Awaitable[None]]:
    """Return a dependency that answers 403 if the caller's token lacks the scope."""

    async def check(request: Request) -> None:
        token = await caller_of(request)
        if scope not in token.scopes:
            raise HTTPException(403, f"the token {token.name} lacks the scope {scope}")

    return check


# The gate has checked the token already; BEARER only declares the token in the OpenAPI document.
BEARER = Security(HTTPBearer(auto_error=False, description="Made by `crawlctl token create`."))
# dependencies for reading endpoints, for commands, and for results of flows
READING = [BEARER, Depends(needs_scope(Scope.READ))]
OPERATING = [BEARER, Depends(needs_scope(Scope.OPERATE))]
READING_RESULTS = [BEARER, Depends(needs_scope(Scope.RESULTS))]

Caller = Annotated[Token, Depends(caller_of)]
Run = Annotated[str, Path(max_length=64, description="RunID (a number) or run_uid (a UUID)")]


def workflow_url(api: AnyApi, workflow_id: str) -> str | None:
    """Return the address of the workflow's last execution in Temporal's Web UI; None without a setting for the UI."""
    if api.settings.temporal_ui is None:
        return None
    namespace, workflow = quote(api.control.engine.namespace, safe=""), quote(workflow_id, safe="")
    return f"{api.settings.temporal_ui.rstrip('/')}/namespaces/{namespace}/workflows/{workflow}"
