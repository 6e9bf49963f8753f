"""`Flows` opens a client for flows, in async or blocking code, and `flows` forwards to the innermost open client."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Self, cast

from crawler_lifecycle.assembly.control import Control
from crawler_lifecycle.client.blocking import LoopThread, SyncFlows
from crawler_lifecycle.client.workflows import WorkflowClient
from crawler_lifecycle.errors import NotReady
from crawler_lifecycle.flows import open_client, opened
from crawler_lifecycle.flows.authors.open_client import refuse_client_while_forbidden


class Flows(WorkflowClient):
    """The client in async code: `async with Flows.open() as flows:`."""

    @classmethod
    @asynccontextmanager
    async def open(cls, state: Path | str | None = None, *, actor: str | None = None) -> AsyncIterator["Flows"]:
        """Open a client for the same installation as `crawlctl`: by the environment, or by the state folder's stack.

        NotReady if the database does not answer. `actor`: name for the record, by default the login name.
        """
        flows = await cls.connected(state, actor)
        try:
            with opened(flows):
                yield flows
        finally:
            await flows.close()

    @classmethod
    @contextmanager
    def open_sync(cls, state: Path | str | None = None, *, actor: str | None = None) -> Iterator[SyncFlows]:
        """Open a client outside async code: `with Flows.open_sync() as flows:`."""
        with LoopThread() as thread:
            flows = thread.run(cls.connected(state, actor))
            try:
                with opened(flows):
                    yield SyncFlows(flows)
            finally:
                thread.run(flows.close())

    @classmethod
    async def connected(cls, state: Path | str | None, actor: str | None) -> Self:
        """Return a client, after the first answer from the database. The caller closes the client."""
        refuse_client_while_forbidden()  # such as while `crawlctl flow check` calls an author's function
        flows = cls(Control.open(None if state is None else Path(state)), actor=actor)
        await flows.control.context.database(lambda store: store.records.installation())  # a ping: any read would do
        return flows

    @staticmethod
    def current() -> WorkflowClient:
        """Return the innermost open client. A step's function has an open client, its host's."""
        client = open_client()
        if not isinstance(client, WorkflowClient):
            raise NotReady("the innermost open client is a client for tests")
        return client


class _Innermost:
    """Stand-in for the open client during a call, such as a host's client during a step.

    An author imports `flows` once, and every call finds the client then open.
    """

    def __getattr__(self, name: str) -> Any:
        return getattr(Flows.current(), name)


flows = cast(WorkflowClient, _Innermost())
