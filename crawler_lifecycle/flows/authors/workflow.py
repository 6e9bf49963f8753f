"""A workflow is a graph of crawls and steps, as its author builds the graph, without input or output."""

import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Self, Unpack

from crawler_lifecycle.base.limits import LARGEST_CONTEXT
from crawler_lifecycle.base.names import ROOT, checked_name, checked_text, did_you_mean, joined, parent_path
from crawler_lifecycle.errors import BadInput
from crawler_lifecycle.flows.authors import building
from crawler_lifecycle.flows.authors.building import cascade_job, item_jobs, task_job
from crawler_lifecycle.flows.authors.dependencies import Dependencies, Dependency, EachTask, as_dependencies, names_of
from crawler_lifecycle.flows.authors.functions import as_job
from crawler_lifecycle.flows.authors.jobs import ApprovalJob, Job, JobOptions, StepJob, as_report, seconds
from crawler_lifecycle.flows.authors.open_client import FlowClient, open_client
from crawler_lifecycle.flows.authors.pictures import Graph, dot_of, graph_of, mermaid_of
from crawler_lifecycle.flows.authors.program import run_workflow
from crawler_lifecycle.flows.authors.running import RunningJob
from crawler_lifecycle.flows.authors.steps import SubWorkflow, WorkflowStep
from crawler_lifecycle.flows.authors.verbs import Verbs
from crawler_lifecycle.flows.model.definition import FlowDefinition
from crawler_lifecycle.flows.model.records import MemberRecord
from crawler_lifecycle.flows.model.requests import AppendMembers, GraftMembers
from crawler_lifecycle.flows.model.values import to_text
from crawler_lifecycle.flows.rules.states import WorkflowState
from crawler_lifecycle.model.flow_states import GroupGrowth

new_id = getattr(uuid, "uuid7", uuid.uuid4)  # ids in the order of time, from Python 3.14 on
Addable = Job | Callable[..., Any]


@dataclass(frozen=True)
class Graft:
    """A sub-workflow for a running grafter's place."""

    job: RunningJob
    workflow: "Workflow"

    @property
    def request(self) -> GraftMembers:
        """The graft as a request. Its paths are relative to the grafter's path."""
        fragment = building.fragment_of(self.workflow)
        context = building.encoded_context(self.workflow.context or {})
        return GraftMembers(
            grafter=self.job.path,
            generation=self.job.generation,
            attempt=self.job.attempt,
            fragment=fragment,
            context=context,
        )


