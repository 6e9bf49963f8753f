"""Graph for a graph manager: the waiting parts, and the parts to start. Pure, without a ledger."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from crawler_lifecycle.errors import BadInput
from crawler_lifecycle.managers.authors.tasks import PART, BaseTask, Resource

PENDING, STARTED, ENDED, TURNS, HELD = "pending", "started", "ended", "turns", "held"  # subjects in the stored memory


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


def _place(part: str) -> tuple[str, int]:
    """Return the part's place in the order: by the task's id, then by number."""
    task_id, _, number = part.partition(PART)
    return task_id, int(number or 0)
