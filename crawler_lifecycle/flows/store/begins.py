"""Begins and ends for steps' attempts. Hosts insert both, and the supervisor writes the members.

A step that begins for a crawl's task also gets the run in which the task succeeded (`with_items`).
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any, TypeVar

from pydantic import JsonValue
from sqlalchemy import Connection, Row, bindparam, delete, insert, select, update

from crawler_lifecycle.database.flow_schema import attempt_begins, attempt_ends, flow_members, step_leases
from crawler_lifecycle.database.pages import pages
from crawler_lifecycle.database.schema import histories, task_histories
from crawler_lifecycle.database.transactions import transaction
from crawler_lifecycle.errors import Conflict, NotFound, TemporaryError
from crawler_lifecycle.flows.model.definition import CallForm, MemberDefinition, StepWork
from crawler_lifecycle.flows.ports.steps import NO_READS, AttemptKey, BegunStep, StepEnd, StepsBegun
from crawler_lifecycle.flows.rules.ends import AttemptEnd
from crawler_lifecycle.flows.rules.messages import AttemptRef, FlowRef
from crawler_lifecycle.flows.rules.requesting import arguments_of_attempt, task_item, task_of
from crawler_lifecycle.flows.rules.rows import MemberRow, Target
from crawler_lifecycle.flows.rules.words import BY_REQUEST
from crawler_lifecycle.flows.store.locks import SHARED, OnFlows, fence, has_lost_acts, without_index
from crawler_lifecycle.flows.store.reading import BEGINS_WITH_ENDS, NUMBERS, are_on_record, end_in, ends_of
from crawler_lifecycle.flows.store.rows import groups, members
from crawler_lifecycle.flows.store.starts import Work, fits, may_start, read_work
from crawler_lifecycle.flows.store.writing import end_values
from crawler_lifecycle.model.flow_states import UNSTARTED, EndKind, GroupGrowth, MemberState
from crawler_lifecycle.model.states import TaskStatus

T = TypeVar("T")
begins, ends = attempt_begins.c, attempt_ends.c
runs, tasks = histories.c, task_histories.c
RUNS_OF_TASKS = (
    select(runs.flow_member, tasks.task, tasks.status, runs.id, runs.run_uid)
    .join_from(histories, task_histories, tasks.history_id == runs.id)
    .where(
        runs.flow_uid == bindparam("of_uid"),
        runs.flow_member.in_(bindparam("crawls", expanding=True)),
        tasks.task.in_(bindparam("tasks", expanding=True)),
    )
    .order_by(runs.flow_attempt)
)
OF_MEMBERS = (begins.flow == bindparam("of_flow"), begins.member.in_(NUMBERS))
BEGINS = (
    BEGINS_WITH_ENDS.add_columns(begins.number, begins.counted, begins.token, begins.arguments)
    .where(*OF_MEMBERS, begins.attempt.in_(bindparam("attempts", expanding=True)))
    .order_by(begins.member, begins.attempt, begins.number)
)
# the arguments of noted begins are in the members' rows, where people may change them
FORMER_ARGUMENTS = (
    select(begins.member, begins.generation, begins.arguments)
    .where(*OF_MEMBERS, begins.noted.is_(False))
    .order_by(begins.member, begins.attempt)
)
OF_ATTEMPT = (
    begins.flow == bindparam("of_flow"),
    begins.member == bindparam("of_member"),
    begins.attempt == bindparam("of_attempt"),
)
WITHDRAW = delete(attempt_begins).where(
    *OF_ATTEMPT, begins.number == bindparam("of_number"), begins.token == bindparam("of_token")
)
# a host that had lost the attempt with its lease may live again, and would hold the attempt
VOID = update(attempt_begins).where(*OF_ATTEMPT, begins.number <= bindparam("of_number")).values(token="")
STOPS = select(members.number, members.attempt).where(
    members.flow == bindparam("of_flow"),
    members.number.in_(NUMBERS),
    members.in_flight,
    members.terminate,
    members.state != MemberState.EXECUTING,
)
GRAFTERS = select(groups.grower).where(
    groups.flow == bindparam("of_flow"), groups.grower.in_(NUMBERS), groups.growth == GroupGrowth.GRAFT
)
ERRORS = (
    select(ends.member, ends.attempt, ends.ended_at, ends.reason)
    .where(ends.flow == bindparam("of_flow"), ends.member.in_(NUMBERS), ends.kind == EndKind.FAILED)
    .order_by(ends.member, ends.attempt)
)
CAUSE = update(flow_members).where(
    members.flow == bindparam("of_flow"), members.number.in_(NUMBERS), without_index(members.state).in_(UNSTARTED)
)
LEASES = select(step_leases.c.token, step_leases.c.expires_at).where(
    step_leases.c.token.in_(bindparam("tokens", expanding=True))
)
LOCKED_LEASES = LEASES.with_for_update(read=True)
LEASE = update(step_leases).where(step_leases.c.token == bindparam("of_token"))
MOST_CONFLICTS = 10  # with inserts by other hosts
FORGOTTEN = timedelta(days=1)  # then the lease of a dead host is deleted
Begins = Mapping[tuple[int, int], Row[Any]]  # last begins by member and attempt


def with_items(
    connection: Connection, flow_uid: str, steps: Sequence[BegunStep], rows: dict[int, MemberRow]
) -> list[BegunStep]:
    """Return the steps. The steps for tasks have their tasks as items."""
    by_number = {
        step.start.number: target
        for step in steps
        if _is_for_task(step.definition) and (target := task_of(rows[step.start.number])) is not None
    }
    if not by_number:
        return list(steps)
    key = {
        "of_uid": flow_uid,
        "crawls": sorted({target.number for target in by_number.values()}),
        "tasks": sorted({target.task or 0 for target in by_number.values()}),
    }
    last: dict[tuple[int, int | None], Any] = {}
    for run in connection.execute(RUNS_OF_TASKS, key):
        known = last.get((run.flow_member, run.task))
        if known is None or run.status is TaskStatus.SUCCEEDED or known.status is not TaskStatus.SUCCEEDED:
            last[run.flow_member, run.task] = run
    return [_with_item(step, by_number, last) for step in steps]


@dataclass(frozen=True, slots=True)
class _Begin:
    """A begin to insert, or the host's own begin from an earlier try.

    `number`: the try's. `counted`: tries whose death counts; the death of a function that waited for a slot does not.
    """

    start: AttemptRef
    work: Work
    number: int
    counted: int
    arguments: JsonValue
    is_new: bool = True


class StepBegins(OnFlows):
    """The methods in `flows.ports.steps.StepLedger` for begins, leases and ends."""

    def begin(
        self, flow: FlowRef, door: int, starts: Sequence[AttemptRef], token: str, host: str,
        code_version: str | None = None, reads: Mapping[int, int] = NO_READS, *, in_process: bool = False,
    ) -> StepsBegun:  # fmt: skip
        def begin() -> StepsBegun:
            return self._begin(flow, door, starts, token, host, code_version, reads, in_process=in_process)

        return _again_after_conflict(begin)

    @transaction
    def _begin(
        self, tx: Connection, flow: FlowRef, door: int, starts: Sequence[AttemptRef], token: str, host: str,
        code_version: str | None, reads: Mapping[int, int], *, in_process: bool,
    ) -> StepsBegun:  # fmt: skip
        head, now = self.head(tx, flow.uid, SHARED), self._db.clock()
        works = read_work(tx, head.id, flow.uid, [start.number for start in starts])
        # attempts after the effective row's attempt have neither begins nor ends; two inserts of a first begin conflict
        old = [
            start for start in starts if start.number not in works or start.attempt <= works[start.number].row.attempt
        ]
        known, stored = _begins_and_ends(tx, head.id, map(_key, old))
        unended = sorted((start for start in starts if _key(start) not in stored), key=lambda start: start.number)
        live = _live(tx, {token, *(known[_key(start)].token for start in unended if _key(start) in known)}, now)
        if token not in live:
            raise TemporaryError("the host's lease is over, and not renewed yet")
        new = [start for start in unended if not _is_under_way(start, known, works)]
        if new:
            fence(head, flow)
        is_due = bool(new) and may_start(head, door)
        has_lost = is_due and (has_lost_acts(head, flow) or not are_on_record(tx, head.id, flow.uid, reads))
        stale = [
            start.number
            for start in unended
            if start.number not in works
            or (start in new and (not is_due or has_lost or not fits(works[start.number].row, start)))
        ]
        held = [start.number for start in unended if start.number not in stale and _is_held(start, known, live, token)]
        free = [start for start in unended if start.number not in (*stale, *held)]
        stopped = [_stopped(start, now) for start in free if _is_stopped(start, works[start.number])]
        if stopped:
            tx.execute(insert(attempt_ends), [end_values(head.id, end) for end in stopped])
            free = [start for start in free if not _is_stopped(start, works[start.number])]
        former = _former_arguments(tx, head.id, free, works)
        called = next((start for start in starts if start in free), None)
        begun = [
            _begin_of(start, works[start.number], known, former, token, waits=start is not called) for start in free
        ]
        apart = [] if in_process else [begin.start.number for begin in begun if _needs_process(begin)]
        begun = [begin for begin in begun if begin.start.number not in apart]
        values = {"flow": head.id, "token": token, "host": host, "code_version": code_version, "begun_at": now}
        if rows := [_values(begin) | values for begin in begun if begin.is_new]:
            tx.execute(insert(attempt_begins), rows)
        grafters, errors = _grafters(tx, head, starts), _errors(tx, head, starts)
        steps = [_step(head, begin, grafters, errors, reads) for begin in begun]
        return StepsBegun(
            mine=with_items(tx, head.uid, steps, {number: work.row for number, work in works.items()}),
            apart=apart,
            held=held,
            ended=[*stored.values(), *stopped],
            stale=stale,
            has_lost=has_lost,
        )

    @transaction
    def withdraw(
        self, tx: Connection, token: str, attempts: Collection[AttemptKey], *, are_deaths: bool = False
    ) -> None:
        for flow, keys in self._by_flow(tx, sorted(attempts)):
            last, ended = _begins_and_ends(tx, flow, (key[1:] for key in keys))
            for _, member, attempt in keys:
                begun = last.get((member, attempt))
                if (member, attempt) not in ended and begun is not None and begun.token == token:
                    key = {"of_flow": flow, "of_member": member, "of_attempt": attempt}
                    this_try = {**key, "of_number": begun.number, "of_token": token}
                    kept = begun.number if are_deaths else begun.number - 1
                    if (are_deaths or tx.execute(WITHDRAW, this_try).rowcount) and kept:
                        tx.execute(VOID, {**key, "of_number": kept})

    @transaction
    def renew(
        self, tx: Connection, token: str, lasts: timedelta, held: Collection[AttemptKey] = ()
    ) -> Mapping[AttemptKey, bool]:
        now = self._db.clock()
        if not tx.execute(LEASE.values(expires_at=now + lasts), {"of_token": token}).rowcount:
            tx.execute(delete(step_leases).where(step_leases.c.expires_at < now - FORGOTTEN))
            tx.execute(insert(step_leases), {"token": token, "expires_at": now + lasts})
        mine: dict[AttemptKey, bool] = {}
        for flow, keys in self._by_flow(tx, sorted(held)):
            numbers = [number for _, number, _ in keys]
            last, _ = _begins_and_ends(tx, flow, (key[1:] for key in keys))
            stopped = {
                (row.number, row.attempt)
                for page in pages(numbers)
                for row in tx.execute(STOPS, {"of_flow": flow, "numbers": page})
            }
            mine |= {key: key[1:] in stopped for key in keys if (row := last.get(key[1:])) and row.token == token}
        return mine

    def end(self, ends: Sequence[StepEnd], token: str) -> Mapping[AttemptKey, AttemptEnd]:
        return _again_after_conflict(lambda: self._end(ends, token))

    @transaction
    def _end(self, tx: Connection, ends: Sequence[StepEnd], token: str) -> Mapping[AttemptKey, AttemptEnd]:
        by_key = {(end.flow_uid, *_key(end.start)): end for end in ends}
        on_record: dict[AttemptKey, AttemptEnd] = {}
        for flow, keys in self._by_flow(tx, sorted(by_key)):
            last, earlier = _begins_and_ends(tx, flow, (key[1:] for key in keys))
            on_record |= {key: earlier[key[1:]] for key in keys if key[1:] in earlier}
            new = [by_key[key] for key in keys if key[1:] not in earlier and _has(token, last.get(key[1:]))]
            on_record |= {(end.flow_uid, *_key(end.start)): _as_end(end) for end in new}
            if new:
                tx.execute(insert(attempt_ends), [_end_values(flow, end) for end in new])
        return on_record

    @transaction
    def note_cause(self, tx: Connection, flow_uid: str, numbers: Collection[int], cause: str) -> None:
        flow = self.number(tx, flow_uid)
        for page in pages(sorted(numbers)):
            tx.execute(CAUSE.values(cause=cause), {"of_flow": flow, "numbers": list(page)})

    def _by_flow(self, tx: Connection, keys: Sequence[AttemptKey]) -> list[tuple[int, list[AttemptKey]]]:
        """Return the sorted keys with their flows' primary keys. Keys in flows that were pruned are left out."""
        by_flow = []
        for uid, of_flow in groupby(keys, key=lambda key: key[0]):
            try:
                by_flow.append((self.number(tx, uid), list(of_flow)))
            except NotFound:
                continue
        return by_flow


