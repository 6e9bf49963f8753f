"""Find the folder with a run's supporting files, which an export archives."""

from pathlib import Path

from crawler_lifecycle.domain.naming import checked_uid
from crawler_lifecycle.errors import Refused, TemporaryError


def files_of(folder: Path, run_uid: str) -> Path | None:
    """Return the run's folder, or None without files. Refuse a link."""
    files = folder / checked_uid(run_uid)
    try:
        if files.is_symlink():
            raise Refused(f"{files} is a link: only a real folder is exported")
        return files if files.is_dir() else None
    except OSError as error:
        raise TemporaryError(f"{files} cannot be read: {error}") from error
