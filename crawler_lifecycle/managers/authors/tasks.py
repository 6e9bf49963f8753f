"""Nodes for graph managers, and their graph with the waiting parts and the parts to start.

A task is a spider, or a script with a single part or several parts. The graph is pure, without a ledger.
"""

import shlex
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
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
PENDING, STARTED, ENDED, TURNS, HELD = "pending", "started", "ended", "turns", "held"  # subjects in the stored memory


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


@dataclass
class PendingPart:
    """A part after its turn has come. `is_stored`: whether the ledger has its item."""

    is_retry: bool = False
    due: float = 0.0  # seconds since 1970
    is_stored: bool = False


class TaskGraph:
    """The tasks with their parts' state, as JSON in `memory`."""

    def __init__(self, tasks: Iterable[BaseTask]) -> None:
        self.tasks: dict[str, BaseTask] = {}
        self.roots: list[str] = []
        self.memory: dict[str, Any] = {}
        for task in tasks:
            self.roots.append(task.task_id)
            self.add(task)

    def add(self, task: BaseTask) -> None:
        """Add the task with all tasks after the task."""
        if task.task_id in self.tasks:
            raise BadInput("task_id", f"the graph has {task.task_id!r} twice: let it be the next task of one task")
        self.tasks[task.task_id] = task
        for following in task.get_next_tasks():
            self.add(following)

    @property
    def unknown_targets(self) -> set[str]:
        """The ids in `on_finish` without a task, unless a start callback may add tasks."""
        tasks = self.tasks.values()
        if any(task.get_start_callback() is not None for task in tasks):
            return set()
        return {task_id for task in tasks for task_id in task.all_targets} - self.tasks.keys()

    def task_of(self, part: str) -> BaseTask:
        """Return the task by its id, or by its part's id."""
        task_id = part.partition(PART)[0]
        if task_id not in self.tasks:
            raise BadInput("task_id", f"the graph has no {task_id!r}, but {', '.join(sorted(self.tasks)) or 'no task'}")
        return self.tasks[task_id]

    # the state

    def load(self, memory: dict[str, Any]) -> None:
        """Use the stored state, and keep the changes there."""
        self.memory = memory

    def _kept(self, subject: str) -> dict[str, Any]:
        kept: dict[str, Any] = self.memory.setdefault(subject, {})
        return kept

    @property
    def turns(self) -> list[str]:
        """The tasks' ids in the order of their turns. A task may have several turns."""
        turns: list[str] = self.memory.setdefault(TURNS, [])
        return turns

    @property
    def started(self) -> dict[str, str]:
        """The keys for jobs under way, by part."""
        return self._kept(STARTED)

    @property
    def ended(self) -> dict[str, str]:
        """The final outcomes, by part."""
        return self._kept(ENDED)

    @property
    def pending(self) -> dict[str, PendingPart]:
        return {part: PendingPart(**fields) for part, fields in self._kept(PENDING).items()}

    def put(self, part: str, state: PendingPart) -> None:
        self._kept(PENDING)[part] = vars(state)

    def is_under_way(self, task_id: str) -> bool:
        """Return whether the task has a waiting or running part."""
        return any(part in self._kept(PENDING) or part in self.started for part in self.task_of(task_id).parts)

    def take_turn(self, task_id: str, now: float) -> None:
        """Let the task's parts wait for their start."""
        task = self.task_of(task_id)
        self.turns.append(task_id)
        for part in task.parts:
            self.ended.pop(part, None)
            self.put(part, PendingPart(due=now + (task.wait_time or 0)))

    def note_start(self, part: str, key: str) -> None:
        self._kept(PENDING).pop(part, None)
        self.started[part] = key
        self.task_of(part).append_jobid(key)

    def note_end(self, part: str) -> None:
        """Note a try's end. The part then ends for good, or waits again."""
        self._kept(PENDING).pop(part, None)
        self.started.pop(part, None)
        self._kept(HELD).pop(part, None)

    # the plan

    def waits_for(self, part: str) -> list[str]:
        """Return the parts without an end before the part may start."""
        task = self.task_of(part)
        before = [other for known in task.get_wait_for() for other in known.parts]
        for task_id in dict.fromkeys(self.turns):
            known = self.task_of(task_id)
            if task.task_id in known.all_targets:
                before += known.parts[1:]  # the first part leads here, and the rest has to end
        return [other for other in dict.fromkeys(before) if other not in self.ended]

    def choose(self, most: int, now: float) -> list[str]:
        """Return the parts to start now, by their ids, and note their resources.

        If no part can start or runs, a single task starts without waiting for tasks without a turn. RuntimeError for
        tasks in a circle.
        """
        pending = self.pending
        order = sorted(pending, key=_place)
        room = most - len(self.started)
        chosen: list[str] = []
        for part in order:
            if len(chosen) < room and pending[part].due <= now and not self.waits_for(part) and self._takes(part):
                chosen.append(part)
        is_waiting = any(state.due > now for state in pending.values())
        if chosen or self.started or not pending or is_waiting or room <= 0:
            return chosen
        free = [part for part in order if not any(other in pending for other in self.waits_for(part))]
        if not free:
            waits = ", ".join(f"{part} waits for {' and '.join(self.waits_for(part))}" for part in order)
            raise RuntimeError(f"the tasks wait for one another: {waits}")
        first = self.task_of(free[0])
        return [part for part in free if self.task_of(part) is first][:room]

    def seconds_to_next(self, now: float) -> float | None:
        """Return the seconds until the next wait time is over; None without a wait time."""
        return min((state.due - now for state in self.pending.values() if state.due > now), default=None)

    def _takes(self, part: str) -> bool:
        """Take the first free alternative among the part's resources. Return False without a free alternative."""
        alternatives = self.task_of(part).get_required_resources(partial=True)
        if not alternatives:
            return True
        free = self._free_resources()
        for number, needs in enumerate(alternatives):
            if all(free[resource] >= amount for resource, amount in needs.items()):
                self._kept(HELD)[part] = number
                return True
        return False

    def _free_resources(self) -> dict[Resource, Fraction]:
        free: dict[Resource, Fraction] = {}
        for task in self.tasks.values():
            for needs in task.get_required_resources():
                free.update({resource: max(free.get(resource, amount), amount) for resource, amount in needs.items()})
        for part, number in self._kept(HELD).items():
            for resource, amount in self.task_of(part).get_required_resources(partial=True)[number].items():
                free[resource] -= amount
        return free

    def release_unstarted(self, running: Collection[str]) -> None:
        """Give back resources for chosen parts without a start."""
        held = self._kept(HELD)
        for part in [part for part in held if part not in running]:
            del held[part]


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


def _place(part: str) -> tuple[str, int]:
    """Return the part's place in the order: by the task's id, then by number."""
    task_id, _, number = part.partition(PART)
    return task_id, int(number or 0)