def _again_after_conflict(insert_rows: Callable[[], T]) -> T:
    """Insert rows, and again whenever another host was first at the same moment."""
    for _ in range(MOST_CONFLICTS):
        with suppress(Conflict):
            return insert_rows()
    raise TemporaryError("other hosts insert the same begins or ends")


def _live(tx: Connection, tokens: Collection[str], now: datetime) -> set[str]:
    """Return the tokens with a lease. A lease that is over stays over until the transaction ends."""
    live: set[str] = set()
    for query in (LEASES, LOCKED_LEASES):
        if rest := sorted({*tokens} - live):
            live |= {row.token for row in tx.execute(query, {"tokens": rest}) if row.expires_at > now}
    return live


def _key(start: AttemptRef) -> tuple[int, int]:
    return start.number, start.attempt


def _begins_and_ends(
    tx: Connection, flow: int, keys: Iterable[tuple[int, int]]
) -> tuple[dict[tuple[int, int], Row[Any]], dict[tuple[int, int], AttemptEnd]]:
    """Return the attempts' last begins and ends, by member and attempt. A stopped attempt can have an end alone."""
    last: dict[tuple[int, int], Row[Any]] = {}
    wanted = sorted(keys)
    for page in pages(wanted):
        numbers, attempts = zip(*page, strict=True)
        rows = tx.execute(BEGINS, {"of_flow": flow, "numbers": numbers, "attempts": sorted(set(attempts))})
        last |= {(row.member, row.attempt): row for row in rows}
    ended = {key: end_in(row) for key, row in last.items() if row.kind is not None}
    return last, ended | ends_of(tx, flow, {*wanted} - last.keys())


