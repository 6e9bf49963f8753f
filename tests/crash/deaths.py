"""Where does a process die? By `kill -9` of its own, at each point that is named, once in all its lives."""

import os
import signal
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

ARMED = "armed"


@dataclass(frozen=True)
class Deaths:
    """`at`: the points, or what they begin with. The folder outlives the process: a file for each death."""

    folder: Path
    at: Collection[str]

    def arm(self) -> None:
        """Nobody dies before."""
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / ARMED).touch()

    def pass_by(self, point: str) -> None:
        """Goes on only where it is not named, or was died at before."""
        if (point in self.at or point.rpartition(".")[0] in self.at) and (self.folder / ARMED).exists():
            try:
                (self.folder / point).touch(exist_ok=False)
            except FileExistsError:
                return
            os.kill(os.getpid(), signal.SIGKILL)

    def died(self) -> set[str]:
        return {path.name for path in self.folder.iterdir() if path.name != ARMED}
