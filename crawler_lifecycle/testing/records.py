"""Serve the ports for doors and readers from flows in memory, so that the service's own client works on them."""

import json
from collections.abc import Callable, Collection, Mapping
from datetime import datetime

from pydantic import JsonValue

from crawler_lifecycle.errors import NotFound
from crawler_lifecycle.flows.model.definition import FlowDefinition
from crawler_lifecycle.flows.model.records import FlowAnswer
from crawler_lifecycle.flows.model.requests import AppendMembers, ChangeFlow, GraftMembers, PushFlow
from crawler_lifecycle.flows.ports.records import AttemptRecord, FlowLine, FlowNews, FlowRecord, KeptFlow, Part
from crawler_lifecycle.flows.rules.rows import FlowRow
from crawler_lifecycle.flows.rules.summary import Tallies, tallies_of
from crawler_lifecycle.model.flow_states import FlowState
from crawler_lifecycle.testing.memory import MemoryFlow

Make = Callable[[FlowDefinition], MemoryFlow]


class MemoryLedger:
    """Flows by id, in the order of their pushes. The ports are FlowDoors and FlowRecords."""

    def __init__(self, make: Make = MemoryFlow) -> None:
        self.flows: dict[str, MemoryFlow] = {}
        self._make = make

    def flow(self, flow: str) -> MemoryFlow:
        """Return the flow with the id or uid."""
        for known in self.flows.values():
            if flow in (known.id, known.uid):
                return known
        raise NotFound(f"there is no flow {flow!r}")

    # doors

    def push(self, request: PushFlow) -> FlowAnswer:
        definition = request.definition
        known = self.flows.get(definition.id)
        if known is not None:
            merged = known.push_definition(definition)
            return _answer(known, len(merged.members), changed=not merged.is_empty)
        flow = self.flows[definition.id] = self._make(definition)
        return _answer(flow, len(definition.members), created=True)

    def append(self, flow: str, request: AppendMembers) -> FlowAnswer:
        merged = self.flow(flow).append(request)
        return _answer(self.flow(flow), len(merged.members), changed=not merged.is_empty)

    def graft(self, flow_uid: str, request: GraftMembers) -> FlowAnswer:
        merged = self.flow(flow_uid).graft(request)
        return _answer(self.flow(flow_uid), len(merged.members))

    def change(self, flow: str, request: ChangeFlow) -> FlowAnswer:
        return _answer(self.flow(flow), self.flow(flow).apply_request(request))

    def prune(self, flow_uids: Collection[str], ended_before: datetime | None = None) -> int:
        assert ended_before is None, "a flow in memory has no time of its end"
        ended = [known for known in self.flows.values() if known.uid in flow_uids and known.status.state.is_final]
        for known in ended:
            del self.flows[known.id]
        return len(ended)

    # records

    def uid_of(self, flow: str) -> str:
        return self.flow(flow).uid

    def page(
        self,
        *,
        limit: int,
        before: str | None = None,
        states: Collection[FlowState] | None = None,
        ids: Collection[str] | None = None,
        family: str | None = None,
        search: str | None = None,
        down_to: str | None = None,
        in_need: bool = False,
    ) -> list[FlowRecord]:
        if in_need:
            raise NotImplementedError("flows in memory have no attention")
        newest = list(reversed(self.flows.values()))
        uids = [known.uid for known in newest]
        first = 0 if before is None else uids.index(before) + 1
        last = len(uids) if down_to is None else uids.index(down_to) + 1
        records = [_record(known) for known in newest[first:last]]
        return [
            record
            for record in records
            if (states is None or record.state in states)
            and (ids is None or record.id in ids)
            and family in (None, record.family)
            and (search or "").lower() in f"{record.id}\0{record.name}".lower()
        ][:limit]

    def row(self, flow: str) -> tuple[str, FlowRow]:
        known = self.flow(flow)
        return known.uid, known.ledger.flow

    def kept(self, flow: str, part: Part | None = None, *, defined: bool = True) -> KeptFlow:
        del part, defined  # a whole flow has every part
        known = self.flow(flow)
        return KeptFlow(
            uid=known.uid,
            ledger=known.ledger,
            created_at=known.created_at,
            updated_at=known.updated_at,
            context=known.group_contexts[0] if known.has_context else None,
            definitions=known.definitions,
            groups=known.group_definitions,
            last_runs=known.run_ids,
        )

    def results(self, flow: str, numbers: Collection[int]) -> Mapping[int, JsonValue]:
        texts = self.flow(flow).result_texts()
        return {number: json.loads(texts[number]) for number in numbers if number in texts}

    def tallies(self, flow: str) -> Tallies:
        return tallies_of(self.flow(flow).ledger)

    def numbers(self, flow: str, paths: Collection[str]) -> Mapping[str, int]:
        known = self.flow(flow).ledger.paths_of_members()
        return {path: known[path] for path in paths if path in known}

    def news(self, flow: str, since: datetime | None) -> FlowNews:
        raise NotFound(f"a flow in memory has no followers: {flow}, {since}")

    def attempts(self, flow: str, number: int) -> list[AttemptRecord]:
        raise NotFound(f"a flow in memory keeps no records of attempts: {flow}, {number}")

    def lines(self, flow: str, *, after: int, limit: int) -> list[FlowLine]:
        raise NotFound(f"a flow in memory keeps no timeline: {flow}, {after}, {limit}")

    def unsupervised(self, silent_since: datetime) -> list[tuple[str, str]]:
        del silent_since
        return []


def _answer(flow: MemoryFlow, count: int, *, created: bool = False, changed: bool = True) -> FlowAnswer:
    return FlowAnswer(flow_id=flow.id, flow_uid=flow.uid, count=count, created=created, changed=changed)


def _record(flow: MemoryFlow) -> FlowRecord:
    status = flow.status
    return FlowRecord(
        uid=flow.uid,
        id=flow.id,
        name=flow.ledger.flow.name,
        family=flow.family,
        state=status.state,
        intent=flow.ledger.flow.intent,
        counts=status.counts,
        created_at=flow.created_at,
        updated_at=flow.updated_at,
        started_at=status.started_at,
        stopped_at=status.stopped_at,
        created_by=None,
    )