def _former_arguments(
    tx: Connection, flow: int, starts: Sequence[AttemptRef], works: Mapping[int, Work]
) -> dict[int, JsonValue]:
    """Return the arguments before the attempts by member, from the last begin or retry; None for the definition's."""
    former = {start.number: works[start.number].arguments for start in starts}
    generations = {start.number: start.generation for start in starts if start.attempt > 1}
    for page in pages(sorted(generations)):
        for row in tx.execute(FORMER_ARGUMENTS, {"of_flow": flow, "numbers": page}):
            if row.generation == generations[row.member]:
                former[row.member] = row.arguments
    return former


def _has(token: str, last: Row[Any] | None) -> bool:
    return last is not None and last.token == token


def _is_under_way(start: AttemptRef, known: Begins, works: Mapping[int, Work]) -> bool:
    """Return whether the attempt has a begin, or had a begin that its host has withdrawn."""
    row = works[start.number].row if start.number in works else None
    return _key(start) in known or (row is not None and row.in_flight and row.attempt == start.attempt)


def _is_held(start: AttemptRef, known: Begins, live: Collection[str], token: str) -> bool:
    last = known.get(_key(start))
    return last is not None and last.token != token and last.token in live


def _is_stopped(start: AttemptRef, work: Work) -> bool:
    """Return whether people have stopped the attempt. A manager begins all the same, since it stops its crawls."""
    is_manager = isinstance(work.definition.work, StepWork) and work.definition.work.form is CallForm.MANAGER
    return work.row.must_stop and work.row.attempt == start.attempt and not is_manager


