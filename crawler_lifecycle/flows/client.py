"""Flows over the HTTP API: lists, jobs, explanations, changes and commands."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from typing_extensions import TypedDict, Unpack

from crawler_lifecycle.flows.authors.open_client import refuse_push
from crawler_lifecycle.flows.model.definition import FlowDefinition
from crawler_lifecycle.flows.model.manager_records import ItemAttempt, ItemRecord, ManagerStatus, OutputLine
from crawler_lifecycle.flows.model.records import FlowAnswer, FlowChange, FlowStatus, FlowSummary, MemberRecord, Why
from crawler_lifecycle.flows.model.requests import (
    ALL_ITEMS,
    AppendMembers,
    CancelItems,
    ChangeFlow,
    ItemFilter,
    PushFlow,
    RetryItems,
    RetryMembers,
    StartManager,
    StopFlow,
)
from crawler_lifecycle.flows.ports.records import AttemptRecord, FlowLine
from crawler_lifecycle.model.flow_states import FlowState, MemberState
from crawler_lifecycle.transport.connection import HttpConnection, segment, with_actor
from crawler_lifecycle.transport.streams import AnswerPage, every, followed

MOST_JOBS = 1000  # in a page
MOST_FLOWS = 500  # in a page
MOST_PATHS = 200  # jobs' paths in a request
MOST_NUMBERS = 500  # items' numbers in a request


class _FlowPage(TypedDict):
    flows: list[FlowSummary]
    next: str | None


class FlowOverview(TypedDict):
    """A flow with its sub-workflows, its timeline and its crawl managers, without its jobs."""

    flow: FlowSummary
    status: FlowStatus
    timeline: list[FlowLine]
    managers: list[ManagerStatus]


class _JobPage(TypedDict):
    jobs: list[MemberRecord]
    next: int | None


class _Managers(TypedDict):
    managers: list[ManagerStatus]


class _ItemPage(TypedDict):
    items: list[ItemRecord]
    next: int | None


class _ItemAttempts(TypedDict):
    attempts: list[ItemAttempt]


class _OutputLines(TypedDict):
    lines: list[OutputLine]


class _Attempts(TypedDict):
    attempts: list[AttemptRecord]


class _Results(TypedDict):
    results: dict[str, Any]


class _Picture(TypedDict):
    graph: str


class FlowFilters(TypedDict, total=False):
    """Filters for flows. `search`: text in id or name. `attention`: only flows counted by `Api.attention`.

    `before`: only flows older than the flow with the id.
    """

    state: FlowState | Sequence[FlowState] | None
    before: str | None
    family: str | None
    search: str | None
    attention: bool


class ApiFlows:
    """Callers name a flow by its id. NotFound without such a flow. A job is named by its path."""

    def __init__(self, connection: HttpConnection) -> None:
        self._connection = connection

    def page(
        self, *, limit: int = 50, cursor: str | None = None, **filters: Unpack[FlowFilters]
    ) -> AnswerPage[FlowSummary, str]:
        """Return a page with flows, newest first."""
        attention = "true" if filters.pop("attention", False) else None
        query = {**filters, "attention": attention, "limit": limit, "cursor": cursor}
        page = self._connection.read(_FlowPage, "/v1/flows", **query)
        return AnswerPage(page["flows"], page["next"])

    def all(self, *, page_size: int = MOST_FLOWS, **filters: Unpack[FlowFilters]) -> Iterator[FlowSummary]:
        """Yield all chosen flows, newest first, page after page."""
        limit = min(page_size, MOST_FLOWS)
        return every(lambda cursor: self.page(limit=limit, cursor=cursor, **filters))

    def show(self, flow: str) -> FlowOverview:
        return self._connection.read(FlowOverview, _path(flow))

    def jobs(
        self,
        flow: str,
        job: str | Iterable[str] | None = None,
        *,
        state: MemberState | Sequence[MemberState] | None = None,
    ) -> Iterator[MemberRecord]:
        """Yield the jobs in their order. `job`: only jobs with these paths, and all jobs in these sub-workflows.

        More than MOST_PATHS paths are several reads: a job is yielded once.
        """
        path, seen = f"{_path(flow)}/jobs", set[int]()
        for part in _parts(job):
            for member in self._jobs(path, part, state):
                if member.number not in seen:
                    seen.add(member.number)
                    yield member

    def _jobs(
        self, path: str, job: Sequence[str] | None, state: MemberState | Sequence[MemberState] | None
    ) -> Iterator[MemberRecord]:

        def page(first: int | None) -> AnswerPage[MemberRecord, int]:
            answer = self._connection.read(_JobPage, path, job=job, state=state, first=first or 0, limit=MOST_JOBS)
            return AnswerPage(answer["jobs"], answer["next"])

        return every(page)

    def managers(self, flow: str) -> Sequence[ManagerStatus]:
        """Return the flow's crawl managers with their numbers; an empty list for a flow without a manager."""
        return self._connection.read(_Managers, f"{_path(flow)}/managers")["managers"]

    def items(
        self, flow: str, chosen: ItemFilter = ALL_ITEMS, *, after: int = 0, page_size: int = MOST_JOBS
    ) -> Iterator[ItemRecord]:
        """Yield a crawl manager's chosen items after a number."""
        if chosen.numbers is not None and len(chosen.numbers) > MOST_NUMBERS:
            numbers = sorted(set(chosen.numbers))
            for start in range(0, len(numbers), MOST_NUMBERS):
                part = chosen.model_copy(update={"numbers": tuple(numbers[start : start + MOST_NUMBERS])})
                yield from self.items(flow, part, after=after, page_size=page_size)
            return
        path, limit = f"{_path(flow)}/items", min(page_size, MOST_JOBS)
        filters = {
            "manager": chosen.manager,
            "state": chosen.states,
            "outcome": chosen.outcome,
            "tag": chosen.tag,
            "number": chosen.numbers,
        }

        def page(place: int | None) -> AnswerPage[ItemRecord, int]:
            answer = self._connection.read(
                _ItemPage, path, after=after if place is None else place, limit=limit, **filters
            )
            return AnswerPage(answer["items"], answer["next"])

        yield from every(page)

    def why_item(self, flow: str, number: int, manager: str | None = None) -> Why:
        """Return why a crawl manager's item is in its state."""
        return self._connection.read(Why, f"{_path(flow)}/why-item", item=number, manager=manager)

    def item_attempts(self, flow: str, number: int, manager: str | None = None) -> Sequence[ItemAttempt]:
        """Return an item's attempts, the oldest first."""
        path = f"{_path(flow)}/item-attempts"
        return self._connection.read(_ItemAttempts, path, item=number, manager=manager)["attempts"]

    def output(self, flow: str, manager: str | None = None) -> Sequence[OutputLine]:
        """Return the last lines by a crawl manager's object."""
        return self._connection.read(_OutputLines, f"{_path(flow)}/manager-log", manager=manager)["lines"]

    def attempts(self, flow: str, job: str) -> Sequence[AttemptRecord]:
        """Return the job's attempts, oldest first."""
        return self._connection.read(_Attempts, f"{_path(flow)}/attempts", job=job)["attempts"]

    def results(self, flow: str, job: str | Iterable[str] | None = None) -> Mapping[str, Any]:
        """Return recorded results by path, nested for sub-workflows. The token needs the scope `results`."""
        merged = dict[str, Any]()
        for part in _parts(job):
            _merge(merged, self._connection.read(_Results, f"{_path(flow)}/results", job=part)["results"])
        return merged

    def why(self, flow: str, job: str | None = None) -> Why:
        """Return why the flow, or the job or sub-workflow with the path, is in its state."""
        return self._connection.read(Why, f"{_path(flow)}/why", job=job)

    def graph(self, flow: str, kind: str = "mermaid", *, states: bool = True) -> str:
        """Return the flow as a picture for Mermaid or Graphviz."""
        params = {"format": kind, "states": str(states).lower()}
        return self._connection.read(_Picture, f"{_path(flow)}/graph", **params)["graph"]

    def follow(self, flow: str) -> Iterator[FlowChange]:
        """Yield the flow's state at every change, until the flow has ended."""
        for event in followed(self._connection, f"{_path(flow)}/changes"):
            if event.kind != "flow":
                continue
            change = self._connection.model(FlowChange, event.data)
            yield change
            if change.is_over:
                return

    def push(self, request: PushFlow) -> FlowAnswer:
        """Store a flow, or update the flow with its id."""
        refuse_push()
        body = request.definition.model_dump(mode="json")
        path = with_actor("/v1/flows", request.actor)
        return self._connection.command(FlowAnswer, "POST", path, body, repeatable=True)

    def append(self, flow: str, request: AppendMembers) -> FlowAnswer:
        """Add jobs to an open flow, once for the key."""
        refuse_push()
        body = request.model_dump(mode="json", exclude={"door", "fragment"})
        body["fragment"] = request.fragment.model_dump(mode="json")
        return self._send(flow, "append", body)

    def change(self, flow: str, request: ChangeFlow | StopFlow | RetryItems | CancelItems) -> FlowAnswer:
        """Send a request about the flow, its jobs or its managers' items."""
        body = request.model_dump(mode="json", by_alias=True, exclude={"door"}, exclude_defaults=True)
        is_repeatable = not isinstance(request, RetryMembers | RetryItems)
        return self._send(flow, request.verb, body, repeatable=is_repeatable)

    def add_items(
        self,
        flow: str,
        key: str,
        items: Sequence[Mapping[str, Any]],
        *,
        manager: str | None = None,
        actor: str | None = None,
    ) -> FlowAnswer:
        """Add items to a crawl manager, once for the key. An item has parameters as a generator yields them."""
        body = {"key": key, "items": [dict(item) for item in items], "manager": manager, "actor": actor}
        return self._send(flow, "items", body)

    def start_manager(self, request: StartManager) -> FlowAnswer:
        """Start a crawl manager by its name in the catalogue, once in its family."""
        body, has_family = request.model_dump(mode="json", exclude={"door"}), request.family is not None
        return self._connection.command(FlowAnswer, "POST", "/v1/flows/managers", body, repeatable=has_family)

    def manager_definition(self, request: StartManager) -> FlowDefinition:
        """Return the catalogue manager's flow as a start would store the flow."""
        body = request.model_dump(mode="json", exclude={"door", "actor"})
        path = "/v1/flows/managers/definition"
        return self._connection.command(FlowDefinition, "POST", path, body, repeatable=True)

    def _send(self, flow: str, verb: str, body: Mapping[str, Any], *, repeatable: bool = True) -> FlowAnswer:
        return self._connection.command(FlowAnswer, "POST", f"{_path(flow)}/{verb}", body, repeatable=repeatable)


def _parts(paths: str | Iterable[str] | None) -> Iterator[Sequence[str] | None]:
    """Yield the paths in parts small enough for an address; None for all jobs."""
    if paths is None:
        yield None
        return
    chosen = [paths] if isinstance(paths, str) else list(paths)
    for start in range(0, len(chosen), MOST_PATHS):
        yield chosen[start : start + MOST_PATHS]


def _merge(into: dict[str, Any], results: Mapping[str, Any]) -> None:
    """Add the results, also to sub-workflows with results already."""
    for name, value in results.items():
        if isinstance(value, dict) and isinstance(into.get(name), dict):
            _merge(into[name], value)
        else:
            into[name] = value


def _path(flow: str) -> str:
    return f"/v1/flows/{segment(flow)}"
