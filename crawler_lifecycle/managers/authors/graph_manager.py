"""`GraphManager`: a crawl manager for a graph of tasks, in which a task's outcome decides which tasks come next.

A task has one or several parts, and each part is an item in the manager's ledger. A task gets a turn at the beginning,
or when an earlier task's outcome names the task; then its parts wait for their start. The graph's state is stored with
the manager's: after a process dies, the manager's next object (in another process) continues from both.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from crawler_lifecycle.errors import BadInput
from crawler_lifecycle.flows.model.turns import Begun, Counts
from crawler_lifecycle.managers.authors.crawl_ends import CrawlEnds
from crawler_lifecycle.managers.authors.link import ManagerLink
from crawler_lifecycle.managers.authors.owned_jobs import CANCELLED, STOPPED, params_of
from crawler_lifecycle.managers.authors.parameters import FullJobParams, JobDict, JobKey
from crawler_lifecycle.managers.authors.requesting import dedup_key
from crawler_lifecycle.managers.authors.tasks import RETRY, TASK_ID, BaseTask, PendingPart, TaskGraph
from crawler_lifecycle.managers.authors.workflow_manager import FINISHED, WITH_FAILURES
from crawler_lifecycle.model.manager_items import Job, JobState, Origin, Waiting

GRAPH = "graph"  # subject in the stored memory
REFUSED = "refused"  # outcome when a task's job can never start


class GraphManager(CrawlEnds):
    """Runs the tasks from `configure_workflow`: the starting tasks, then the next tasks by their outcomes."""

    needs_cycles = True

    def __init__(self) -> None:
        super().__init__()
        self._has_begun = False
        self._graph = TaskGraph(self.configure_workflow() or ())
        starting, is_by_root = self.args.starting_job, self.args.root_jobs
        if not self._graph.tasks:
            self.argparser.error("the graph is empty: configure_workflow returns no task")
        if bool(starting) == is_by_root:
            self.argparser.error(f"expected {'only one of' if starting else 'either'} --starting-job or --root-jobs")
        for task_id in [*starting, *self.args.skip_job]:
            if task_id not in self._graph.tasks:
                self.argparser.error(f"there is no task {task_id!r}, but {', '.join(sorted(self._graph.tasks))}")
        if unknown := self._graph.unknown_targets:
            self.argparser.error(f"on_finish names tasks that are not in the graph: {', '.join(sorted(unknown))}")
        self._starting: list[str] = self._graph.roots if is_by_root else starting

    def attach(self, link: ManagerLink, begun: Begun) -> None:
        super().attach(link, begun)
        self._graph.load(self._collected.memory.setdefault(GRAPH, {}))

    # the command line

    def add_spider_argument(self) -> None:
        """Add no argument: every task has its own spider or script."""

    def add_argparser_options(self) -> None:
        super().add_argparser_options()
        add = self.argparser.add_argument
        add("--root-jobs", action="store_true", help="start with the tasks that configure_workflow returns")
        add("--starting-job", "-s", action="append", default=[], metavar="TASK", help="start here; may be repeated")
        add("--only-starting-jobs", action="store_true", help="run no further tasks")
        add("--skip-job", action="append", default=[], metavar="TASK", help="leave out with all that follows")
        add("--comment", help="ignored")
        add("--jobs-graph", help="refused: configure_workflow has the graph")

    def _take_arguments(self) -> None:
        super()._take_arguments()
        if self.args.jobs_graph is not None:
            raise BadInput("jobs_graph", "the graph comes from configure_workflow alone")

    # methods for authors

    def configure_workflow(self) -> Iterable[BaseTask]:
        """Return the root tasks, with their next tasks. Every object calls the method again."""
        raise NotImplementedError(f"{type(self).__name__} has to define configure_workflow")

    def bad_outcome_hook(self, task_id: str, jobid: JobKey | None, outcome: str) -> Any:
        """Called after a task, or a part, has failed without a further try."""

    def get_task(self, task_id: str) -> BaseTask:
        return self._graph.task_of(task_id)

    @property
    def pending_jobs(self) -> dict[str, PendingPart]:
        """The parts before their start."""
        return self._graph.pending

    def get_running_jobid(self, task_id: str) -> JobKey:
        return self._graph.started[task_id]

    def get_job_taskid(self, job: JobDict) -> str | None:
        """Return the job's task, or part, by its id."""
        return self.get_keyvalue_job_tag(TASK_ID.removesuffix("="), job["tags"])

    def previewed_jobs(self) -> Iterator[FullJobParams]:
        """Yield the parameters for all parts."""
        for task in self._graph.tasks.values():
            yield from (task.params_of_part(part) for part in task.parts)

    # the cycle

    async def _cycle(self) -> bool:
        await self._begin()
        await self.call(self.check_running_jobs)
        waiting = await self._compare_with_ledger()
        if self.may_start:
            await self._start_parts(waiting)
        counts = self.link.counts()
        continues = bool(self._graph.pending or self._graph.started or counts.running or counts.waiting)
        self._own_reason = None if continues or self._is_stopped else self._reason(counts)
        return continues

    @property
    def _is_stopped(self) -> bool:
        """Whether people have stopped the manager with its tasks."""
        return not self.may_start and any(outcome in STOPPED for outcome in self._graph.ended.values())

    @staticmethod
    def _reason(counts: Counts) -> str:
        return WITH_FAILURES if counts.failed + counts.refused else FINISHED

    @property
    def seconds_to_next(self) -> float | None:
        """Seconds until the next wait time is over; None without a wait time."""
        return self._graph.seconds_to_next(self.link.now().timestamp())

    async def _begin(self) -> None:
        """Give the starting tasks their turns. A later object instead restores its tasks from state and ledger."""
        if self._has_begun:
            return
        self._has_begun = True
        for task_id in dict.fromkeys(self._graph.turns):
            await self._open(task_id)
        jobs = [job for state in JobState for job in self._pages(state)]
        for job in sorted(jobs, key=lambda job: (job.number, job.attempt)):
            part = part_of(job)
            if part is not None:
                self._graph.task_of(part).append_jobid(job.key)
        if not self._graph.turns:
            for task_id in self._starting:
                await self._take_turn(task_id)

    async def _compare_with_ledger(self) -> dict[str | None, list[Waiting]]:
        """Adapt the graph to the ledger, which people and the host change, too. Return the waiting items by part."""
        graph, waiting = self._graph, self._waiting_by_part()
        self._note_running()
        for part, key in list(graph.started.items()):
            if any(job.has_reaction for job in self.link.find([key])):  # refused after its start, or stopped
                graph.note_end(part)
                if part not in waiting:
                    await self._end(part, key, REFUSED, is_failed=True)
        for named in waiting.keys() - graph.pending.keys() - graph.started.keys():
            if named is not None:
                graph.ended.pop(named, None)
                graph.put(named, PendingPart(is_retry=True, is_stored=True))
        for part, state in graph.pending.items():
            if state.is_stored and part not in waiting:
                graph.note_end(part)
                await self._end(part, None, CANCELLED, is_failed=True)
        return waiting

    def _waiting_by_part(self) -> dict[str | None, list[Waiting]]:
        """Return the waiting items by part. Items from people have no part: None."""
        by_part: dict[str | None, list[Waiting]] = {}
        for waiting in self._waiting():
            by_part.setdefault(part_of(waiting), []).append(waiting)
        return by_part

    def _note_running(self) -> None:
        """Note the jobs under way, also from a previous object."""
        for job in self.link.running():
            part = part_of(job)
            if part is not None and self._graph.started.get(part) != job.key:
                self._graph.note_start(part, job.key)

    # starts

    async def _start_parts(self, waiting: dict[str | None, list[Waiting]]) -> None:
        """Start pending parts, then people's items, as room permits. A refused part ends, and leaves its room."""
        graph = self._graph
        graph.release_unstarted(graph.started)
        chosen = graph.choose(self.max_running_jobs, self.link.now().timestamp())
        new = [part for part in chosen if part not in waiting]
        items = [self.item(graph.task_of(part).params_of_part(part), Origin.ADDED, self._key(part)) for part in new]
        for part in new:
            graph.put(part, PendingPart(is_stored=True))
        self._collected.add.extend(items)
        numbers = self.commit()[-len(new) :] if new else []  # stored with the state: the next object finds both
        for part, number, item in zip(new, numbers, items, strict=True):
            if item.request is not None:
                first = Waiting(
                    number=number, attempt=1, origin=Origin.ADDED, override=item.override, request=item.request
                )
                waiting[part] = [first]
        starts = [start for part in chosen for start in waiting.get(part, ())]
        room = max(0, self.max_running_jobs - len(graph.started) - len(chosen))
        starts += waiting.get(None, [])[:room]
        await self.start_chosen([(start, _whole(start)) for start in starts])
        self._note_running()
        still_waiting = self._waiting_by_part()
        refused = [part for part in chosen if part not in graph.started and part not in still_waiting]
        for part in refused:
            graph.note_end(part)
            await self._end(part, None, REFUSED, is_failed=True)
        if refused:
            await self._start_parts(still_waiting)

    def _key(self, part: str) -> str | None:
        """Return the dedup key for the part's item in its present turn: a repeated commit makes no second item."""
        turn = self._graph.turns.count(self._graph.task_of(part).task_id)
        return dedup_key({}, dedup=False, own=[TASK_ID, part, turn])

    # ends

    async def process_outcome(self, job: Job, outcome: str, *, notifies_host: bool) -> None:  # noqa: ARG002 - always notifies
        part = part_of(job)
        if part is None:
            return
        self._graph.note_end(part)
        targets = self._targets(part, outcome, is_failed=self._ended_badly)
        if RETRY in targets and self._may_retry(part, job, outcome):
            self.retry_with(job, self._next_params(part, job))
        if self._retry is None:
            await self._end(part, job.key, outcome, is_failed=self._ended_badly)
        else:
            self._graph.put(part, PendingPart(is_retry=True, is_stored=True))
            await self._follow(part, targets)

    def _targets(self, part: str, outcome: str, *, is_failed: bool) -> list[str]:
        if self.args.only_starting_jobs:
            return []
        return self._graph.task_of(part).targets(outcome, is_failed=is_failed)

    def _may_retry(self, part: str, job: Job, outcome: str) -> bool:
        """Return whether the task has a further try. After a stop by people, only `on_finish` gives a further try."""
        task = self._graph.task_of(part)
        return job.tries <= task.retries and (outcome not in STOPPED or outcome in task.on_finish)

    def _next_params(self, part: str, job: Job) -> FullJobParams:
        """Return the parameters for the next try: the task's own for retries, or the previous parameters."""
        task = self._graph.task_of(part)
        again = task.params_of_part(part, is_retry=True)
        return again if again != task.params_of_part(part) else _whole(job)

    async def _end(self, part: str, key: JobKey | None, outcome: str, *, is_failed: bool) -> None:
        """End the part for good, and let the next tasks have their turns."""
        self._graph.ended[part] = outcome
        targets = self._targets(part, outcome, is_failed=is_failed)
        if is_failed or RETRY in targets:
            await self.call(self.bad_outcome_hook, part, key, outcome, job=key)
        await self._follow(part, targets)

    async def _follow(self, part: str, targets: Iterable[str]) -> None:
        """Let the next tasks have their turns. The first part decides for its whole task."""
        if part == self._graph.task_of(part).parts[0]:
            for task_id in targets:
                if task_id != RETRY:
                    await self._take_turn(task_id)

    async def _take_turn(self, task_id: str) -> None:
        if task_id in self.args.skip_job:
            return
        if self._graph.is_under_way(task_id):
            self.log(f"task {task_id} is under way, and gets no second turn")
            return
        await self._open(task_id)
        self._graph.take_turn(task_id, self.link.now().timestamp())

    async def _open(self, task_id: str) -> None:
        """Call the start callback at the task's first turn in the object, and add the next tasks."""
        task = self._graph.task_of(task_id)
        if task.is_locked:
            return
        callback = task.get_start_callback()
        if callback is not None:
            await self.call(callback, self, False)
        task.is_locked = True
        for following in task.get_next_tasks():
            if following.task_id not in self._graph.tasks:
                self._graph.add(following)


def part_of(item: Job | Waiting) -> str | None:
    """Return the item's part; None for an item from people or hooks."""
    tags: list[str] = params_of(item).get("tags") or []
    return next((tag.removeprefix(TASK_ID) for tag in tags if tag.startswith(TASK_ID)), None)


def _whole(item: Job | Waiting) -> FullJobParams:
    """Return the item's parameters with the spider."""
    return {**params_of(item), "spider": item.request.crawler}
