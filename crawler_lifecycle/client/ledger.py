"""The client's requests and questions by ids, as a workflow's verbs use them."""

import asyncio
import getpass
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from crawler_lifecycle.assembly.control import Control
from crawler_lifecycle.base.names import ROOT
from crawler_lifecycle.errors import NotFound
from crawler_lifecycle.flows.authors.open_client import refuse_push
from crawler_lifecycle.flows.commands.flow_commands import FlowCommands
from crawler_lifecycle.flows.model.definition import FlowDefinition
from crawler_lifecycle.flows.model.records import FlowAnswer, FlowStatus, MemberRecord, Why
from crawler_lifecycle.flows.model.requests import (
    AppendMembers,
    ApproveMember,
    ChangeFlow,
    FlowRequest,
    GraftMembers,
    HoldFlow,
    PushFlow,
)
from crawler_lifecycle.flows.ports.records import AttemptRecord
from crawler_lifecycle.model.flow_states import FlowState
from crawler_lifecycle.model.requests import refusals_as_bad_input

T = TypeVar("T")
AnyRequest = TypeVar("AnyRequest", bound=FlowRequest)

logger = logging.getLogger(__name__)


class LedgerClient:
    """A client on an installation. All questions are answered by the database, also without Temporal."""

    def __init__(self, control: Control, *, actor: str | None = None) -> None:
        self.control = control
        self.actor = actor or _user_name()
        self.loop = asyncio.get_running_loop()

    async def push_definition(self, definition: FlowDefinition) -> str:
        refuse_push()
        request = self._by_actor(PushFlow(definition=definition))
        return self._checked(await self._flows.push(request)).flow_id

    async def append(self, flow: str, request: AppendMembers) -> int:
        refuse_push()
        return self._checked(await self._flows.append(flow, self._by_actor(request))).count

    async def graft(self, flow_uid: str, request: GraftMembers) -> None:
        await self._flows.graft(flow_uid, self._by_actor(request))

    async def change(self, flow: str, request: ChangeFlow) -> int:
        return self._checked(await self._flows.change(flow, self._by_actor(request))).count

    async def approve(self, flow: str, name: str, *, approved: bool = True, note: str | None = None) -> None:
        """Approve or reject an approval, also before the flow reaches the approval. `name` is the approval's path."""
        with refusals_as_bad_input():
            request = ApproveMember(path=name, approved=approved, note=note)
        await self.change(flow, request)

    async def pause(self, flow: str) -> None:
        """Start no further jobs until the flow is resumed."""
        await self.change(flow, HoldFlow(hold="pause"))

    async def resume(self, flow: str) -> None:
        """Resume a paused or draining flow."""
        await self.change(flow, HoldFlow(hold="run"))

    async def drain(self, flow: str) -> None:
        """Start no further jobs. When the running jobs have ended, all open jobs are cancelled."""
        await self.change(flow, HoldFlow(hold="drain"))

    async def why(self, flow: str, name: str = ROOT) -> Why | None:
        """Return why a flow or job is in its state, down to the blocking jobs and runs; None without such a job.

        `name` is a job's or sub-workflow's path; default: the whole flow, by its nearest causes.
        """
        return await self._read(lambda flows: flows.why(flow, name), None)

    async def attempts(self, flow: str, name: str) -> list[AttemptRecord]:
        """Return a job's attempts, oldest first, with steps' errors and crawls' runs.

        The list is empty without such a job. `name` is the job's path.
        """
        return await self._read(lambda flows: list(flows.attempts(flow, name)), [])

    async def status(self, flow: str, path: str = ROOT) -> FlowStatus:
        unknown = FlowStatus(id=flow, state=FlowState.UNKNOWN)
        return await self._read(lambda flows: flows.status(flow, path), unknown)

    async def jobs(self, flow: str, paths: Sequence[str] | None = None) -> Sequence[MemberRecord]:
        return await self._read(lambda flows: flows.members(flow, paths), ())

    async def dependencies(self, flow: str, path: str) -> Sequence[str]:
        return await self._read(lambda flows: flows.dependencies(flow, path), ())

    async def results(self, flow: str, paths: Sequence[str] | None = None) -> Mapping[str, Any]:
        return await self._read(lambda flows: flows.results(flow, paths), {})

    async def context(self, flow: str, path: str = ROOT) -> Mapping[str, Any] | None:
        return await self._read(lambda flows: flows.context(flow, path), None)

    async def close(self) -> None:
        """Close the connections to the database."""
        await asyncio.to_thread(self.control.context.close)

    async def _read(self, question: Callable[[FlowCommands], T], without_flow: T) -> T:
        """Return the database's answer. Without such a flow, return `without_flow`."""
        try:
            return await self.control.context.database(lambda _: question(self._flows))
        except NotFound:
            return without_flow

    @property
    def _flows(self) -> FlowCommands:
        return self.control.flows

    def _by_actor(self, request: AnyRequest) -> AnyRequest:
        return request.model_copy(update={"actor": request.actor or self.actor})

    def _checked(self, answer: FlowAnswer) -> FlowAnswer:
        """Log a warning if the request is stored and has no effect yet."""
        if not answer.nudged:
            logger.warning(
                "flow %s: the request is recorded and takes effect later: %s", answer.flow_id, answer.problem
            )
        return answer


def _user_name() -> str | None:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may have a user without a name
        return None
