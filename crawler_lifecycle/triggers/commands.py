"""Carries out the mapping's request for an event, once for the event's key."""

from collections.abc import Sequence
from typing import Protocol

from crawler_lifecycle.base.requesters import Requester, of_token
from crawler_lifecycle.context import ControlContext
from crawler_lifecycle.errors import BadInput, NotFound, Over, PermanentError
from crawler_lifecycle.flows.commands.flow_commands import FlowCommands
from crawler_lifecycle.flows.model.definition import FlowDefinition
from crawler_lifecycle.flows.model.requests import PushFlow, StartManager
from crawler_lifecycle.http.state import DOOR, ForCallers
from crawler_lifecycle.model.requests import StopRequest
from crawler_lifecycle.runs.commands.runs import RunCommands
from crawler_lifecycle.runs.http.commands import run_request
from crawler_lifecycle.runs.http.messages import StartRequest
from crawler_lifecycle.triggers.model import Act, Event, EventAnswer, TriggerRule
from crawler_lifecycle.triggers.requests import StopRunRequest, request_of
from crawler_lifecycle.triggers.rules import rule_for


class HasRunsAndFlows(ForCallers, Protocol):
    """Commands for the rules' requests."""

    runs: RunCommands
    flows: FlowCommands

    @property
    def context(self) -> ControlContext[object]: ...


async def apply(control: HasRunsAndFlows, token: str, rules: Sequence[TriggerRule], event: Event) -> EventAnswer:
    """Carry out the request of the first fitting rule. `token`: name of the caller's token, for the record.

    BadInput if a repetition of the event cannot succeed: no rule fits, or the request is refused.
    """
    key = f"event:{event.key}"
    # before the rules: they may have changed since the event started its run
    if earlier := await control.runs.started_by(key):
        return EventAnswer(act=Act.START_RUN, rule=None, created=False, run_id=earlier.run_id, run_uid=earlier.run_uid)
    rule = rule_for(event, rules)
    requester = of_token(token, f"rule {rule.name}", DOOR)
    try:
        match request_of(rule, event):
            case StartRequest() as body:
                request = run_request(body.model_copy(update={"requested_by": requester.claimed}), token)
                started = await control.runs.start(request, key)
                return EventAnswer(
                    act=rule.act,
                    rule=rule.name,
                    created=started.created,
                    run_id=started.run_id,
                    run_uid=started.run_uid,
                )
            case StopRunRequest() as stop:
                return await _stop(control, rule, stop, requester)
            case StartManager() as body:
                definition = await control.flows.definition_of_manager(body.manager, body.family, body.arguments)
                return await _push(control, rule, definition, requester)
            case FlowDefinition() as definition:
                return await _push(control, rule, definition, requester)
    except BadInput:
        raise
    except PermanentError as error:
        raise BadInput(f"rules.{rule.name}", error.message) from error


async def _stop(control: HasRunsAndFlows, rule: TriggerRule, stop: StopRunRequest, requester: Requester) -> EventAnswer:
    """Stop the run. An earlier delivery of the event may have ended the run already."""
    request = StopRequest(force=stop.force, reason=stop.reason, actor=requester.name, door=DOOR)
    try:
        stopping = await control.runs.stop(stop.run, request)
    except Over:
        run = (await control.context.calls.run(control.runs.overview, stop.run)).run
        return EventAnswer(act=rule.act, rule=rule.name, created=False, run_id=run.run_id, run_uid=run.run_uid)
    return EventAnswer(act=rule.act, rule=rule.name, created=True, run_id=stopping.run_id, run_uid=stopping.run_uid)


async def _push(
    control: HasRunsAndFlows, rule: TriggerRule, definition: FlowDefinition, requester: Requester
) -> EventAnswer:
    """Start the flow, unless its id is taken: people may have changed the flow, and a push would undo their changes."""
    try:
        await control.context.database(lambda _: control.flows.row(definition.id))
    except NotFound:
        request = PushFlow(definition=definition, actor=requester.name, door=DOOR)
        answer = await control.flows.push(request)
        return EventAnswer(act=rule.act, rule=rule.name, created=answer.created, flow_id=answer.flow_id)
    return EventAnswer(act=rule.act, rule=rule.name, created=False, flow_id=definition.id)
