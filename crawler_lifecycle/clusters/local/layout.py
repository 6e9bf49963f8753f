"""Names of the local cluster's folders and files, and a check that the root folder is mounted.

root/jobs/<run_uid>/<job name>/   records about a job (see `records`)
root/waiting/<time>-<job name>    the place of a waiting job: an empty file; the oldest job starts first
root/running/<time>-<job name>    the place of a started job; the number of these places is limited
root/new/                         job folders in creation
root/changed/<run_uid>            touched when a job in the run changes
root/placing.lock                 held while jobs are claimed, placed or withdrawn
root.made                         marker beside the root; without the marker an absent root is a new installation
files/<run_uid>/                  the run's files, including logs
"""

import re
from contextlib import suppress
from pathlib import Path
from uuid import UUID

from crawler_lifecycle.errors import BadInput
from crawler_lifecycle.model.naming import checked_uid

JOB_NAME = re.compile(r"crawl-([0-9a-f]{32})-(0|[1-9][0-9]*)-([1-9][0-9]*)")


class Layout:
    """Paths below the local cluster's root folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.jobs = root / "jobs"
        self.waiting = root / "waiting"
        self.running = root / "running"
        self.new = root / "new"
        self.changed = root / "changed"
        self.placing_lock = root / "placing.lock"
        self.made = root.with_name(f"{root.name}.made")
        self.missing = f"{root} is missing: is it mounted?"

    @property
    def is_away(self) -> bool:
        """Return whether the root is absent although it was made: moved, or not mounted. Its jobs may run on."""
        return self.made.exists() and not self.jobs.is_dir()

    def make(self) -> None:
        """Create the root, unless it is away: a new root would take the place of the old root."""
        if self.is_away:
            raise FileNotFoundError(f"{self.missing}; if its jobs are gone for good, remove {self.made}")
        for folder in (self.jobs, self.waiting, self.running, self.new, self.changed):
            folder.mkdir(parents=True, exist_ok=True)
        self.made.touch()

    def run(self, run_uid: str) -> Path:
        """Return the folder with the run's jobs."""
        return self.jobs / checked_uid(run_uid)

    def job(self, name: str) -> Path:
        """Return a job's folder; the job's name contains the uid of its run."""
        match = JOB_NAME.fullmatch(name)
        if not match:
            raise BadInput("job_name", f"{name!r} is not the name of a job")
        return self.jobs / str(UUID(match[1])) / name

    def announce_change(self, run_uid: str) -> None:
        """Touch the run's file for the watcher. A full disk loses the change: looks are correct without changes."""
        with suppress(OSError):
            (self.changed / checked_uid(run_uid)).write_bytes(b".")


def job_name_of(place: str) -> str:
    """Return the job's name from its place, <time>-<job name>."""
    return place.partition("-")[2]


def names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]
