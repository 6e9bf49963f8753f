"""Tasks: nodes for graph managers. A task is a spider, or a script with a single part or several parts."""

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from importlib import import_module
from typing import Any

from crawler_lifecycle.errors import BadInput
from crawler_lifecycle.managers.authors.parameters import FullJobParams, JobKey

RETRY = "retry"  # in `on_finish`: a further try for the task itself
FAILED, DEFAULT = "failed", "default"  # in `on_finish`: failed outcomes, outcomes without an own list
TASK_ID = "TASK_ID="  # tag: the part's id
PART = "."  # between the task's id and the part's number
SCRIPT = "py:"  # beginning of a script's name in the catalogue
COMMAND_LINE = "cmd_args"  # argument with a script's command line
TEMPLATE_MARKS = ("{{", "{%", "{#")
StartCallback = Callable[[Any, bool], object]


@dataclass(frozen=True)
class Resource:
    """A resource by its name. The graph has as much as its most demanding task requires."""

    name: str


ResourcesDict = dict[Resource, int]


class BaseTask:
    """A node with its options and its edges.

    `retries`: further tries after failed outcomes. `wait_time`: seconds between the task's turn and its start.
    `on_finish`: ids of the next tasks by outcome, or `retry`.
    """

    def __init__(
        self,
        task_id: str,
        tags: Sequence[str] | None = None,
        units: float | None = None,
        retries: int = 1,
        project_id: int | str | None = None,
        wait_time: float | None = None,
        on_finish: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        if not task_id or task_id == RETRY or PART in task_id:
            raise BadInput("task_id", f"expected an id other than {RETRY!r} and without a dot, not {task_id!r}")
        self.task_id = task_id
        self.tags = tags
        self.units = units
        self.retries = retries
        self.project_id = project_id
        self.wait_time = wait_time
        self.on_finish: dict[str, list[str]] = {word: list(ids) for word, ids in (on_finish or {}).items()}
        self.is_locked = False
        self._next: list[BaseTask] = []
        self._wait_for: list[BaseTask] = []
        self._resources: list[Mapping[Resource, int]] = []
        self._callback: StartCallback | None = None
        self._job_keys: list[JobKey] = []

    def __init_subclass__(cls) -> None:
        if "run" in vars(cls):
            raise BadInput("run", f"{cls.__qualname__} has its own: define job_params(is_retry, index) instead")

    # edges

    def add_next_task(self, task: "BaseTask") -> None:
        """Run the task next, unless `on_finish` has the outcome."""
        if self.is_locked:
            raise BadInput("next_task", f"{self.task_id!r} has had its turn: add its next tasks before")
        self._next.append(task)

    def get_next_tasks(self) -> list["BaseTask"]:
        return self._next

    def add_wait_for(self, task: "BaseTask") -> None:
        """Let the task wait for another task's end, regardless of the outcome."""
        self._wait_for.append(task)

    def get_wait_for(self) -> list["BaseTask"]:
        return self._wait_for

    def add_required_resources(self, resources: Mapping[Resource, int]) -> None:
        """Require these resources during the task. A second call adds an alternative."""
        self._resources.append(resources)

    def get_required_resources(self, partial: bool = False) -> list[dict[Resource, Fraction]]:
        """Return the alternatives for the task, or with `partial` for a part."""
        parts = self.get_parallel_jobs() if partial else 1
        return [{resource: Fraction(most, parts) for resource, most in needs.items()} for needs in self._resources]

    def set_start_callback(self, callback: StartCallback) -> None:
        """Call the function with the manager and False when the task's turn comes. It may add next tasks.

        The next object calls the function again after a takeover.
        """
        self._callback = callback

    def get_start_callback(self) -> StartCallback | None:
        return self._callback

    def targets(self, outcome: str, *, is_failed: bool) -> list[str]:
        """Return the ids of the next tasks after the outcome, `retry` among them."""
        if outcome in self.on_finish:
            return self.on_finish[outcome]
        if is_failed:
            return self.on_finish.get(FAILED, [RETRY] if self.retries > 0 else [])
        return [*self.on_finish.get(DEFAULT, []), *(task.task_id for task in self._next)]

    @property
    def all_targets(self) -> set[str]:
        """The ids for all tasks after the task."""
        named = {task_id for ids in self.on_finish.values() for task_id in ids}
        return {*named, *(task.task_id for task in self._next)} - {RETRY}

    # jobs

    def append_jobid(self, jobid: JobKey) -> None:
        if jobid not in self._job_keys:
            self._job_keys.append(jobid)

    def get_scheduled_jobs(self) -> list[JobKey]:
        """Return the keys for the task's jobs so far."""
        return list(self._job_keys)

    def get_parallel_jobs(self) -> int:
        """Return how many parts run at the same time."""
        return 1

    @property
    def parts(self) -> list[str]:
        """The ids for the parts: the task's own for a single part."""
        number = self.get_parallel_jobs()
        return [self.task_id] if number == 1 else [f"{self.task_id}{PART}{index}" for index in range(number)]

    def job_params(self, is_retry: bool = False, index: int = 0) -> FullJobParams:
        """Return the parameters for the part's job. `index`: the part's number."""
        raise NotImplementedError

    def params_of_part(self, part: str, *, is_retry: bool = False) -> FullJobParams:
        """Return the parameters with the task's options, and with the tag for the part."""
        params = self.job_params(is_retry, int(part.rpartition(PART)[2]) if PART in part else 0)
        options: FullJobParams = {"units": self.units, "project_id": self.project_id}
        return {**options, **params, "tags": [*(self.tags or ()), f"{TASK_ID}{part}"]}


class Task(BaseTask):
    """A script: the catalogue's entry `py:NAME`, with all further words as its argument `cmd_args`.

    `command`: a line, several lines for several parts, or a jinja2 template for the lines. `init_args`: further words.
    `retry_args`: replace `init_args` for further tries.
    """

    def __init__(
        self,
        task_id: str,
        command: str,
        init_args: Sequence[str] | None = None,
        retry_args: Sequence[str] | None = None,
        tags: Sequence[str] | None = None,
        units: float | None = None,
        retries: int = 1,
        project_id: int | str | None = None,
        wait_time: float | None = None,
        on_finish: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        super().__init__(task_id, tags, units, retries, project_id, wait_time, on_finish)
        self.command = command
        self.init_args = list(init_args or ())
        self.retry_args = list(retry_args or ())
        self._commands = [shlex.split(line) for line in _rendered(task_id, command).splitlines() if line.strip()]
        if not self._commands:
            raise BadInput("command", f"task {task_id!r} has no command")

    def get_command(self, index: int | None = None) -> list[str]:
        """Return the words of the part's command."""
        return self._commands[index or 0]

    def get_parallel_jobs(self) -> int:
        return len(self._commands)

    def job_params(self, is_retry: bool = False, index: int = 0) -> FullJobParams:
        words = self.retry_args if is_retry and self.retry_args else self.init_args
        return script_params([*self.get_command(index), *words])


class SpiderTask(BaseTask):
    """A spider. `spider_args`: its arguments."""

    def __init__(
        self,
        task_id: str,
        spider: str,
        tags: Sequence[str] | None = None,
        units: float | None = None,
        retries: int = 1,
        wait_time: float | None = None,
        on_finish: Mapping[str, Sequence[str]] | None = None,
        job_settings: Mapping[str, Any] | None = None,
        **spider_args: Any,
    ) -> None:
        super().__init__(task_id, tags, units, retries, None, wait_time, on_finish)
        self.spider = spider
        self._job_settings = job_settings
        self._spider_args = spider_args

    def get_spider_args(self) -> dict[str, Any]:
        """Return the arguments, with the settings as `job_settings`."""
        settings = {} if self._job_settings is None else {"job_settings": dict(self._job_settings)}
        return {**self._spider_args, **settings}

    def job_params(self, is_retry: bool = False, index: int = 0) -> FullJobParams:  # noqa: ARG002 - one part
        arguments = self.get_spider_args()
        settings = arguments.pop("job_settings", None)
        return {"spider": self.spider, "spider_args": arguments, "job_settings": settings}


def script_params(words: Sequence[str]) -> FullJobParams:
    """Return the parameters for a script with its command line."""
    if not words or not words[0]:
        raise BadInput("command", "names no script")
    name, *rest = words
    arguments = {COMMAND_LINE: shlex.join(rest)} if rest else {}
    return {"spider": name if name.startswith(SCRIPT) else f"{SCRIPT}{name}", "spider_args": arguments}


def _rendered(task_id: str, command: str) -> str:
    """Return the lines. A command without a template needs no jinja2."""
    if not any(mark in command for mark in TEMPLATE_MARKS):
        return command
    try:
        jinja2 = import_module("jinja2")
    except ModuleNotFoundError as error:
        raise BadInput("command", f"task {task_id!r} has a template: install jinja2, or write the lines") from error
    rendered: str = jinja2.Template(command).render()
    return rendered
