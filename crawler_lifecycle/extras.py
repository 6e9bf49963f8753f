"""Names the extra with a missing library. Flows, managers, the client and `crawlctl` with an API need no extra."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from types import TracebackType
from typing import Any

from crawler_lifecycle.errors import NotReady

EXTRAS = {
    "aws": ("boto3", "botocore"),
    "examples": ("scrapy",),
    "kubernetes": ("kubernetes", "yaml"),
    "mysql": ("pymysql",),
    "server": (
        "alembic", "fastapi", "isal", "msgspec", "prometheus_client", "psutil", "pusher", "sqlalchemy", "starlette",
        "temporalio", "uvicorn", "watchfiles",
    ),
}  # fmt: skip


class MissingExtra(ImportError):
    """An extra's library is missing."""


def require(extra: str) -> None:
    """Raise MissingExtra with the `pip` command, unless the extra is installed.

    An uncaught MissingExtra ends the program with a line, without a traceback.
    """
    for library in EXTRAS[extra]:
        if find_spec(library) is None:
            sys.excepthook = partial(_end, sys.excepthook)
            raise MissingExtra(_remedy(library, extra), name=library)


def _end(hook: Any, kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
    """Write a line for MissingExtra, and leave further errors to the program's own hook."""
    if kind is MissingExtra:
        sys.stderr.write(f"Error: {error}\n")
    else:
        hook(kind, error, traceback)


@contextmanager
def named() -> Iterator[None]:
    """Raise NotReady with the `pip` command, if an import fails because an extra is missing."""
    try:
        yield
    except ImportError as error:
        library = (error.name or "").partition(".")[0]
        for extra, libraries in EXTRAS.items():
            if library in libraries:
                raise NotReady(_remedy(library, extra)) from error
        raise


def _remedy(library: str, extra: str) -> str:
    return f"{library} is not installed: pip install 'crawler-lifecycle[{extra}]'"
