"""An author's workflow: jobs with their names and dependencies (`WorkflowStep`), and sub-workflows (`SubWorkflow`)."""

from collections.abc import Iterable, Iterator, MutableMapping
from datetime import datetime
from typing import Any

from crawler_lifecycle.base.names import SEPARATOR, checked_name, joined
from crawler_lifecycle.errors import BadInput
from crawler_lifecycle.flows.authors.dependencies import Dependencies, Dependency, as_dependencies, names_of
from crawler_lifecycle.flows.authors.functions import as_job
from crawler_lifecycle.flows.authors.jobs import Job, StepJob
from crawler_lifecycle.flows.rules.states import StepState, WorkflowState
from crawler_lifecycle.model.flow_states import GroupGrowth
from crawler_lifecycle.model.states import Report

PLACEHOLDER = "*"  # a picture's node for a fan-out without jobs yet


class WorkflowStep:
    """A job with its name and dependencies. `state` and `job_id` are for readers: a push ignores both.

    `job_id` is None until the job has started.
    """

    def __init__(
        self,
        job: Any,
        step_id: str,
        dependencies: Dependencies = None,
        state: StepState | str | None = StepState.PENDING,
        job_id: str | None = None,
        *,
        ignore_cancelled: bool | None = None,
        ignore_discarded: bool | None = None,
    ) -> None:
        self.job: Job = as_job(step_id, job)
        self.step_id = step_id
        self.dependencies: list[Dependency] = list(as_dependencies(step_id, dependencies))
        self.ignore_cancelled = ignore_cancelled
        self.ignore_discarded = ignore_discarded
        self.state = StepState.PENDING if state is None else StepState(state)
        self.job_id = job_id

    def __eq__(self, other: object) -> bool:
        return isinstance(other, WorkflowStep) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]  # equality by content, and the content may change

    @property
    def name(self) -> str:
        return self.step_id

    @property
    def needs(self) -> tuple[Dependency, ...]:
        """The dependencies without repetitions; BadInput for a dependency with a wrong type."""
        return as_dependencies(self.step_id, self.dependencies)

    @property
    def sources(self) -> list[str]:
        """Names for the edges in pictures."""
        return names_of(self.needs)


class SubWorkflow:
    """A sub-workflow with its name and dependencies, and if growing, with the grafter or crawl that adds jobs."""

    def __init__(
        self,
        name: str,
        workflow: "Level",
        needs: Iterable[Dependency] = (),
        max_parallel: int | None = None,
        growth: GroupGrowth | None = None,
        *,
        grafter: WorkflowStep | None = None,
        crawl: str | None = None,
        template: StepJob | None = None,
    ) -> None:
        self.name = name
        self.workflow = workflow
        self.needs = tuple(needs)
        self.max_parallel = max_parallel
        self.growth = growth
        self.grafter = grafter  # job for a graft
        self.crawl = crawl  # crawl whose tasks get a job each
        self.template = template  # job for a task

    @property
    def dependencies(self) -> list[str]:
        """Names for the sub-workflow's dependencies."""
        return names_of(self.needs)

    @property
    def sources(self) -> list[str]:
        """Names for the edges in pictures: the dependencies, and the crawl with the tasks."""
        return list(dict.fromkeys([*self.dependencies, *([self.crawl] if self.crawl is not None else [])]))

    @property
    def placeholder(self) -> str | None:
        """Label for a node before a crawl's tasks have jobs; None with jobs, or without a crawl."""
        if self.crawl is None or self.template is None or self.workflow.parts:
            return None
        return f"a job for each task ({self.template.title})"


class Steps(MutableMapping[str, WorkflowStep]):
    """A level's jobs by name, grafters included. A new step replaces its namesake."""

    def __init__(self, parts: dict[str, WorkflowStep | SubWorkflow]) -> None:
        self._parts = parts

    def __getitem__(self, name: str) -> WorkflowStep:
        step = _step_of(self._parts[name])
        if step is None:
            raise KeyError(name)
        return step

    def __setitem__(self, name: str, step: WorkflowStep) -> None:
        if step.step_id != name:
            raise BadInput("steps", f"the step under {name!r} has the step_id {step.step_id!r}")
        if not isinstance(self._parts.get(name, step), WorkflowStep):
            raise BadInput("steps", f"{name!r} is the name of a sub-workflow")
        self._parts[checked_name("name", name)] = step

    def __delitem__(self, name: str) -> None:
        if not isinstance(self._parts[name], WorkflowStep):
            raise KeyError(name)
        del self._parts[name]

    def __iter__(self) -> Iterator[str]:
        return (name for name, part in self._parts.items() if _step_of(part) is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return repr(dict(self))


class Level:
    """The readable side for workflows and sub-workflows: parts by name, and the state."""

    def __init__(
        self,
        id: str,  # noqa: A002 - the name that authors know
        name: str | None = None,
        family: str | None = None,
        *,
        ignore_cancelled: bool = False,
        ignore_discarded: bool = False,
        max_parallel: int | None = None,
        report: Report | None = None,
    ) -> None:
        self.id = id
        self.name = name
        self.family = family
        self.ignore_cancelled = ignore_cancelled
        self.ignore_discarded = ignore_discarded
        self.max_parallel = max_parallel
        self.report = report
        self.context: dict[str, Any] | None = None
        self.state = WorkflowState.PENDING
        self.created_at: datetime | None = None
        self.updated_at: datetime | None = None
        self.parts: dict[str, WorkflowStep | SubWorkflow] = {}

    @property
    def steps(self) -> Steps:
        """The level's jobs, grafters included, by name."""
        return Steps(self.parts)

    @property
    def subs(self) -> dict[str, "Level"]:
        """The level's sub-workflows by name."""
        return {name: part.workflow for name, part in self.parts.items() if isinstance(part, SubWorkflow)}

    @property
    def steps_by_state(self) -> dict[StepState, list[WorkflowStep]]:
        """The level's jobs by state; states without jobs are absent."""
        by_state: dict[StepState, list[WorkflowStep]] = {}
        for step in self.steps.values():
            by_state.setdefault(step.state, []).append(step)
        return by_state

    @property
    def is_complete(self) -> bool:
        """Whether the workflow has ended, in success or not."""
        return self.state in (WorkflowState.COMPLETED, WorkflowState.FAILED)

    @property
    def is_running(self) -> bool:
        return self.state is WorkflowState.RUNNING

    def contains(self, other: "Level") -> bool:
        """Return whether the workflow is inside, on any level."""
        return any(sub is other or sub.contains(other) for sub in self.subs.values())

    def has(self, path: str) -> bool:
        """Return whether the path names a job or sub-workflow on the level or inside its sub-workflows."""
        first, _, rest = path.partition(SEPARATOR)
        part = self.parts.get(first)
        if part is None or not rest:
            return part is not None
        return isinstance(part, SubWorkflow) and part.workflow.has(rest)

    def paths(self) -> Iterator[str]:
        """Yield all paths on the level, inner levels included."""
        for name, part in self.parts.items():
            yield name
            if isinstance(part, SubWorkflow):
                yield from (joined(name, path) for path in part.workflow.paths())

    def __len__(self) -> int:
        return len(self.steps)

    def __bool__(self) -> bool:
        return True  # also without jobs: an author's `if workflow` asks for None

    def __iter__(self) -> Iterator[tuple[str, WorkflowStep]]:
        return iter(self.steps.items())

    def __getitem__(self, name: str) -> WorkflowStep:
        return self.steps[name]


def _step_of(part: WorkflowStep | SubWorkflow) -> WorkflowStep | None:
    return part.grafter if isinstance(part, SubWorkflow) else part
