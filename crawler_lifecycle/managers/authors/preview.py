"""The jobs that a crawl manager would start, shown before any job is stored.

The preview names what the manager's class takes from shub-workflow that has no counterpart, or no effect, here.
"""

import ast
import inspect
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from pydantic import Field

from crawler_lifecycle.base.base import Message
from crawler_lifecycle.errors import BadInput, LifecycleError
from crawler_lifecycle.flows.authors.modules import cause_with_frames
from crawler_lifecycle.managers.authors.crawl_manager import CrawlManager
from crawler_lifecycle.managers.authors.generator import END, parameter_sets
from crawler_lifecycle.managers.authors.generator_manager import GeneratorCrawlManager
from crawler_lifecycle.managers.authors.graph_manager import GraphManager
from crawler_lifecycle.managers.authors.parameters import ScheduleArgs, check_parts, full_params, parameter_set
from crawler_lifecycle.managers.authors.requesting import item_of, refused_key, request_of
from crawler_lifecycle.managers.authors.workflow_manager import BaseLoopScript, WorkFlowManager
from crawler_lifecycle.model.manager_items import Origin
from crawler_lifecycle.model.requests import RunParameters

STATS = "stats are stored with each reaction"
SCRAPY_CLOUD = "there is no Scrapy Cloud: settings come from the catalogue and the command line"
# members of shub-workflow's scripts and managers, with advice for those without a counterpart
MEMBERS: Mapping[str, str] = {
    "client": SCRAPY_CLOUD,
    "get_sc_project_settings": SCRAPY_CLOUD,
    "project_settings": SCRAPY_CLOUD,
    "set_flow_id_name": "use --flow-id, and generate_flow_id",
    "spider_loader": SCRAPY_CLOUD,
    "_async_workflow_step_gen": "use can_schedule_job_with_params and schedule_spider_with_jobargs",
    "_check_resume_workflow": "use is_resumed and resume_workflow",
    "_fulljobparams_from_spiderargs": "yield the parameters in their form from set_parameters_gen",
    "_is_resumed": "use is_resumed",
    "_jobuids": "the ledger knows the repeats: use create_dupe_filter or get_job_unique_id",
    "_list_metadata": "use get_job_metadata, which returns a dict",
    "_own_project_id": SCRAPY_CLOUD,
    "_pseudo_crawler": SCRAPY_CLOUD,
    "_update_metadata": "use add_job_tags, or self.state",
    "_workflow_step_gen": "use can_schedule_job_with_params and schedule_spider_with_jobargs",
    "_async_schedule_job": "use schedule_spider_with_jobargs",
    "_close": "use on_close",
    "_get_flowid_name_from_tags": "use flow_id and name",
    "_get_metadata_key": "use the dict of finished_metadata_hook",
    "_on_start": "use on_start",
    "_run_loops": "use workflow_loop",
    "_async_run_loops": "use workflow_loop",
    "_schedule_job": "use schedule_spider_with_jobargs",
    "get_jobdict": "use get_task and the attributes of the task",
    "handle_retry": "use the task's retries and on_finish",
    "jobs_graph": "the graph comes from configure_workflow: use get_task",
    "run_job": "define job_params in a task's class",
    "run_pending_jobs": "the engine starts the tasks: use set_start_callback",
}
# members that are here, and that the engine never calls: there, an override changes what the manager does
NEVER_CALLED: Mapping[str, str] = {
    "get_job": "the ledger knows the manager's jobs",
    "get_job_metadata": "the ledger knows the manager's jobs",
    "get_jobs": "the ledger knows the manager's jobs",
    "get_project": "a project is a label: use parse_project_id or default_project_id",
    "get_owned_jobs": "the ledger knows the manager's jobs",
    "get_finished_owned_jobs": "the ledger knows the manager's jobs",
    "get_own_jobkey_from_env": "the ledger knows the manager's flow",
    "handle_schedule_duplicate_error": "starts have keys, and a repeated start is no error",
    "is_max_time_ran_out": "max_running_time ends the manager on its own",
    "is_running": "the ledger knows the ends of jobs",
    "maybe_upload_stats": STATS,
    "print_stats": "`crawlctl flow show` has the stats",
    "update_finished_cache": "ends are always read with one statement",
    "upload_stats": STATS,
    "run": "its host runs the manager: use workflow_loop",
    "wait_for": "the engine itself never waits for jobs",
}
CALLED_IN_VAIN: Mapping[str, str] = {
    "maybe_upload_stats": f"does nothing: {STATS}",
    "update_finished_cache": "does nothing: ends are always read with one statement",
    "upload_stats": f"does nothing: {STATS}",
}
ATTRIBUTES: Mapping[str, str] = {
    "project_required": "a project is a label, and never required",
    "stats_interval": STATS,
}
ARGUMENTS: Mapping[tuple[str, str], str] = {
    ("get_owned_jobs", "meta"): "each job has all fields",
    ("get_finished_owned_jobs", "meta"): "each job has all fields",
    ("get_project_running_spiders", "crawlmanagers"): "a manager is no job",
}


