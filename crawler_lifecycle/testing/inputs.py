"""Inputs: a flow in memory as the host's reads for a step's context, and a step as a host claims steps."""

import json
from collections.abc import Collection, Mapping

from pydantic import JsonValue

from crawler_lifecycle.domain.flows import contexts
from crawler_lifecycle.domain.flows.contexts import Source
from crawler_lifecycle.ports import StepInputs
from crawler_lifecycle.testing.memory import MemoryFlow


class MemoryInputs:
    """The reads that a host's contexts need."""

    def __init__(self, flow: MemoryFlow) -> None:
        self._flow = flow

    def inputs(self, flow_uid: str, number: int) -> StepInputs:  # noqa: ARG002 - there is one flow
        ledger = self._flow.ledger
        row = ledger.members[number]
        context = contexts.merged_context(self._flow.group_contexts, ledger, row.group)
        return StepInputs(context, contexts.sources(ledger, row))

    def results(self, flow_uid: str, numbers: Collection[int]) -> Mapping[int, JsonValue]:  # noqa: ARG002 - the same
        texts = {number: self._flow.result_text(number) for number in numbers}
        return {number: None if text is None else json.loads(text) for number, text in texts.items()}

    def source(self, flow_uid: str, path: str) -> Source | None:  # noqa: ARG002 - the same
        ledger = self._flow.ledger
        groups, members = ledger.paths_of_groups(), ledger.paths_of_members()
        return contexts.results_of_group(ledger, groups[path]) if path in groups else members.get(path)
