"""The stream with the changes in runs."""

from collections.abc import Iterator
from dataclasses import dataclass

from crawler_lifecycle.model.deployment import Problem
from crawler_lifecycle.model.notices import Notice
from crawler_lifecycle.model.records import RunSummary
from crawler_lifecycle.transport.connection import HttpConnection
from crawler_lifecycle.transport.streams import followed


@dataclass(frozen=True, slots=True)
class Change:
    """An event in the stream.

    `kind`: `ready` (the stream has begun), `reset` (read the state anew), `run`, `notice` or `problem` (the database
    does not answer). A later stream continues after the event with `id`.
    """

    kind: str
    id: str | None
    run: RunSummary | None = None
    notice: Notice | None = None
    problem: Problem | None = None


def follow_changes(
    connection: HttpConnection, run: int | str | None = None, *, flows: bool = False, last_id: str | None = None
) -> Iterator[Change]:
    """Yield every change in the runs, or in a single run, without an end. Unknown events are left out."""
    params = ({} if run is None else {"run": str(run)}) | ({"flows": "true"} if flows else {})
    for event in followed(connection, "/v1/changes", params, last_id):
        match event.kind:
            case "run":
                yield Change(event.kind, event.id, run=connection.model(RunSummary, event.data))
            case "notice":
                yield Change(event.kind, event.id, notice=connection.model(Notice, event.data))
            case "problem":
                yield Change(event.kind, event.id, problem=connection.model(Problem, event.data))
            case "ready" | "reset":
                yield Change(event.kind, event.id)
