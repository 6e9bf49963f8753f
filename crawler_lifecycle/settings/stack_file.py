"""The file `stack.json`, which describes the embedded stack on a state folder and its processes.

The stack writes the file, and all other processes read it. The file holds passwords and a token for
reading the catalogue, so only its owner can read it.
"""

import os
import secrets
from pathlib import Path

from pydantic import Field, ValidationError

from crawler_lifecycle.base.base import Message
from crawler_lifecycle.errors import NotReady

STACK_FILE = "stack.json"
TOKEN_FILE = "scheduler.token"  # with the token that permits deployments: worker and dispatcher alone send it
API_TOKEN_FILE = "api.token"  # with the token for the HTTP API, for the page and for `crawlctl`
READ_TOKEN_FILE = "scheduler-read.token"  # with the token for reading the catalogue: all other parts send it


class Process(Message):
    """A process of the stack. The start time distinguishes the process from a later process with the same pid."""

    name: str
    pid: int
    created: float  # start time in seconds since 1970


class StackFile(Message):
    stack: str = Field(description="id of this start of the stack")
    environment: dict[str, str] = Field(description="variables with the settings of all parts")
    web_ui: str
    processes: list[Process] = []


def read(state: Path) -> StackFile | None:
    """Return the description; None if there is no stack on the state folder."""
    path = state / STACK_FILE
    try:
        return StackFile.model_validate_json(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValidationError) as error:
        raise NotReady(
            f"{path} cannot be read ({type(error).__name__}): remove it and start the stack again"
        ) from error


def write(state: Path, stack: StackFile) -> None:
    write_private(state / STACK_FILE, stack.model_dump_json(indent=2))


def remove(state: Path) -> None:
    (state / STACK_FILE).unlink(missing_ok=True)


def make_token(state: Path, name: str = TOKEN_FILE) -> str:
    """Return the token in the file `name`. If there is no file, make a token that only the file's owner can read."""
    path = state / name
    if not path.exists():
        write_private(path, secrets.token_urlsafe(32))
    return path.read_text().strip()


def write_private(path: Path, text: str) -> None:
    """Write the whole text or nothing, to a file that only its owner can read. NotReady for example on a full disk."""
    new = path.with_name(path.name + ".new")
    try:
        new.unlink(missing_ok=True)
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    except OSError as error:
        raise NotReady(f"{path} cannot be written: {error.strerror}") from error
