"""Names the extra with a missing library. Flows, managers, the client and `crawlctl` with an API need no extra."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from crawler_lifecycle.errors import NotReady

EXTRAS = {
    "aws": ("boto3", "botocore"),
    "kubernetes": ("kubernetes", "yaml"),
    "mysql": ("pymysql",),
    "server": (
        "alembic", "fastapi", "isal", "msgspec", "prometheus_client", "psutil", "pusher", "sqlalchemy", "starlette",
        "temporalio", "uvicorn", "watchfiles",
    ),
}  # fmt: skip


def require(extra: str) -> None:
    """Raise ImportError with the `pip` command, unless the extra is installed."""
    for library in EXTRAS[extra]:
        if find_spec(library) is None:
            raise ImportError(_remedy(library, extra), name=library)


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
