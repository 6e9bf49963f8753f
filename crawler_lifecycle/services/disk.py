"""Watch of a process over the disks on which it writes: a log line when one is full, and when it has room again."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from crawler_lifecycle.adapters.disk import check_room
from crawler_lifecycle.errors import NotReady

log = logging.getLogger(__name__)
PAUSE = 15.0


@dataclass
class DiskWatch:
    folders: Sequence[Path]
    pause: float = PAUSE

    async def run(self) -> None:
        """Look for ever. A problem is logged when it is new: the log may lie on the same disk."""
        problem: str | None = None
        while True:
            before, problem = problem, await asyncio.to_thread(self._problem)
            if problem is not None and before is None:
                log.error("%s", problem)
            elif problem is None and before is not None:
                log.info("the disk can be written to again")
            await asyncio.sleep(self.pause)

    def _problem(self) -> str | None:
        try:
            check_room(self.folders)
        except NotReady as error:
            return error.message
        return None
