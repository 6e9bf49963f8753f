"""Preview: the jobs that a crawl manager would start, before any job is stored."""

from collections.abc import Iterable, Iterator
from copy import deepcopy
from itertools import islice
from typing import Any

from pydantic import Field

from crawler_lifecycle.base.base import Message
from crawler_lifecycle.errors import BadInput, LifecycleError
from crawler_lifecycle.flows.authors.tracebacks import cause_with_frames
from crawler_lifecycle.managers.authors.crawl_manager import CrawlManager
from crawler_lifecycle.managers.authors.differences import differences
from crawler_lifecycle.managers.authors.generator import END, parameter_sets
from crawler_lifecycle.managers.authors.generator_manager import GeneratorCrawlManager
from crawler_lifecycle.managers.authors.graph_manager import GraphManager
from crawler_lifecycle.managers.authors.parameters import ScheduleArgs, check_parts, full_params, parameter_set
from crawler_lifecycle.managers.authors.requesting import item_of, refused_key, request_of
from crawler_lifecycle.managers.authors.workflow_manager import BaseLoopScript
from crawler_lifecycle.model.manager_items import Origin
from crawler_lifecycle.model.requests import RunParameters


class PreviewedJob(Message):
    """A parameter set as a job."""

    number: int = Field(description="place among the parameter sets, from 1")
    request: RunParameters | None = Field(default=None, description="none: the job is a repeat or is refused")
    repeats: int | None = Field(default=None, description="number for the equal parameter set before")
    problem: str | None = Field(default=None, description="why the job would be refused")


class Preview(Message):
    """A manager's parameter sets, without any write."""

    name: str
    most_at_once: int
    read: int = 0
    is_exhausted: bool = Field(default=True, description="whether the generator has ended within the limit")
    jobs: list[PreviewedJob] = Field(default=[], description="first jobs")
    repeated: list[PreviewedJob] = []
    refused: list[PreviewedJob] = []
    new: int = Field(default=0, description="jobs that would start")
    crawlers: list[str] = []
    differences: list[str] = Field(default=[], description="members of shub-workflow that are used in vain")
    problem: str | None = Field(default=None, description="error of the author's code, after the sets that were read")

    def hours(self, seconds_a_job: float) -> float:
        """Return the duration for all jobs, with the most jobs at once."""
        return self.new * seconds_a_job / max(1, min(self.most_at_once, self.new)) / 3600


def preview(manager: BaseLoopScript, *, first: int, most: int) -> Preview:
    """Read at most `most` parameter sets. Return the first jobs, and all repeats and refusals."""
    reading = _Reading(manager, first)
    problem = None
    try:
        reading.read(most)
    except LifecycleError:
        raise
    except Exception as error:  # noqa: BLE001 - author's code may raise any error
        problem = f"{type(manager).__name__}: {cause_with_frames(error, type(manager))}"
    return reading.preview(problem)


class _Reading:
    """A preview in the making."""

    def __init__(self, manager: BaseLoopScript, first: int) -> None:
        self._manager, self._first = manager, first
        self._jobs: list[PreviewedJob] = []
        self._repeated: list[PreviewedJob] = []
        self._refused: list[PreviewedJob] = []
        self._crawlers: set[str] = set()
        self._known: dict[str, int] = {}
        self._read = self._new = 0
        self._is_exhausted = False

    def read(self, most: int) -> None:
        sets = iter(_parameter_sets(self._manager))
        for yielded in islice(sets, most):
            self._read += 1
            self._take(yielded)
        self._is_exhausted = self._read < most or next(sets, END) is END

    def _take(self, yielded: Any) -> None:
        job, key = _previewed(self._manager, self._read, yielded)
        if key is not None and key in self._known:
            self._repeated.append(job.model_copy(update={"request": None, "repeats": self._known[key]}))
            return
        if key is not None:
            self._known[key] = self._read
        if job.request is None:
            self._refused.append(job)
            return
        self._new += 1
        self._crawlers.add(job.request.crawler)
        if self._new <= self._first:
            self._jobs.append(job)

    def preview(self, problem: str | None) -> Preview:
        return Preview(
            name=self._manager.name,
            most_at_once=getattr(self._manager, "max_running_jobs", 0),
            read=self._read,
            is_exhausted=self._is_exhausted,
            jobs=self._jobs,
            repeated=self._repeated,
            refused=self._refused,
            new=self._new,
            crawlers=sorted(self._crawlers),
            differences=differences(self._manager),
            problem=problem,
        )


def _parameter_sets(manager: BaseLoopScript) -> Iterable[Any]:
    if isinstance(manager, GeneratorCrawlManager):
        return parameter_sets(manager.set_parameters_gen, None)
    if isinstance(manager, GraphManager):
        return manager.previewed_jobs()
    return [{}] if isinstance(manager, CrawlManager) else []


def _previewed(manager: BaseLoopScript, number: int, yielded: Any) -> tuple[PreviewedJob, str | None]:
    """Return the job for a yielded value, and its key for repeats."""
    if not isinstance(manager, CrawlManager | GraphManager):
        raise BadInput("manager", f"{type(manager).__name__} is no crawl manager, and has no jobs to preview")
    parts = parameter_set(yielded, manager.spider)
    if parts.problem is not None:
        return PreviewedJob(number=number, problem=parts.problem), None
    effective = manager.effective(parts.params)
    key = manager.repeat_key(parts.params, parts.key) if isinstance(manager, GeneratorCrawlManager) else None
    try:
        return PreviewedJob(number=number, request=request_of(effective, manager.get_tags())), key
    except BadInput as error:
        return PreviewedJob(number=number, problem=error.message), refused_key(parts.params, key)


def added_items(yielded: Iterable[ScheduleArgs], default_crawler: str | None) -> Iterator[Any]:
    """Yield the items that a person adds, from dicts as a generator yields them. BadInput for a refused item."""
    for number, parameters in enumerate(yielded, 1):
        if not isinstance(parameters, dict):
            raise BadInput("items", f"item {number}: expected a JSON object")
        try:
            check_parts(parameters)
        except BadInput as error:
            raise BadInput("items", f"item {number}: {error.message}") from error
        params = full_params(parameters, default_crawler)
        item = item_of(params, deepcopy, (), Origin.ADDED)
        if item.request is None:
            raise BadInput("items", f"item {number}: {item.problem}")
        yield item
