"""A workflow's parts: jobs with their names and dependencies, and sub-workflows."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

from crawler_lifecycle.contract.flows.names import SEPARATOR, joined
from crawler_lifecycle.contract.flows.states import GroupGrowth
from crawler_lifecycle.contract.states import Report
from crawler_lifecycle.domain.flows.states import StepState, WorkflowState
from crawler_lifecycle.flows.jobs import Job, StepJob
from crawler_lifecycle.flows.marks import as_job
from crawler_lifecycle.flows.needs import Dependencies, Dependency, as_dependencies, names_of

PLACEHOLDER = "*"  # node's name before a fan-out has jobs


class WorkflowStep:
    """A job with its name and dependencies. `job_id` is None until the job has started."""

    def __init__(
        self,
        job: Any,
        step_id: str,
        dependencies: Dependencies = None,
        ignore_cancelled: bool | None = None,
        ignore_discarded: bool | None = None,
        state: StepState = StepState.PENDING,
        job_id: str | None = None,
    ) -> None:
        self.job: Job = as_job(step_id, job)
        self.step_id = step_id
        self.needs: tuple[Dependency, ...] = as_dependencies(step_id, dependencies)
        self.ignore_cancelled = ignore_cancelled
        self.ignore_discarded = ignore_discarded
        self.state = state
        self.job_id = job_id

    @property
    def name(self) -> str:
        return self.step_id

    @property
    def dependencies(self) -> list[str]:
        """Names for the job's dependencies."""
        return names_of(self.needs)

    @property
    def sources(self) -> list[str]:
        """Names for the edges in pictures."""
        return self.dependencies


class SubWorkflow:
    """A sub-workflow with its name and dependencies, and with its jobs' source if it grows."""

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
        self.grafter = grafter  # job that attaches a graft's sub-workflow
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


class Level:
    """A workflow or sub-workflow, with its parts by name and its state, for readers."""

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
    def steps(self) -> dict[str, WorkflowStep]:
        """The level's jobs, grafters included, by name."""
        steps = ((name, part.grafter if isinstance(part, SubWorkflow) else part) for name, part in self.parts.items())
        return {name: step for name, step in steps if step is not None}

    @property
    def subs(self) -> dict[str, "Level"]:
        """Sub-workflows of this level by name."""
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

    def __iter__(self) -> Iterator[tuple[str, WorkflowStep]]:
        return iter(self.steps.items())

    def __getitem__(self, name: str) -> WorkflowStep:
        return self.steps[name]
