"""Parameters for crawls as authors write them: types, and the separation of a flat dict into its parts."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, TypedDict, cast

from pydantic import JsonValue

from crawler_lifecycle.errors import BadInput

ScheduleArgs = dict[str, Any]  # a yielded dict: arguments for the spider, and some of the keys below
JobKey = str
SPECIAL_KEYS = ("units", "tags", "job_settings", "project_id")
JOBSEQ = "JOBSEQ="  # tag: the item's number, and `.rN` for a further try


class JobParams(TypedDict, total=False):
    """A job's parameters over the manager's defaults."""

    units: float | None
    tags: list[str] | None
    job_settings: dict[str, Any] | None
    project_id: int | str | None
    spider_args: dict[str, Any] | None
    labels: list[str] | None  # for limits and pauses of the installation, such as `site:example.com`
    priority: int | None  # jobs with a higher priority are admitted first


class FullJobParams(JobParams, total=False):
    """A job's parameters with its spider."""

    spider: str


class JobDict(TypedDict, total=False):
    """A job as hooks and lists show the job."""

    key: JobKey
    spider: str
    spider_args: dict[str, Any]
    job_settings: dict[str, Any]
    units: float | None
    tags: list[str]
    labels: list[str]
    state: str
    close_reason: str | None
    stats: dict[str, float] | None  # None before the end, as the numbers below
    scrapystats: dict[str, float] | None  # the same as `stats`
    items: int | None  # by the crawl's stats, as pages and errors
    pages: int | None
    errors: int | None
    pending_time: int | None  # when the job was scheduled, in milliseconds since 1970
    running_time: int | None  # when the run began, in milliseconds since 1970
    finished_time: int | None  # when the run ended, in milliseconds since 1970
    result: JsonValue
    run_id: int | None
    number: int
    attempt: int


class StopRetry(Exception):
    """Raised by `get_retry_override`: the job is not tried again. The flow's timeline has the reason."""


@dataclass(frozen=True)
class Item:
    """A parameter set with the generator's position after the set, a key for repeats, or labels and a priority.

    `cursor`: the value from which the generator yields the sets after this set. Sets may come without a cursor: the
    last cursor before them holds, and they are read again.
    """

    params: ScheduleArgs
    cursor: JsonValue = None
    key: str | None = None
    labels: Sequence[str] = ()
    priority: int | None = None


def get_jobseq(tags: Iterable[str]) -> tuple[int, int]:
    """Return the item's number and the number of the further try, from the tag JOBSEQ; zeros without the tag."""
    for tag in tags:
        if tag.startswith(JOBSEQ):
            number, _, retry = tag.removeprefix(JOBSEQ).partition(".r")
            return int(number), int(retry or 0)
    return 0, 0


def check_parts(params: Mapping[str, Any]) -> None:
    """Raise BadInput for a part that cannot be joined with the manager's: the job alone is refused."""
    if not isinstance(params, Mapping):
        raise BadInput("parameters", f"expected a dict, not {type(params).__name__}")
    for name in ("spider_args", "job_settings"):
        if not isinstance(params.get(name) or {}, Mapping):
            raise BadInput(name, f"expected a dict, not {type(params[name]).__name__}")
    for name in ("tags", "labels"):
        texts = params.get(name) or []
        is_list = isinstance(texts, Collection) and not isinstance(texts, str | bytes | Mapping)
        if not is_list or not all(isinstance(text, str) for text in texts):
            raise BadInput(name, "expected a list of texts")
    if not isinstance(params.get("spider") or "", str):
        raise BadInput("spider", f"expected a text, not {type(params['spider']).__name__}")


def full_params(yielded: ScheduleArgs, default_spider: str | None) -> FullJobParams:
    """Return the parts of a yielded dict."""
    rest = deepcopy(yielded)
    params: FullJobParams = {"spider": rest.pop("spider", None) or default_spider or ""}
    for key in SPECIAL_KEYS:
        if key in rest:
            params[key] = rest.pop(key)  # type: ignore[literal-required]
    nested = rest.pop("spider_args", None) or {}
    params["spider_args"] = {**nested, **rest}
    return params


@dataclass(frozen=True)
class ParameterSet:
    """A yielded value's parts. `problem`: why the value is no parameter set."""

    params: FullJobParams
    item: Item
    key: object = None
    problem: str | None = None


def parameter_set(yielded: Any, default_spider: str | None) -> ParameterSet:
    """Return the parts of a value from an author's generator: a dict, or an Item with a dict."""
    item = yielded if isinstance(yielded, Item) else Item(yielded)
    if not isinstance(item.params, dict):
        problem = f"the generator yields a {type(item.params).__name__}, and not a dict"
        return ParameterSet({"spider": default_spider or ""}, item, problem=problem)
    try:
        check_parts({**item.params, "labels": item.labels})
    except BadInput as error:
        return ParameterSet({"spider": default_spider or ""}, item, problem=error.message)
    params = full_params(item.params, default_spider)
    if item.labels:
        params["labels"] = list(item.labels)
    if item.priority is not None:
        params["priority"] = item.priority
    return ParameterSet(params, item, key=item.key)


def merged(former: JobParams, changes: JobParams) -> JobParams:
    """Return the parameters with the changes: tags joined, arguments and settings merged, the rest replaced."""
    before, after = cast("dict[str, Any]", former), cast("dict[str, Any]", changes)
    joined = {**deepcopy(before), **deepcopy(after)}
    for name in ("spider_args", "job_settings"):
        joined[name] = {**(before.get(name) or {}), **(after.get(name) or {})}
    for name in ("tags", "labels"):
        if before.get(name) or after.get(name):
            joined[name] = sorted({*(before.get(name) or []), *(after.get(name) or [])})
    return cast("JobParams", joined)
