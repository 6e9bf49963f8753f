"""Parameters for crawls as authors write them: types, and the separation of a flat dict into its parts."""

from copy import deepcopy
from dataclasses import dataclass
from typing import Any, TypedDict, cast

from pydantic import JsonValue

ScheduleArgs = dict[str, Any]  # a yielded dict: arguments for the spider, and some of the keys below
JobKey = str
SPECIAL_KEYS = ("units", "tags", "job_settings", "project_id")


class JobParams(TypedDict, total=False):
    """A job's parameters over the manager's defaults."""

    units: int | None
    tags: list[str] | None
    job_settings: dict[str, Any] | None
    project_id: int | str | None
    spider_args: dict[str, Any] | None


class FullJobParams(JobParams, total=False):
    """A job's parameters with its spider."""

    spider: str


class JobDict(TypedDict, total=False):
    """A job as hooks and lists show the job."""

    key: JobKey
    spider: str
    spider_args: dict[str, Any]
    job_settings: dict[str, Any]
    units: int | None
    tags: list[str]
    state: str
    close_reason: str | None
    stats: dict[str, float]
    result: JsonValue
    run_id: int | None
    number: int
    attempt: int


class StopRetry(Exception):
    """Raised by `get_retry_override`: the job is not tried again."""


@dataclass(frozen=True)
class Item:
    """A parameter set with the generator's position behind the set, or with a key for repeats."""

    params: ScheduleArgs
    cursor: JsonValue = None
    key: str | None = None


def full_params(yielded: ScheduleArgs, default_spider: str | None) -> FullJobParams:
    """Return the parts of a yielded dict."""
    rest = deepcopy(yielded)
    params: FullJobParams = {"spider": rest.pop("spider", None) or default_spider or ""}
    for key in SPECIAL_KEYS:
        if key in rest:
            params[key] = rest.pop(key)  # type: ignore[literal-required]
    rest.pop("key", None)
    nested = rest.pop("spider_args", None) or {}
    params["spider_args"] = {**nested, **rest}
    return params


def merged(former: JobParams, changes: JobParams) -> JobParams:
    """Return the parameters with the changes: tags joined, arguments and settings merged, the rest replaced."""
    before, after = cast("dict[str, Any]", former), cast("dict[str, Any]", changes)
    joined = {**deepcopy(before), **deepcopy(after)}
    for name in ("spider_args", "job_settings"):
        joined[name] = {**(before.get(name) or {}), **(after.get(name) or {})}
    joined["tags"] = sorted({*(before.get("tags") or []), *(after.get("tags") or [])})
    return cast("JobParams", joined)
