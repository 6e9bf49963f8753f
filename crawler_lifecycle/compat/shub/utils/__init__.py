"""shub-workflow's utilities."""

import hashlib
import os
from collections.abc import Callable
from typing import NoReturn, TypeVar

from crawler_lifecycle.compat.shub.absent import refuse
from crawler_lifecycle.managers import get_kumo_loglevel
from crawler_lifecycle.managers.authors.workflow_manager import PROJECT_ID

__all__ = ["dash_retry_decorator", "get_kumo_loglevel", "hashstr", "resolve_project_id", "resolve_shub_jobkey"]

Function = TypeVar("Function", bound=Callable[..., object])


def hashstr(text: str) -> str:
    """Return the text's SHA-1 in hexadecimal digits."""
    return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()


def resolve_project_id(project_id: int | str | None = None) -> int | str:
    """Return the project, by default the project in the variable PROJECT_ID."""
    project = project_id or os.environ.get(PROJECT_ID)
    if not project:
        raise ValueError(f"no project: use --project-id or the variable {PROJECT_ID}")
    return int(project) if str(project).isdecimal() else project


def resolve_shub_jobkey() -> str | None:
    """Return None: a script has no job of Scrapy Cloud. The key is `get_own_jobkey_from_env()`."""
    return None


def dash_retry_decorator(function: Function) -> Function:
    """Return the function unchanged: the engine repeats its own requests, and calls an author's method again."""
    return function


def __getattr__(name: str) -> NoReturn:
    refuse(__name__, name)