@dataclass
class _SourceReading:
    """Uses of `self` in the author's classes, with their places."""

    uses: dict[str, str] = field(default_factory=dict)  # first place by name
    stores: set[str] = field(default_factory=set)
    calls: dict[tuple[str, str], str] = field(default_factory=dict)  # first place by method and keyword
    overrides: dict[str, str] = field(default_factory=dict)


def differences(manager: BaseLoopScript) -> list[str]:
    """Return a sentence for each member of shub-workflow that the manager's classes use or override in vain."""
    reading = _read(type(manager))
    return sorted({*_used_in_vain(manager, reading), *_never_called(reading), *_ignored(manager, reading)})


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


def _used_in_vain(manager: BaseLoopScript, reading: _SourceReading) -> Iterator[str]:
    for name, place in reading.uses.items():
        if name in MEMBERS and name not in reading.stores and not hasattr(manager, name):
            yield f"{place}: self.{name} is not there: {MEMBERS[name]}"
        elif name in CALLED_IN_VAIN and name not in reading.overrides:
            yield f"{place}: self.{name} {CALLED_IN_VAIN[name]}"


def _never_called(reading: _SourceReading) -> Iterator[str]:
    ours = {name for base in WorkFlowManager.__mro__ for name in vars(base)}
    for name, place in reading.overrides.items():
        if name in ATTRIBUTES:
            yield f"{place}: {name} has no effect: {ATTRIBUTES[name]}"
        elif name in NEVER_CALLED:
            yield f"{place}: an own {name} is never called: {NEVER_CALLED[name]}"
        elif name in MEMBERS and name not in ours:
            yield f"{place}: an own {name} is never called: {MEMBERS[name]}"


def _ignored(manager: BaseLoopScript, reading: _SourceReading) -> Iterator[str]:
    for (method, keyword), place in reading.calls.items():
        if (method, keyword) in ARGUMENTS:
            yield f"{place}: {method} ignores {keyword}: {ARGUMENTS[method, keyword]}"
        elif not _takes(getattr(manager, method, None), keyword):
            yield f"{place}: {method} takes no argument {keyword}"


def _takes(method: object, keyword: str) -> bool:
    """Return whether the method may take the keyword. A parameter `unknown` means refused keywords."""
    if not inspect.ismethod(method) or not _is_ours(method.__module__):
        return True
    parameters = inspect.signature(method).parameters
    named = keyword in parameters and parameters[keyword].kind is not inspect.Parameter.VAR_KEYWORD
    rest = [name for name, taken in parameters.items() if taken.kind is inspect.Parameter.VAR_KEYWORD]
    return named or bool(rest and rest != ["unknown"])


def _is_ours(module: str) -> bool:
    return module.startswith(f"{__package__}.")


def _read(manager: type) -> _SourceReading:
    """Read the source of the author's classes, the base classes of other authors included."""
    reading = _SourceReading()
    for author in filter(_is_authors, manager.__mro__):
        try:
            lines, first = inspect.getsourcelines(author)
        except (OSError, TypeError):  # such as a class made by type()
            continue
        file = inspect.getsourcefile(author) or author.__module__
        tree = ast.parse(textwrap.dedent("".join(lines)))
        for node in ast.walk(tree):
            place = f"{file}, line {first + getattr(node, 'lineno', 1) - 1}"
            _take(reading, node, place)
        for name in vars(author):
            reading.overrides.setdefault(name, f"{file}, line {first + _line_of(tree, name) - 1}")
    return reading


def _is_authors(base: type) -> bool:
    return not _is_ours(base.__module__) and base.__module__.partition(".")[0] not in sys.stdlib_module_names


def _take(reading: _SourceReading, node: ast.AST, place: str) -> None:
    if isinstance(node, ast.Attribute) and _is_self(node.value):
        if isinstance(node.ctx, ast.Store):
            reading.stores.add(node.attr)
        else:
            reading.uses.setdefault(node.attr, place)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and _is_self(node.func.value):
        for keyword in node.keywords:
            if keyword.arg is not None:
                reading.calls.setdefault((node.func.attr, keyword.arg), place)


def _is_self(node: ast.expr) -> bool:
    """Return whether the expression is `self` or `super()`."""
    if isinstance(node, ast.Call):
        node = node.func
        return isinstance(node, ast.Name) and node.id == "super"
    return isinstance(node, ast.Name) and node.id == "self"


def _line_of(tree: ast.Module, name: str) -> int:
    """Return the line of the class's member with the name."""
    (author,) = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    for node in author.body:
        if getattr(node, "name", None) == name:
            return node.lineno
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            return node.lineno
    return author.lineno


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
