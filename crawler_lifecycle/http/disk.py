"""Watches the disks of a process: logs a full disk, and logs when there is room again."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from crawler_lifecycle.base.disk import check_room
from crawler_lifecycle.errors import NotReady

log = logging.getLogger(__name__)
PAUSE = 15.0  # seconds between two checks


@dataclass
class DiskWatch:
    folders: Sequence[Path]
    pause: float = PAUSE
    _problem: str | None = field(default=None, init=False)  # found by the last check

    @property
    def has_problem(self) -> bool:
        """Whether the last check found a full disk.

        The API and the scheduler service stay ready on a full disk, since reading and stops continue. The other
        processes are not ready then (`process.needs_of`).
        """
        return self._problem is not None

    async def run(self) -> None:
        """Check indefinitely. Only a new problem is logged: the log may be on the same disk."""
        while True:
            had_problem = self.has_problem
            self._problem = await asyncio.to_thread(self._find_problem)
            if self._problem is not None and not had_problem:
                log.error("%s", self._problem)
            elif self._problem is None and had_problem:
                log.info("the disk can be written to again")
            await asyncio.sleep(self.pause)

    def _find_problem(self) -> str | None:
        try:
            check_room(self.folders)
        except NotReady as error:
            return error.message
        return None
