"""The client for workflows: push, wait, fetch, prune."""

import asyncio
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import timedelta

from crawler_lifecycle.base.limits import LONGEST_NAME
from crawler_lifecycle.client.ledger import LedgerClient
from crawler_lifecycle.errors import BadInput, Conflict, NotFound
from crawler_lifecycle.flows import Graft, Sequence, Workflow
from crawler_lifecycle.flows.authors.running import running_job
from crawler_lifecycle.flows.model.records import FlowSummary
from crawler_lifecycle.flows.model.requests import StopFlow, StopWay
from crawler_lifecycle.flows.rules.pruning import AFTER_A_DAY, Rule
from crawler_lifecycle.flows.rules.states import WorkflowState, workflow_state
from crawler_lifecycle.model.flow_states import FlowState
from crawler_lifecycle.model.requests import refusals_as_bad_input

ALL_WORDS = tuple(dict.fromkeys([*map(str, FlowState), *map(str, WorkflowState)]))
PAGE = 100  # flows in a query


@dataclass(frozen=True)
class Wanted:
    """Flows with a state among the words."""

    words: frozenset[str]

    @classmethod
    def by_words(cls, words: Iterable[str]) -> "Wanted":
        wanted = frozenset(str(word) for word in words)
        for word in sorted(wanted):
            if word not in ALL_WORDS:
                raise BadInput("states", f"expected some of {', '.join(ALL_WORDS)}, not {word!r}")
        return cls(wanted)

    @property
    def states(self) -> list[FlowState]:
        """States with all flows for the words, for a query."""
        return [state for state in FlowState if any(self._fits(state, has_started) for has_started in (True, False))]

    def fit(self, flow: FlowSummary) -> bool:
        return self._fits(flow.state, flow.started_at is not None)

    def _fits(self, state: FlowState, has_started: bool) -> bool:
        return not self.words.isdisjoint({state.value, workflow_state(state, has_started=has_started).value})


class WorkflowClient(LedgerClient):
    async def push(self, workflow: Workflow | Sequence) -> str:
        """Store the workflow, and return its id. A push with a known id updates the stored workflow.

        The workflow is stored when the call returns, although all workers and Temporal may be away.
        """
        if isinstance(workflow, Sequence):
            workflow = workflow.workflow()
        if not isinstance(workflow, Workflow):
            raise BadInput("workflow", f"expected a Workflow or a Sequence, not {type(workflow).__name__}")
        return await self.push_definition(workflow.definition())

    async def enqueue_many(self, work: Workflow | Sequence | Graft) -> str:
        """Store a workflow, or attach a graft to its running workflow. Return the workflow's id."""
        if not isinstance(work, Graft):
            return await self.push(work)
        await self.graft(work.job.flow_uid, work.request)
        return work.job.flow_id

    async def wait(
        self,
        id: str,  # noqa: A002 - the authors' name
        *,
        timeout: float | timedelta | None = None,
    ) -> Workflow:
        """Return the workflow at its end, in success or not.

        TimeoutError after the timeout; the workflow continues. KeyError without such a workflow. Conflict in the
        workflow's own steps.
        """
        _refuse_own_wait(id)
        limit = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
        try:
            async with asyncio.timeout(limit):
                await self.control.flows.wait(id)
        except NotFound as error:
            raise KeyError(id) from error
        ended = await self.fetch_one(id)
        if ended is None:
            raise KeyError(id)
        return ended

    async def stop(
        self,
        id: str,  # noqa: A002 - the authors' name
        *,
        drain: bool = False,
        leave: bool = False,
        force: bool = False,
        wait: bool = False,
        reason: str | None = None,
    ) -> None:
        """Stop a workflow: cancel all its jobs, and end its crawls and steps under way.

        `drain`: start no further jobs, and let the jobs under way end. `leave`: cancel all jobs, and leave the jobs
        under way alone. `force`: end the crawls without their grace period. `wait`: return with the proof, as soon
        as the workflow and all its runs have ended; Conflict in the workflow's own steps.
        """
        if drain + leave + force > 1:
            raise BadInput("stop", "drain, leave and force exclude each other")
        if wait:
            _refuse_own_wait(id)
        way = StopWay.DRAIN if drain else StopWay.LEAVE if leave else StopWay.TERMINATE
        with refusals_as_bad_input():
            request = StopFlow(way=way, force=force, reason=reason, actor=self.actor)
        self._checked(await self.control.flows.stop(id, request))
        if wait:
            await self.control.flows.wait_for_proof(id)

    async def fetch_one(self, id: str) -> Workflow | None:  # noqa: A002
        """Return the workflow with its jobs and their states; None without such a workflow.

        Add jobs to the returned workflow, and push the workflow again to change its record.
        """
        if not isinstance(id, str) or not 0 < len(id) <= LONGEST_NAME:
            return None
        return await self._read(lambda flows: flows.workflow(id), None)

    async def fetch(
        self,
        *,
        states: Collection[str] | None = None,
        ids: Collection[str] | None = None,
        limit: int = 100,
        before: str | None = None,
    ) -> list[Workflow]:
        """Return workflows, newest first. `states`: the service's words, or pending, running, completed, failed.

        `before`: the previous page's last id; KeyError without such a workflow.
        """
        wanted = None if states is None else Wanted.by_words(states)
        workflows: list[Workflow] = []
        if before is not None:
            before = await self._uid(before)
        while len(workflows) < limit:
            page = await self.control.context.database(
                lambda _, before=before: self.control.flows.list(  # type: ignore[misc]
                    limit=PAGE, before=before, states=None if wanted is None else wanted.states, ids=ids
                )
            )
            for flow in page:
                if len(workflows) < limit and (wanted is None or wanted.fit(flow)):
                    workflow = await self.fetch_one(flow.id)
                    workflows += [] if workflow is None else [workflow]
            if len(page) < PAGE:
                break
            before = page[-1].uid
        return workflows

    async def _uid(self, id: str) -> str:  # noqa: A002
        try:
            return await self.control.context.database(lambda store: store.flow_records.uid_of(id))
        except NotFound as error:
            raise KeyError(id) from error

    async def prune(self, rule: Rule = AFTER_A_DAY) -> int:
        """Delete ended workflows by their age since their end, such as `Age() > 3600`. Return their number."""
        return await self.control.flows.prune(rule)


def _refuse_own_wait(flow: str) -> None:
    """Raise Conflict in the flow's own step: the flow's end waits for the step's end."""
    step = running_job()
    if step is not None and step.flow_id == flow:
        raise Conflict(f"{step.path!r} cannot wait for the end of its own workflow, which waits for the step's end")
