"""The client for a workflow's verbs: the innermost open client, or the host's client inside a step."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any, Protocol, TypeVar

from crawler_lifecycle.errors import BadInput, NotReady, PermanentError
from crawler_lifecycle.flows.model.definition import FlowDefinition
from crawler_lifecycle.flows.model.records import FlowStatus, MemberRecord
from crawler_lifecycle.flows.model.requests import AppendMembers, ChangeFlow, GraftMembers

T = TypeVar("T")


class FlowClient(Protocol):
    """A client for flows. `flow` is a flow's id, `path` is a sub-workflow's path, or empty for the top level."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """Event loop for the client's connections."""

    async def push_definition(self, definition: FlowDefinition) -> str:
        """Store a flow, or update the flow. Return its id."""

    async def append(self, flow: str, request: AppendMembers) -> int:
        """Add jobs to an open flow. Return their number; 0 if the key was used before."""

    async def graft(self, flow_uid: str, request: GraftMembers) -> None: ...

    async def change(self, flow: str, request: ChangeFlow) -> int:
        """Cancel, retry or approve jobs, or hold the flow. Return the number of changes."""

    async def status(self, flow: str, path: str) -> FlowStatus:
        """Return the status; `unknown` without such a flow."""

    async def jobs(self, flow: str, paths: Sequence[str] | None = None) -> Sequence[MemberRecord]:
        """Return all jobs in their order, or the jobs with the paths; an empty list without such a flow or job."""

    async def dependencies(self, flow: str, path: str) -> Sequence[str]:
        """Return the paths of the jobs and sub-workflows in a job's context; an empty list without such a job."""

    async def results(self, flow: str, paths: Sequence[str] | None) -> Mapping[str, Any]:
        """Return recorded results by path, nested for sub-workflows; an empty dict without such a flow."""

    async def context(self, flow: str, path: str) -> Mapping[str, Any] | None: ...


_open: ContextVar[Callable[[], FlowClient]] = ContextVar("open_client")
_no_push: ContextVar[str] = ContextVar("no_push", default="")  # why the present code pushes no flow
_refusals: list[str] = []  # why no client may be opened at present


def open_client() -> FlowClient:
    """Return the innermost open client."""
    client = _open.get(None)
    if client is None:
        refuse_push()
        raise NotReady("no client for flows is open here: use `async with Flows.open():` around the call")
    return client()


@contextmanager
def without_clients(reason: str) -> Iterator[None]:
    """Refuse to open a client during the block, in all threads, with the reason."""
    _refusals.append(reason)
    try:
        yield
    finally:
        _refusals.remove(reason)


@contextmanager
def without_pushes(reason: str) -> Iterator[None]:
    """Refuse to push flows and to add jobs during the block, with the reason."""
    token = _no_push.set(reason)
    try:
        yield
    finally:
        _no_push.reset(token)


def refuse_push() -> None:
    """Raise BadInput if the present code may push no flow."""
    if reason := _no_push.get():
        raise BadInput("flow", reason)


def refuse_client_while_forbidden() -> None:
    """Raise BadInput if no client may be opened at present."""
    if _refusals:
        raise BadInput("FILE", _refusals[-1])


@contextmanager
def opened(client: FlowClient) -> Iterator[None]:
    """Make the client the innermost open client during the block."""
    with opened_by(lambda: client):
        yield


@contextmanager
def opened_by(make: Callable[[], FlowClient]) -> Iterator[None]:
    """Make the client from `make` the innermost open client during the block. The first use makes the client."""
    token = _open.set(cache(make))
    try:
        yield
    finally:
        _open.reset(token)


def blocking(verb: Coroutine[Any, Any, T]) -> T:
    """Return a verb's result outside async code, such as `blocking(workflow.status())` in a step's function."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run_coroutine_threadsafe(verb, open_client().loop).result()
    verb.close()
    raise PermanentError("`blocking` would stop this event loop: use `await` in an async function")
