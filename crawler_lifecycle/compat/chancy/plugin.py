"""Chancy's plugins: objects in a program's list. The service does their work, with or without them."""

import logging
from enum import Enum
from typing import Any

logger = logging.getLogger(__name__)


class PluginScope(Enum):
    """The processes with a plugin."""

    WORKER = "worker"


class Plugin:
    """A plugin. No process here calls the methods; a call says where the service does the work."""

    @classmethod
    def get_scope(cls) -> PluginScope:
        """Return Chancy's scope. Plugins run in no process here."""
        return PluginScope.WORKER

    async def run(self, worker: Any, chancy: Any) -> None:
        """Return at once: the service's own processes do a plugin's work."""
        del worker, chancy
        say(f"{type(self).__name__}.run", "the service's own processes do the work")

    def api_plugin(self) -> str | None:
        """Return the import path of the plugin's part for an HTTP API, if the plugin has one."""
        return None

    def migrate_key(self) -> str | None:
        """Return the plugin's name among migrations, if the plugin has tables."""
        return None

    def migrate_package(self) -> str | None:
        """Return the package with the plugin's migrations, if the plugin has tables."""
        return None

    async def cleanup(self, chancy: Any) -> int | None:
        """Return how many rows were deleted; None for none."""
        del chancy
        return None


def say(call: str, reason: str) -> None:
    """Say in one line why a call has no effect."""
    logger.warning("%s has no effect: %s", call, reason)
