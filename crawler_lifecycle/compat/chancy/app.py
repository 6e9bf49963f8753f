"""Chancy's application."""

import logging
from collections.abc import Iterable
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from crawler_lifecycle.compat.application import Application
from crawler_lifecycle.compat.chancy.plugin import Plugin, say
from crawler_lifecycle.compat.chancy.queue import Queue
from crawler_lifecycle.flows import Sequence, Workflow
from crawler_lifecycle.flows.authors.functions import as_job

if TYPE_CHECKING:
    from crawler_lifecycle.client import WorkflowClient as Delegate
else:
    Delegate = object


class Chancy(Application, Delegate):
    """The client on this installation, whatever database the DSN names. A line at the opening says so.

    Further arguments concern Chancy's own connections and processes, and have no effect.
    """

    class Executor(StrEnum):
        """Words for a queue's executors, without effect: hosts run async functions on a loop, sync ones in threads."""

        Process = "process"
        Threaded = "threaded"
        Async = "async"
        SubInterpreter = "subinterpreter"

    def __init__(
        self,
        dsn: object,
        *,
        plugins: Iterable[Plugin] | None = None,
        prefix: str = "chancy_",
        min_connection_pool_size: int = 1,
        max_connection_pool_size: int = 10,
        poll_reconnect_timeout: int = 300,
        notifications: bool = True,
        log: logging.Logger | None = None,
        no_default_plugins: bool = False,
    ) -> None:
        del min_connection_pool_size, max_connection_pool_size, poll_reconnect_timeout, notifications
        del no_default_plugins
        super().__init__(dsn)
        self.plugins = list(plugins or ())
        self.prefix = prefix
        self.log = log or logging.getLogger("chancy")

    def note(self) -> str:
        names = ", ".join(type(plugin).__name__ for plugin in self.plugins)
        return f", whose own processes do the work of plugins ({names} do not run here)" if names else ""

    async def push(self, job: Any) -> str:
        """Push a job as a workflow with a single step, or a workflow. Return the workflow's id."""
        if isinstance(job, Workflow | Sequence):
            return str(await self.method("push")(job))
        name = as_job("job", job).title
        return await self.push(Workflow(name).add(name, job))

    async def migrate(self, *, to_version: int | None = None) -> None:
        """Do nothing: `crawlctl db upgrade` migrates the service's tables."""
        del to_version
        say("Chancy.migrate", "crawlctl db upgrade migrates the service's tables")

    async def declare(self, queue: Queue, *, upsert: bool = False) -> Queue:
        """Do nothing: a queue begins with its first job, and a host chooses its queues."""
        del upsert
        say("Chancy.declare", f"a host takes the queue by crawlctl host MODULE --queue {queue.name}")
        return queue
