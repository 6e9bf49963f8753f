"""The commands for limits, which all doors call as `Control.limits`: show, change, pause and resume.

The module does not import Temporal's client: limits are rows in the database.
"""

import asyncio
from collections.abc import Sequence

from crawler_lifecycle.base.names import did_you_mean
from crawler_lifecycle.base.words import counted, utc_text
from crawler_lifecycle.context import ControlContext
from crawler_lifecycle.errors import BadInput, NotReady, TemporaryError
from crawler_lifecycle.limits.ports import LimitStore
from crawler_lifecycle.model.limits import (
    CRAWLER,
    LABEL,
    LEAST_TASKS,
    ChosenScope,
    LimitChange,
    LimitRecord,
    PauseRequest,
    ScopeName,
    in_words,
)

# To start, a run needs a place for itself and up to two places for tasks: a main task and a child task. A scope may
# keep as many places for the first run in the line, while another scope holds the run. So a scope with room for two
# runs has no cause to hold a run.
ROOM_IN_RUNS = 2
ROOM_IN_TASKS = 2 * LEAST_TASKS
ACCEPT = "`allow_unknown` (crawlctl: --allow-unknown)"
DISPATCHER_PATIENCE = 6.0  # seconds; a dispatcher that works makes a pass meanwhile, also after failures


class LimitCommands:
    """Commands that change limits return all limits after the change.

    A command reads its request's scope first, to refuse a bad request before the database is opened, since opening
    may be slow.
    """

    def __init__(self, context: ControlContext[LimitStore]) -> None:
        self._context = context

    def all(self, also: str | None = None) -> Sequence[LimitRecord]:
        """Return the limits and pauses of all scopes with the present use. The installation comes first.

        `also`: a scope that is returned even without limits.
        """
        return self._context.store.limits.all(also)

    def change(self, request: LimitChange) -> Sequence[LimitRecord]:
        """Write the values that the request names. BadInput for a request without a value, or for an unknown name."""
        scope, values = request.scope, request.values
        self._refuse_unknown(request)
        self._context.store.limits.change(scope, values, self._context.requester.name)
        return self.all()

    def pause(self, request: PauseRequest) -> Sequence[LimitRecord]:
        """Pause the scope: new runs are accepted and wait, and running work continues. BadInput for an unknown name."""
        scope = request.scope
        self._refuse_unknown(request)
        self._context.store.limits.pause(scope, request.reason, self._context.requester.name)
        return self.all()

    def resume(self, request: ScopeName) -> Sequence[LimitRecord]:
        """End the scope's pause. NotFound if the scope is not paused."""
        scope = request.scope
        self._context.store.limits.resume(scope, self._context.requester.name)
        return self.all()

    def _refuse_unknown(self, request: ChosenScope) -> None:
        """Raise BadInput for a crawler or label that neither a run nor a limit nor the catalogue has.

        The database is asked first, so that known names can be limited and paused without the scheduler service.
        """
        limits = self._context.store.limits
        if request.allow_unknown or limits.is_known(request.scope):
            return
        kind, field = (CRAWLER, "crawler") if request.crawler is not None else (LABEL, "label")
        name = request.scope.removeprefix(kind)
        doubt = f"no run or limit has the {field} {name!r}"
        try:
            catalogue = self._names_in_catalogue(kind)
        except TemporaryError as error:
            raise TemporaryError(
                f"{doubt}, and the catalogue cannot be asked: {error.message} ({ACCEPT} skips the check)"
            ) from error
        if name not in catalogue:
            hint = did_you_mean(name, sorted(limits.known_names(kind) | catalogue)) or ";"
            raise BadInput(
                field, f"{doubt}, nor does the catalogue{hint} {ACCEPT} accepts the name before its first run"
            )

    def _names_in_catalogue(self, kind: str) -> set[str]:
        deployer = self._context.parts.deployer
        return set(deployer.crawler_names() if kind == CRAWLER else deployer.labels())

    async def check(self) -> str:
        """Return one line about pauses and the queued runs. NotReady if no dispatcher admits runs."""
        records = await self._context.calls.run(self.all)
        if scopes_with_room(records):
            await asyncio.sleep(DISPATCHER_PATIENCE)
            records = await self._context.calls.run(self.all)
        if idle := scopes_with_room(records):
            held = counted(sum(record.runs_held for record in idle), "run")
            scopes = ", ".join(in_words(record.scope) for record in idle)
            raise NotReady(
                f"{held} queued for {scopes}, which has room: no dispatcher admits runs, start `python -m "
                "workers.dispatcher`, or read its log"
            )
        in_line = counted(sum(record.runs_held for record in records), "run")
        return "; ".join([*pauses(records), f"{in_line} queued for a permit"])


def scopes_with_room(records: Sequence[LimitRecord]) -> list[LimitRecord]:
    """Return the scopes that hold runs without a cause: their limits have room, and nobody has paused the scopes."""
    return [record for record in records if record.runs_held and not record.paused_at and _has_room(record)]


def _has_room(record: LimitRecord) -> bool:
    tasks = record.tasks_in_cluster + record.places_kept
    has_room_for_runs = record.runs is None or record.runs_begun + ROOM_IN_RUNS <= record.runs
    return has_room_for_runs and (record.tasks is None or tasks + ROOM_IN_TASKS <= record.tasks)


def pauses(records: Sequence[LimitRecord]) -> list[str]:
    """Return a line for each pause, such as `label site:example.com is paused since TIME by ann: rebuilt`."""
    return [
        f"{in_words(record.scope)} is paused since {utc_text(record.paused_at)}"
        f" by {record.paused_by or 'an unnamed caller'}: {record.paused_reason}"
        for record in records
        if record.paused_at
    ]
