"""Folder with a run's supporting files."""

from pathlib import Path
from uuid import UUID

from crawler_lifecycle.errors import BadInput, Refused, TemporaryError


def files_of(folder: Path, run_uid: str) -> Path | None:
    """Return the run's folder, or None without files. Refuse a link."""
    files = folder / checked_uid(run_uid)
    try:
        if files.is_symlink():
            raise Refused(f"{files} is a link: only a real folder is exported")
        return files if files.is_dir() else None
    except OSError as error:
        raise TemporaryError(f"{files} cannot be read: {error}") from error


def checked_uid(run_uid: str) -> str:
    """Return the uid if it is a UUID: other text must not become part of a path."""
    try:
        if str(UUID(run_uid)) == run_uid:
            return run_uid
    except ValueError:
        pass
    raise BadInput("run_uid", f"expected a UUID, not {run_uid!r}")
