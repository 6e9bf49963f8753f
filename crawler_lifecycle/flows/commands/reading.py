"""`FlowReader` reads flows from the database, without Temporal and without a worker.

The module does not import Temporal's client: a command that only reads starts in half the time.
"""

import io
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from crawler_lifecycle.base.names import ROOT
from crawler_lifecycle.context import ControlContext
from crawler_lifecycle.errors import NotFound
from crawler_lifecycle.flows import Workflow, generate_dot
from crawler_lifecycle.flows.authors.restoring import OnRecord, restored
from crawler_lifecycle.flows.commands.members import (
    MOST_ITEMS,
    explained_at,
    items_with_runs,
    known_paths,
    member_records,
    part_needed,
    summary_of,
    with_managers,
    with_problems,
    with_run_of_item,
    with_runs,
    without_supervisor,
)
from crawler_lifecycle.flows.model.manager_records import ItemAttempt, ItemRecord, ManagerStatus, OutputLine
from crawler_lifecycle.flows.model.records import FlowStatus, FlowSummary, MemberRecord, Why
from crawler_lifecycle.flows.model.requests import ALL_ITEMS, ItemFilter
from crawler_lifecycle.flows.model.values import decode
from crawler_lifecycle.flows.ports.ledger import FlowStore, FoundItems, ManagerDoors
from crawler_lifecycle.flows.ports.records import AttemptRecord, FlowLine, FlowNews, FlowRecords, KeptFlow, Part
from crawler_lifecycle.flows.rules.contexts import dependencies, merged_context, recorded
from crawler_lifecycle.flows.rules.interventions import no_job, selected
from crawler_lifecycle.flows.rules.managers import explained
from crawler_lifecycle.flows.rules.rows import FlowRow
from crawler_lifecycle.flows.rules.summary import status_of
from crawler_lifecycle.model.flow_states import FlowState, MemberState
from crawler_lifecycle.model.manager_items import ItemState


class PictureFormat(StrEnum):
    MERMAID = "mermaid"
    DOT = "dot"  # for Graphviz, with sub-workflows as clusters
    STATES_DOT = "states-dot"  # for Graphviz, with the states, in the form for users from Chancy


def picture(workflow: Workflow, kind: str, *, states: bool = True) -> str:
    """Return the picture. `states`: with colours in Mermaid."""
    if kind == PictureFormat.MERMAID:
        return workflow.to_mermaid(states=states)
    if kind == PictureFormat.DOT:
        return workflow.to_dot()
    text = io.StringIO()
    generate_dot(workflow, text)
    return text.getvalue()