def _stopped(start: AttemptRef, now: datetime) -> AttemptEnd:
    return AttemptEnd(start.number, start.attempt, EndKind.CANCELLED, now, reason=BY_REQUEST)


def _begin_of(
    start: AttemptRef, work: Work, known: Begins, former: Mapping[int, JsonValue], token: str, *, waits: bool
) -> _Begin:
    last = known.get(_key(start))
    if last is not None:
        is_new = last.token != token
        return _Begin(start, work, last.number + is_new, last.counted + is_new, last.arguments, is_new)
    arguments = arguments_of_attempt(work.row, work.definition.work, former[start.number])
    return _Begin(start, work, 1, 0 if waits else 1, arguments)


def _needs_process(begin: _Begin) -> bool:
    """Return whether the function begins in a process apart. A manager has its own process anyway."""
    work = begin.work.definition.work
    if not begin.is_new or not isinstance(work, StepWork) or work.form is CallForm.MANAGER:
        return False
    return work.isolate or begin.number > 1


def _values(begin: _Begin) -> dict[str, Any]:
    return {
        "member": begin.start.number,
        "attempt": begin.start.attempt,
        "number": begin.number,
        "generation": begin.start.generation,
        "arguments": begin.arguments,
        "counted": begin.counted,
        "noted": begin.number > 1,
    }


