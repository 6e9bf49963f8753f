"""The workflow that supervises a flow: the graph's members start, end and follow one another until none is open.

The stored rows are the truth. The supervisor has a planner built from the rows, starts what the planner allows, and
takes in ends, news and refusals. Every act is refused if a door came first: then the supervisor reads the news, and
plans anew. An execution may end at any time; the next execution begins from the rows.
"""

import asyncio
from typing import NoReturn

from temporalio import workflow
from temporalio.common import RawValue

from crawler_lifecycle.flows.workflows.course import Bell
from crawler_lifecycle.flows.workflows.supervision import FlowSupervisor, begin
from crawler_lifecycle.model.flow_states import FlowState, FlowSupervised, SuperviseFlow
from crawler_lifecycle.model.naming import FLOW_WORKFLOW
from crawler_lifecycle.temporal.converter import NO_INPUT, decoded, failing_with_activity_message

# Events. A busy worker has to replay the history in the ten seconds of a workflow task, beside the tasks of many runs.
LONGEST_HISTORY = 1_500  # beside the events of adopted attempts
EVENTS_OF_AN_ACTIVITY = 3


# An execution that changed code cannot replay fails, and does not hang: the next execution continues from the rows.
@workflow.defn(name=FLOW_WORKFLOW, failure_exception_types=[workflow.NondeterminismError])
class FlowWorkflow:
    @workflow.init
    def __init__(self, raw: RawValue = NO_INPUT) -> None:  # noqa: ARG002 (the SDK wants run's parameters)
        self._bell = Bell()
        self._is_nudged = False
        self._is_cancelled = False  # by Temporal's tools
        self._is_reset = False
        workflow.register_random_seed_callback(self._note_reset)  # only a reset changes the seed

    @workflow.run
    async def run(self, raw: RawValue = NO_INPUT) -> FlowSupervised:
        """Supervise the flow. A cancel by Temporal's tools cancels all members; the shield keeps `_supervise` alive."""
        step = decoded(SuperviseFlow, raw)
        self._is_cancelled = step.is_cancelled
        supervision = asyncio.create_task(self._supervise(step))
        with failing_with_activity_message():
            while not supervision.done():
                try:
                    await asyncio.shield(supervision)
                except asyncio.CancelledError:
                    self._is_cancelled = True
                    self._bell.ring()
            end = supervision.result()
        if self._is_cancelled and end.state is not FlowState.COMPLETED:
            raise asyncio.CancelledError(f"flow {end.flow_id} was cancelled by Temporal's tools")
        return end

    async def _supervise(self, step: SuperviseFlow) -> FlowSupervised:
        """Supervise the flow until its end is stored and no news is left."""
        self._is_nudged = False  # the beginning reads all news
        if self._is_reset:
            _continue(step, is_cancelled=self._is_cancelled)
        supervision = await begin(step, self._bell)
        while True:
            self._pass_on(supervision)
            if self._is_reset:  # the next execution has its own epoch, and reads all rows
                _continue(step, is_cancelled=supervision.owes_cancel)
            supervision.take_in()
            if _has_long_history(supervision):
                if not supervision.is_acting:  # the attempts under way continue without their activities
                    _continue(step, is_cancelled=supervision.owes_cancel)
            else:
                supervision.plan()
                supervision.act()
                if supervision.is_over:
                    return FlowSupervised(flow_uid=step.flow_uid, flow_id=step.flow_id, state=supervision.state)
            await self._bell.wait()

    def _pass_on(self, supervision: FlowSupervisor) -> None:
        """Pass nudges and a cancel on to the supervision."""
        if self._is_nudged:
            self._is_nudged = False
            supervision.news.want()
        if self._is_cancelled:
            supervision.cancel()

    def _note_reset(self, seed: int) -> None:  # noqa: ARG002 (the SDK's callback)
        """Note a reset by Temporal's tools: the planner is older than the rows.

        The epoch may be the previous execution's, and then refuses no acts by such a planner.
        """
        self._is_reset = True
        self._bell.ring()

    @workflow.signal
    def nudge(self, raw: RawValue = NO_INPUT) -> None:  # noqa: ARG002 (the reading takes the news from the database)
        """Read the news soon: a door changed the flow, or a run ended."""
        self._is_nudged = True
        self._bell.ring()


def _continue(step: SuperviseFlow, *, is_cancelled: bool) -> NoReturn:
    workflow.continue_as_new(step.model_copy(update={"is_cancelled": is_cancelled}))


def _has_long_history(supervision: FlowSupervisor) -> bool:
    info, longest = workflow.info(), LONGEST_HISTORY + EVENTS_OF_AN_ACTIVITY * supervision.adopted
    return info.is_continue_as_new_suggested() or info.get_current_history_length() > longest