class FlowReader:
    """Reads flows by their ids. NotFound without such a flow."""

    def __init__(self, context: ControlContext[FlowStore]) -> None:
        self._context = context

    def list(
        self,
        *,
        limit: int = 100,
        before: str | None = None,
        states: Collection[FlowState] | None = None,
        ids: Collection[str] | None = None,
        family: str | None = None,
        search: str | None = None,
        down_to: str | None = None,
        attention: bool = False,
    ) -> Sequence[FlowSummary]:
        """Return flows, newest first; with `before`, only flows older than the flow with this uid.

        `search`: text in ids and names. `down_to`: uid of the oldest flow to read. `attention`: only flows that wait
        for a decision or a host, or ended lately with failed items.
        """
        page = self._records.page(
            limit=limit,
            before=before,
            states=states,
            ids=ids,
            family=family,
            search=search,
            down_to=down_to,
            in_need=attention,
        )
        sums = self._managers.sums([record.uid for record in page]) if page else {}
        return [summary_of(record, sums.get(record.uid)) for record in page]

    def end_of_search(self, before: str | None) -> str | None:
        """Return the uid of the oldest flow that a search reads for a page; None: the search reads all flows."""
        return self._records.end_of_search(before)

    def row(self, flow: str) -> tuple[str, FlowRow]:
        """Return the flow's uid and row alone."""
        return self._records.row(flow)

    def status(self, flow: str, path: str = ROOT) -> FlowStatus:
        """Return the flow's status, or the status of the sub-workflow with the path."""
        whole = status_of(self._records.tallies(flow), datetime.now(UTC))
        for name in path.split("/") if path else ():
            if name not in whole.subs:
                raise NotFound(f"flow {flow!r} has no sub-workflow {path!r}")
            whole = whole.subs[name]
        return whole

    def members(
        self, flow: str, paths: Iterable[str] | None = None, *, states: Collection[MemberState] | None = None
    ) -> Sequence[MemberRecord]:
        """Return the members in their order. NotFound for an unknown path."""
        chosen = None if paths is None else list(paths)
        part = None if states is None else Part(states=states)
        kept = self.kept(flow, part if chosen is None else Part(paths=chosen))
        known = set(known_paths(kept.ledger, chosen or ()))
        for path in chosen or ():
            if path not in known:
                raise self._no_job(flow, path)
        rest = None if part is None and chosen is None else part_needed(kept.ledger)
        needed = None if rest is None else self._records.kept(flow, rest, defined=False).ledger
        return member_records(kept, chosen, states, needed)

    def dependencies(self, flow: str, path: str) -> Sequence[str]:
        """Return the paths of the jobs and sub-workflows in a job's context. NotFound for an unknown path."""
        ledger = self._records.kept(flow, defined=False).ledger
        number = ledger.paths_of_members().get(path)
        if number is None:
            raise no_job(ledger, path)
        return dependencies(ledger, ledger.members[number])

    def workflow(self, flow: str) -> Workflow:
        """Return the flow as its author's workflow, with the states of its jobs."""
        kept = self.kept(flow)
        return restored(
            OnRecord(
                kept.uid,
                kept.ledger,
                kept.definitions,
                kept.groups,
                kept.context,
                kept.created_at,
                kept.updated_at,
            )
        )

    def context(self, flow: str, path: str = ROOT) -> Mapping[str, Any] | None:
        """Return the context that the members of a level see; None if none was given."""
        kept = self.kept(flow, Part())
        groups = kept.ledger.paths_of_groups()
        if path not in groups:
            raise NotFound(f"flow {flow!r} has no sub-workflow {path!r}")
        contexts = {number: group.context for number, group in kept.groups.items()} | {0: kept.context or {}}
        merged = merged_context(contexts, kept.ledger, groups[path])
        is_given = kept.context is not None or bool(merged)
        return {key: decode(value) for key, value in merged.items()} if is_given else None

    def results(self, flow: str, paths: Iterable[str] | None = None) -> Mapping[str, Any]:
        """Return the recorded results by path, nested for sub-workflows. Unknown paths are left out."""
        wanted = None if paths is None else list(paths)
        part = Part(states=[MemberState.COMPLETED]) if wanted is None else Part(paths=wanted)
        kept = self._records.kept(flow, part, defined=False)
        chosen = None if wanted is None else known_paths(kept.ledger, wanted)
        rows = selected(kept.ledger, chosen)
        numbers = [row.number for row in rows if row.state is MemberState.COMPLETED]
        encoded = self._records.results(flow, numbers) if numbers else {}
        return recorded(kept.ledger, {number: decode(value) for number, value in encoded.items()}, chosen)

    def why(self, flow: str, path: str = ROOT) -> Why:
        """Return why the flow, sub-workflow or member is in its state, down to runs and managers."""
        kept = self._records.kept(flow, defined=False)
        managers = {manager.path: manager for manager in self.managers(flow)}

        def continued(explanation: Why) -> Why:
            explanation = with_runs(with_problems(explanation, kept), kept, self._context.store.records)
            return with_managers(explanation, managers, kept.ledger.flow.intent, self._jobs_under_way(flow))

        explanation = explained_at(kept.ledger, path, datetime.now(UTC))
        if not kept.has_supervisor:
            explanation = without_supervisor(explanation)
        if path != ROOT:
            return continued(explanation)
        # the flow's id may be the name of a job: only the members below are continued
        return explanation.model_copy(update={"because": tuple(map(continued, explanation.because))})

    def managers(self, flow: str) -> Sequence[ManagerStatus]:
        """Return the flow's crawl managers with their numbers; an empty list for a flow without a manager."""
        return self._managers.statuses(flow)

    def search_items(self, flow: str, chosen: ItemFilter = ALL_ITEMS, *, after: int = 0, limit: int) -> FoundItems:
        """Return a page with a crawl manager's items, by number. The page may be short although more items fit."""
        return self._managers.search_items(flow, chosen, after=after, limit=limit)

    def items(self, flow: str, chosen: ItemFilter = ALL_ITEMS, *, after: int = 0, limit: int) -> Sequence[ItemRecord]:
        """Return a crawl manager's first items after a number, up to the limit."""
        return self._managers.items(flow, chosen, after=after, limit=limit)

    def why_item(self, flow: str, number: int, manager: str | None = None) -> Why:
        """Return why a crawl manager's item is in its state, down to its run."""
        item = next(iter(self.items(flow, ItemFilter(manager=manager, numbers=(number,)), limit=1)), None)
        if item is None:
            raise NotFound(f"flow {flow!r} has no item {number}")
        present = [status for status in self.managers(flow) if manager in (None, status.path)]
        explanation = explained(item, present[0], self.row(flow)[1].intent)
        return with_run_of_item(explanation, item, self._context.store.records)

    def item_attempts(self, flow: str, number: int, manager: str | None = None) -> Sequence[ItemAttempt]:
        """Return the attempts of a crawl manager's item, the first one first."""
        return self._managers.item_attempts(flow, number, manager)

    def output(self, flow: str, manager: str | None = None) -> Sequence[OutputLine]:
        """Return the last lines that a crawl manager's object has printed or logged."""
        return self._managers.output(flow, manager)

    def _jobs_under_way(self, flow: str) -> Callable[[str], Sequence[Why]]:
        """Return a reader of a manager's oldest jobs under way, down to their runs."""

        def read(manager: str) -> Sequence[Why]:
            chosen = ItemFilter(manager=manager, states=(ItemState.RUNNING,))
            return items_with_runs(self.items(flow, chosen, limit=MOST_ITEMS), self._context.store.records)

        return read

    def attempts(self, flow: str, path: str) -> Sequence[AttemptRecord]:
        """Return the member's attempts, the first one first."""
        number = self._records.numbers(flow, [path]).get(path)
        if number is None:
            raise self._no_job(flow, path)
        return self._records.attempts(flow, number)

    def lines(self, flow: str, *, after: int = 0, limit: int = 1000) -> Sequence[FlowLine]:
        """Return the flow's timeline."""
        return self._records.lines(flow, after=after, limit=limit)

    def kept(self, flow: str, part: Part | None = None) -> KeptFlow:
        return self._records.kept(flow, part)

    def news(self, flow: str, since: datetime | None) -> FlowNews:
        """Return the members that have changed since the time, for followers."""
        return self._records.news(flow, since)

    def _no_job(self, flow: str, path: str) -> NotFound:
        """Return the error for an unknown path, with a near path from the whole flow."""
        return no_job(self._records.kept(flow, defined=False).ledger, path)

    @property
    def _managers(self) -> ManagerDoors:
        return self._context.store.manager_doors

    @property
    def _records(self) -> FlowRecords:
        return self._context.store.flow_records
