"""`Application` is Oban's or Chancy's client object, in front of the installation's client."""

import logging
from contextlib import AsyncExitStack
from typing import Any, Self

from crawler_lifecycle import client
from crawler_lifecycle.flows import open_client
from crawler_lifecycle.logs import without_credentials
from crawler_lifecycle.settings.installation import locate

logger = logging.getLogger(__name__)


class Application:
    """A client with another system's DSN, opened as a context manager.

    The installation is the same as for `Flows.open()`. All methods of `Flows` are here as well.
    """

    def __init__(self, dsn: object = None) -> None:
        self.dsn = dsn
        self._opened: client.WorkflowClient | None = None
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        installation = locate()
        if self.dsn is not None and self.dsn != installation.settings.database_url:
            named = without_credentials(self.dsn) if isinstance(self.dsn, str) else type(self.dsn).__name__
            logger.warning(
                "%s: %s names no installation of this service; in use is %s%s",
                type(self).__name__, named, installation.database_name, self.note(),
            )  # fmt: skip
        self._opened = await self._stack.enter_async_context(client.Flows.open())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._opened = None
        await self._stack.aclose()

    def note(self) -> str:
        """Return an addition to the line about a DSN, about duties that Oban's or Chancy's processes would have."""
        return ""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return self.method(name)

    def method(self, name: str) -> Any:
        """Return the open client's method; before the opening, a method of the innermost client, such as a host's."""
        return getattr(self._opened or open_client(), name)