class Workflow(Verbs):
    """A graph of jobs and sub-workflows. The `add` methods return the workflow, so that calls can be chained.

    `check_deps`: refuse an unknown dependency at once. `ignore_cancelled`, `ignore_discarded`: count a
    cancelled or discarded dependency as completed. `max_parallel`: jobs that execute at once. `report`: notices of
    the crawls' runs ("all", "end" or "none"), for crawls without their own report. A push ignores
    `state`, `created_at` and `updated_at`.
    """

    State = WorkflowState

    def __init__(
        self,
        name: str | None = None,
        steps: Mapping[str, WorkflowStep] | None = None,
        state: WorkflowState | str = WorkflowState.PENDING,
        id: str | None = None,  # noqa: A002 - the name that authors know
        created_at: datetime | None = None,
        updated_at: datetime | None = None,
        *,
        family: str | None = None,
        check_deps: bool = True,
        ignore_cancelled: bool = False,
        ignore_discarded: bool = False,
        max_parallel: int | None = None,
        report: str | None = None,
    ) -> None:
        super().__init__(
            str(new_id()) if id is None else checked_text("id", id),
            None if name is None else checked_text("name", name),
            None if family is None else checked_text("family", family),
            ignore_cancelled=ignore_cancelled,
            ignore_discarded=ignore_discarded,
            max_parallel=building.checked_limit(max_parallel),
            report=as_report(report),
        )
        self.check_deps = check_deps
        self.path = ROOT  # a handle's level in its flow
        self.state = WorkflowState(state)
        self.created_at, self.updated_at = created_at, updated_at
        if steps is not None and not isinstance(steps, Mapping):
            raise BadInput("steps", f"expected a dict with steps, not {steps!r}; an id is given as id=...")
        self.steps.update(steps or {})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Workflow) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        return f"<Workflow({self.name!r}, {self.state!r})>"

    @classmethod
    def for_job(cls, job: RunningJob | MemberRecord) -> "Workflow":
        """Return a handle for the workflow or sub-workflow around a job: the running job, or a job from a query."""
        handle = cls(id=job.flow_id, name=job.meta.get("workflow_name"))
        handle.path = parent_path(job.path)
        return handle

    @classmethod
    def apply_graft(cls, job: RunningJob, sub_workflow: "Workflow") -> "Graft":
        """Return the sub-workflow with its place, for the client. Only a running grafter has a place for it."""
        if not job.is_grafter:
            raise BadInput("graft", f"{job.path!r} is no grafter: only a job of add_graft may attach a sub-workflow")
        return Graft(job, sub_workflow)

    async def run(self) -> None:
        """Run the workflow from the author's program: host the program's functions, push, and follow to the end.

        The running stack is used, or the installation in the environment, or else a stack in a temporary folder.
        SystemExit with the exit status of `crawlctl flow run`, unless the workflow has completed.
        """
        await run_workflow(self)

    def root(self) -> "Workflow":
        """Return a handle for the whole flow."""
        return self if self.path == ROOT else Workflow(self.name, id=self.id)

    # building

    def add(
        self,
        name: str | Addable | None = None,
        job: Addable | str | None = None,
        dependencies: Dependencies = None,
        *,
        step_id: str | None = None,
        deps: Dependencies = None,
        ignore_cancelled: bool | None = None,
        ignore_discarded: bool | None = None,
        **options: Unpack[JobOptions],
    ) -> Self:
        """Add a job under a name, also called `step_id`. The job may also come first, and its name second."""
        if step_id is not None:
            name, job = step_id, name if job is None else job
        if not isinstance(name, str) and isinstance(job, str):
            name, job = job, name
        name = self._free_name(name)
        needs = self._needs(name, deps if deps is not None else dependencies)
        chosen = as_job(name, job).with_options(**options)
        return self._put_step(chosen, name, needs, (ignore_cancelled, ignore_discarded))

    def add_group(self, jobs: Iterable[tuple[str, Addable]], dependencies: Dependencies = None) -> Self:
        """Add several jobs with the same dependencies."""
        needs = self._needs("group", dependencies)
        for name, job in jobs:
            self.add(name, job, needs)
        return self

    def add_workflow(
        self, name: str, sub_workflow: "Workflow", *, deps: Dependencies = None, max_parallel: int | None = None
    ) -> Self:
        """Add a sub-workflow. Its first jobs wait for the dependencies; a dependent waits for all its jobs."""
        if not isinstance(sub_workflow, Workflow):
            raise BadInput(f"sub-workflow {name!r}", f"expected a Workflow, not {type(sub_workflow).__name__}")
        if sub_workflow is self or sub_workflow.contains(self):
            raise BadInput(f"sub-workflow {name!r}", "contains the workflow that it is added to")
        name = self._free_name(name)
        limit = building.checked_limit(max_parallel) if max_parallel is not None else sub_workflow.max_parallel
        return self._put(SubWorkflow(name, sub_workflow, self._needs(name, deps), limit))

    def add_many(
        self,
        name: str,
        jobs: Iterable[Addable] | Mapping[Any, Addable],
        *,
        deps: Dependencies = None,
        max_parallel: int | None = None,
        **options: Unpack[JobOptions],
    ) -> Self:
        """Add a collection: jobs from a list have the names 0, 1, ..., jobs from a dict the names of its keys."""
        name = self._free_name(name)
        named = building.named_items(name, jobs)
        return self._put_many(
            name, [(key, as_job(joined(name, key), job)) for key, job in named], deps, max_parallel, options
        )

    def add_cascade(
        self,
        name: str,
        func_or_tuple: Callable[..., Any] | tuple[Any, Callable[..., Any]] | EachTask,
        *,
        deps: Dependencies = None,
        ignore_cancelled: bool | None = None,
        ignore_discarded: bool | None = None,
        max_parallel: int | None = None,
        **options: Unpack[JobOptions],
    ) -> Self:
        """Add a function with the context as its argument. The context includes the dependencies' results.

        A tuple of items and a function makes a job for every item. `each_task` makes a job for every task in a crawl.
        """
        name = self._free_name(name)
        flags = (ignore_cancelled, ignore_discarded)
        if isinstance(func_or_tuple, EachTask):
            return self._put_tasks(name, func_or_tuple, deps, flags, max_parallel, options)
        if isinstance(func_or_tuple, tuple):
            jobs = [(key, job) for key, job in item_jobs(name, func_or_tuple)]
            return self._put_many(name, jobs, deps, max_parallel, options, flags)
        needs = self._needs(name, deps)
        chosen = cascade_job(name, func_or_tuple).with_options(**options)
        return self._put_step(chosen, name, needs, flags)

    def add_graft(
        self,
        name: str,
        job: Addable | tuple[Any, Callable[..., Any]],
        *,
        deps: Dependencies = None,
        ignore_cancelled: bool | None = None,
        ignore_discarded: bool | None = None,
        **options: Unpack[JobOptions],
    ) -> Self:
        """Add a place for a sub-workflow. The job attaches the sub-workflow while the workflow executes.

        With a tuple of items and a function, the job calls the function once, with all items and the context.
        """
        name = self._free_name(name)
        needs = self._needs(name, deps)
        chosen = cascade_job(name, job) if isinstance(job, tuple) else as_job(name, job)
        if not isinstance(chosen, StepJob):
            raise BadInput(f"graft {name!r}", f"expected a function or a worker's job, not {chosen.title!r}")
        grafter = WorkflowStep(
            chosen.with_options(**options),
            name,
            needs,
            ignore_cancelled=ignore_cancelled,
            ignore_discarded=ignore_discarded,
        )
        empty = Workflow(ignore_cancelled=self.ignore_cancelled, ignore_discarded=self.ignore_discarded)
        return self._put(SubWorkflow(name, empty, needs, None, GroupGrowth.GRAFT, grafter=grafter))

    def add_approval(
        self, name: str, *, deps: Dependencies = None, note: str | None = None, timeout: float | timedelta | None = None
    ) -> Self:
        """Add a wait for a person's decision. After the timeout the approval is discarded."""
        limit = None if timeout is None else seconds("timeout", timeout)
        return self.add(name, ApprovalJob(note=note, timeout_seconds=limit), deps)

    def add_context(self, value: Mapping[str, Any]) -> Self:
        """Share values with all jobs. A second call adds values; a later value replaces an earlier one."""
        if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
            raise BadInput("context", "expected a dict with texts as keys")
        merged = {**(self.context or {}), **value}
        for name in merged.keys() & self.parts.keys():
            raise BadInput("context", f"the key {name!r} is the name of a job")
        to_text("context", merged, LARGEST_CONTEXT)
        self.context = merged
        return self

    # the whole graph

    def definition(self) -> FlowDefinition:
        """Return the graph as a contract's model."""
        return building.definition_of(self)

    def additions(self, key: str) -> AppendMembers:
        """Return the jobs as a request to add them to the open flow with this id, once under the key."""
        return AppendMembers(key=checked_text("key", key), group=self.path, fragment=building.fragment_of(self))

    async def append(self, key: str, additions: "Workflow | None" = None) -> int:
        """Add jobs to the open flow with the id, and return their number. The same key again adds no jobs.

        `additions`: a workflow with the jobs; default: the handle's own jobs.
        """
        request = self.additions(key)
        if additions is not None:
            request = request.model_copy(update={"fragment": building.fragment_of(additions)})
        return await open_client().append(self.id, request)

    async def push(self) -> str:
        """Store the workflow with the innermost open client, and return its id."""
        return await open_client().push_definition(self.definition())

    def check(self) -> Self:
        """Raise BadInput if the graph cannot run: unknown dependencies, cycles, too large values."""
        building.check(self)
        return self

    def to_graph(self) -> Graph:
        """Return vertices and edges; a sub-workflow is a graph among the vertices."""
        return graph_of(self)

    def to_dot(self) -> str:
        """Return a picture for Graphviz."""
        return dot_of(self)

    def to_mermaid(self, *, states: bool = False) -> str:
        """Return a picture for Mermaid; with `states`, nodes have their states' colours."""
        return mermaid_of(self, states=states)

    def __delitem__(self, name: str) -> None:
        """Remove a job; its dependents keep their dependency, so a push refuses them."""
        del self.steps[name]

    def __iadd__(self, step: WorkflowStep) -> Self:
        self._free_name(step.step_id)
        self._needs(step.step_id, step.dependencies)
        return self._put(step)

    # inside

    def _free_name(self, name: object) -> str:
        """Return a valid and free name."""
        checked = checked_name("name", name)
        if checked in self.parts:
            raise BadInput("name", f"{checked!r} is already in the workflow")
        if checked in (self.context or {}):
            raise BadInput("name", f"{checked!r} is a key of the context")
        return checked

    def _needs(self, name: str, deps: Dependencies) -> tuple[Dependency, ...]:
        """Return the dependencies; with `check_deps`, refuse unknown names."""
        needs = as_dependencies(name, deps)
        if self.check_deps:
            for dep in names_of(needs):
                if not self.has(dep):
                    raise BadInput(
                        f"deps of {name!r}",
                        f"{dep!r} is not in the workflow yet; add it before, or use Workflow(check_deps=False)"
                        + did_you_mean(dep, self.paths()),
                    )
        return needs

    def _put(self, part: WorkflowStep | SubWorkflow) -> Self:
        self.parts[part.name] = part
        return self

    def _put_step(
        self, job: Job, name: str, needs: tuple[Dependency, ...], flags: tuple[bool | None, bool | None]
    ) -> Self:
        return self._put(WorkflowStep(job, name, needs, ignore_cancelled=flags[0], ignore_discarded=flags[1]))

    def _put_many(
        self,
        name: str,
        jobs: Iterable[tuple[str, Job]],
        deps: Dependencies,
        max_parallel: int | None,
        options: JobOptions,
        flags: tuple[bool | None, bool | None] = (None, None),
    ) -> Self:
        """Add a sub-workflow with the workflow's flags for its jobs, or with the given flags."""
        needs = self._needs(name, deps)
        ignore_cancelled, ignore_discarded = building.resolved(flags, self)
        sub = Workflow(ignore_cancelled=ignore_cancelled, ignore_discarded=ignore_discarded)
        for key, job in jobs:
            sub.add(key, job, **options)
        return self._put(SubWorkflow(name, sub, needs, building.checked_limit(max_parallel)))

    def _put_tasks(
        self,
        name: str,
        tasks: EachTask,
        deps: Dependencies,
        flags: tuple[bool | None, bool | None],
        max_parallel: int | None,
        options: JobOptions,
    ) -> Self:
        """Add a sub-workflow with a job for every task in a crawl."""
        self._needs(name, tasks.crawl)
        needs = self._needs(name, deps)
        template = task_job(name, tasks.function).with_options(**options)
        ignore_cancelled, ignore_discarded = building.resolved(flags, self)
        sub = Workflow(ignore_cancelled=ignore_cancelled, ignore_discarded=ignore_discarded)
        limit = building.checked_limit(max_parallel)
        return self._put(SubWorkflow(name, sub, needs, limit, GroupGrowth.TASKS, crawl=tasks.crawl, template=template))


class Sequence:
    """A workflow where every job depends on the job before."""

    def __init__(self, name: str, jobs: Iterable[Job | Callable[..., Any]] | None = None) -> None:
        self.name = name
        self.jobs: list[Job] = []
        for job in jobs or ():
            self.add(job)

    def add(self, job: Job | Callable[..., Any]) -> Self:
        """Add a job at the end."""
        self.jobs.append(as_job(f"step_{len(self.jobs)}", job))
        return self

    def workflow(self) -> Workflow:
        """Return the sequence as a workflow, with a new id."""
        if not self.jobs:
            raise BadInput("sequence", f"{self.name!r} has no jobs")
        workflow = Workflow(self.name)
        for number, job in enumerate(self.jobs):
            workflow.add(f"step_{number}", job, deps=f"step_{number - 1}" if number else ())
        return workflow

    async def push(self, chancy: FlowClient | None = None) -> str:
        """Store the sequence with a client, and return its workflow's id. Default: the innermost open client.

        Every push makes a new flow.
        """
        return await (chancy or open_client()).push_definition(self.workflow().definition())

    async def run(self) -> None:
        """Run the sequence from the author's program, as `Workflow.run` does."""
        await self.workflow().run()
