"""Process log: lines for people, or JSON for programs, both with the ids for run, task and workflow."""

import contextvars
import json
import logging
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from types import MappingProxyType

_about: contextvars.ContextVar[Mapping[str, object]] = contextvars.ContextVar("about", default=MappingProxyType({}))
CREDENTIALS = re.compile(r"^([a-z0-9+]*://)?.*@", re.IGNORECASE | re.DOTALL)
IDS = ("run_id", "task", "attempt", "workflow_id", "temporal_run_id", "activity")  # allowed in a record's `extra`


@contextmanager
def about(**ids: object) -> Iterator[None]:
    """Add these ids to every log line from the enclosed block."""
    token = _about.set({**_about.get(), **{key: value for key, value in ids.items() if value is not None}})
    try:
        yield
    finally:
        _about.reset(token)


def without_credentials(url: str) -> str:
    """Return the address without the text before its last @. Even in a malformed address the text may be a password."""
    return CREDENTIALS.sub(r"\1", url)


class _WithIds(logging.Filter):
    """Keeps every record and adds the attribute `ids`, for the formatters below."""

    def filter(self, record: logging.LogRecord) -> bool:
        own_ids = {key: getattr(record, key) for key in IDS if hasattr(record, key)}
        record.ids = {**_about.get(), **_temporal_ids(record), **own_ids}
        return True


def _temporal_ids(record: logging.LogRecord) -> dict[str, object]:
    """Return the ids that the Temporal SDK's own loggers attach. Their `run_id` is an execution's id, not our RunID."""
    details = getattr(record, "temporal_workflow", None) or getattr(record, "temporal_activity", None) or {}
    names = {"workflow_id": "workflow_id", "run_id": "temporal_run_id", "workflow_run_id": "temporal_run_id"}
    return {ours: details[theirs] for theirs, ours in names.items() if theirs in details}


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "ids", {}),
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str, ensure_ascii=False)


class _Text(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        ids = "".join(f" {key}={value}" for key, value in getattr(record, "ids", {}).items())
        at = datetime.fromtimestamp(record.created, UTC).strftime("%H:%M:%S")
        trouble = "\n" + self.formatException(record.exc_info) if record.exc_info else ""
        return f"{at} {record.levelname:7} {record.name}: {record.getMessage()}{ids}{trouble}"


def configure(form: str, level: str) -> None:
    """Send the process log to stderr: as JSON if `form` is "json", as text otherwise."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Json() if form == "json" else _Text())
    handler.addFilter(_WithIds())
    logging.basicConfig(level=level, handlers=[handler], force=True)
    for noisy in ("httpx", "httpcore", "alembic", "watchfiles"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    # urllib3 warns about every closed connection; such lines would hide useful lines
    logging.getLogger("urllib3.connectionpool").setLevel(logging.ERROR)
