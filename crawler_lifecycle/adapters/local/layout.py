"""Where does everything of the local cluster lie?

root/jobs/<run_uid>/<job name>/   what is known of a job (see `records`)
root/waiting/<time>-<job name>    jobs that are not placed yet, oldest first
root/running/<time>-<job name>    jobs that take one of the places
root/new/                         job folders in the making
root/changed/<run_uid>            touched when a job of the run changes
root/placing.lock                 held while jobs are claimed, placed or withdrawn
root.made                         beside the root: there was one, which may be away for a while
files/<run_uid>/                  what the run leaves behind, its logs included
"""

import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from crawler_lifecycle.errors import BadInput

JOB_NAME = re.compile(r"crawl-([0-9a-f]{32})-(0|[1-9][0-9]*)-([1-9][0-9]*)")


@dataclass(frozen=True, slots=True)
class Layout:
    root: Path

    @property
    def jobs(self) -> Path:
        return self.root / "jobs"

    @property
    def waiting(self) -> Path:
        return self.root / "waiting"

    @property
    def running(self) -> Path:
        return self.root / "running"

    @property
    def new(self) -> Path:
        return self.root / "new"

    @property
    def changed(self) -> Path:
        return self.root / "changed"

    @property
    def placing_lock(self) -> Path:
        return self.root / "placing.lock"

    @property
    def made(self) -> Path:
        return self.root.with_name(f"{self.root.name}.made")

    @property
    def is_away(self) -> bool:
        """Moved or not mounted: its jobs go on, and are not to be taken for gone."""
        return self.made.exists() and not self.jobs.is_dir()

    def make(self) -> None:
        """A root that is away is not made anew: what is put back would find its place taken."""
        if self.is_away:
            raise FileNotFoundError(f"{self.missing}; if its jobs are gone for good, remove {self.made}")
        for folder in (self.jobs, self.waiting, self.running, self.new, self.changed):
            folder.mkdir(parents=True, exist_ok=True)
        self.made.touch()

    @property
    def missing(self) -> str:
        return f"{self.root} is missing: is it mounted?"

    def run(self, run_uid: str) -> Path:
        return self.jobs / checked(run_uid)

    def job(self, name: str) -> Path:
        """The folder of a job, whose name tells its run."""
        found = JOB_NAME.fullmatch(name)
        if not found:
            raise BadInput("job_name", f"{name!r} is not the name of a job")
        return self.jobs / str(UUID(found[1])) / name

    def announce_change(self, run_uid: str) -> None:
        # on a full disk the change is missed, which the looks make good
        with suppress(OSError):
            (self.changed / checked(run_uid)).write_bytes(b".")


def checked(run_uid: str) -> str:
    """The run_uid, which is safe as a name of a file, or BadInput."""
    try:
        if str(UUID(run_uid)) == run_uid:
            return run_uid
    except ValueError:
        pass
    raise BadInput("run_uid", f"expected a UUID such as 123e4567-e89b-12d3-a456-426614174000, not {run_uid!r}")


def names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def log_name(task: int, attempt: int) -> str:
    """Path of a task's log in the run's folder of files."""
    return f"logs/{task}-{attempt}.log"