def _end_values(flow: int, end: StepEnd) -> dict[str, Any]:
    result = {"value": end.result, "size": len(end.result or "")}
    return end_values(flow, _as_end(end)) | {"error": end.error} | result


def _as_end(end: StepEnd) -> AttemptEnd:
    return AttemptEnd(end.start.number, end.start.attempt, end.kind, end.at, end.outcome, end.reason)


def _is_for_task(definition: MemberDefinition) -> bool:
    work = definition.work
    return isinstance(work, StepWork) and work.form is CallForm.ITEM and isinstance(work.arguments, dict)


def _with_item(
    step: BegunStep, targets: Mapping[int, Target], runs_of_tasks: Mapping[tuple[int, int | None], Any]
) -> BegunStep:
    target = targets.get(step.start.number)
    run = None if target is None else runs_of_tasks.get((target.number, target.task))
    if run is None:  # no step for a task, or a failed crawl without runs whose failure does not count
        return step
    return replace(step, arguments=task_item(step.arguments, run.id, run.run_uid))


def _grafters(tx: Connection, head: Row[Any], starts: Sequence[AttemptRef]) -> set[int]:
    if not head.last_group:  # the flow has no groups
        return set()
    numbers = [start.number for start in starts]
    return set(tx.scalars(GRAFTERS, {"of_flow": head.id, "numbers": numbers}))


def _errors(tx: Connection, head: Row[Any], starts: Sequence[AttemptRef]) -> dict[int, list[dict[str, Any]]]:
    """Return the errors of earlier attempts by member, oldest first."""
    errors: dict[int, list[dict[str, Any]]] = {}
    numbers = [start.number for start in starts if start.attempt > 1]
    if numbers:
        for row in tx.execute(ERRORS, {"of_flow": head.id, "numbers": numbers}):
            error = {"attempt": row.attempt, "at": row.ended_at.isoformat(), "error": row.reason}
            errors.setdefault(row.member, []).append(error)
    return errors


def _step(
    head: Row[Any],
    begin: _Begin,
    grafters: Collection[int],
    errors: Mapping[int, Sequence[Mapping[str, Any]]],
    reads: Mapping[int, int],
) -> BegunStep:
    start, work = begin.start, begin.work
    definition_arguments = getattr(work.definition.work, "arguments", None)
    return BegunStep(
        start=start,
        path=work.row.path,
        definition=work.definition,
        arguments=definition_arguments if begin.arguments is None else begin.arguments,
        flow_id=head.flow_id,
        flow_name=head.name,
        flow_uid=head.uid,
        is_grafter=start.number in grafters,
        deaths=max(0, begin.counted - 1),
        scheduled_at=work.row.scheduled_at(start.attempt),
        errors=errors.get(start.number, ()),
        reads=reads,
    )
