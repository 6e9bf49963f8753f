"""Claims on attempts of steps: a host's time-limited right to execute attempts.

A claimed step for a crawl's task also gets the run in which the task succeeded (`with_items`).
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any

from sqlalchemy import Connection, Row, bindparam, delete, insert, select, update

from crawler_lifecycle.database.database import Database
from crawler_lifecycle.database.flow_schema import attempt_ends, flow_attempts, flow_members, flows, step_leases
from crawler_lifecycle.database.pages import PagedStatement, pages
from crawler_lifecycle.database.schema import histories, task_histories
from crawler_lifecycle.database.transactions import transaction
from crawler_lifecycle.errors import TemporaryError
from crawler_lifecycle.flows.model.definition import CallForm, MemberDefinition, StepWork
from crawler_lifecycle.flows.ports.claims import NO_READS, AttemptKey, Claimed, ClaimedStep
from crawler_lifecycle.flows.rules.messages import AttemptRef, FlowRef
from crawler_lifecycle.flows.rules.requesting import task_item, task_of
from crawler_lifecycle.flows.rules.rows import MemberRow, Target
from crawler_lifecycle.flows.store.locks import (
    LOCKED,
    MOST_KNOWN,
    SHARED,
    OnFlows,
    fence,
    has_lost_acts,
    without_index,
)
from crawler_lifecycle.flows.store.reading import are_on_record, ends_of
from crawler_lifecycle.flows.store.rows import groups, members
from crawler_lifecycle.flows.store.starts import (
    NUMBERS,
    Work,
    fits,
    may_start,
    put_on_record,
    read_attempts,
    read_work,
)
from crawler_lifecycle.model.flow_states import UNSTARTED, EndKind, GroupGrowth
from crawler_lifecycle.model.states import TaskStatus

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
attempts = flow_attempts.c
KEY = [attempts.flow, attempts.member, attempts.attempt]
HAS_TOKEN = without_index(attempts.claim_token) == bindparam("of_token")
TAKE = update(flow_attempts).where(
    attempts.flow == bindparam("of_flow"),
    attempts.member == bindparam("of_member"),
    attempts.attempt == bindparam("of_attempt"),
)
BEGIN = TAKE.where(HAS_TOKEN).values(begun=True)
RELEASE = PagedStatement(KEY, lambda new: update(flow_attempts).where(attempts.attempt == new.attempt, HAS_TOKEN))
WITH_TOKEN = (
    select(flows.c.uid, *KEY, attempts.stop_asked)
    .join_from(flow_attempts, flows, flows.c.id == attempts.flow)
    .where(attempts.claim_token == bindparam("of_token"))
    .order_by(*KEY)
)
GRAFTERS = select(groups.grower).where(
    groups.flow == bindparam("of_flow"), groups.grower.in_(NUMBERS), groups.growth == GroupGrowth.GRAFT
)
ends = attempt_ends.c
ERRORS = (
    select(ends.member, ends.attempt, ends.ended_at, ends.reason)
    .where(ends.flow == bindparam("of_flow"), ends.member.in_(NUMBERS), ends.kind == EndKind.FAILED)
    .order_by(ends.member, ends.attempt)
)
CAUSE = update(flow_members).where(
    members.flow == bindparam("of_flow"), members.number.in_(NUMBERS), without_index(members.state).in_(UNSTARTED)
)
LIVE = select(step_leases.c.token).where(
    step_leases.c.token.in_(bindparam("tokens", expanding=True)), step_leases.c.expires_at > bindparam("now")
)
LEASE = update(step_leases).where(step_leases.c.token == bindparam("of_token"))
FORGOTTEN = timedelta(days=1)  # then the lease of a dead host is deleted


def with_items(
    connection: Connection, flow_uid: str, steps: Sequence[ClaimedStep], rows: dict[int, MemberRow]
) -> list[ClaimedStep]:
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


class StepRights(OnFlows):
    """The methods in `flows.ports.claims.StepClaims` for claims."""

    def __init__(self, db: Database) -> None:
        super().__init__(db)
        self._started: set[str] = set()  # flows known to have a start on record

    @transaction
    def claim(
        self, tx: Connection, flow: FlowRef, door: int, starts: Sequence[AttemptRef], token: str, host: str,
        code_version: str | None = None, reads: Mapping[int, int] = NO_READS,
    ) -> Claimed:  # fmt: skip
        head, now = self._lock_for_start(tx, flow.uid), self._db.clock()
        works = read_work(tx, head.id, flow.uid, [start.number for start in starts], locked=True)
        known = read_attempts(tx, head.id, starts, locked=True)
        ended = ends_of(tx, head.id, known.keys())
        new = [start for start in starts if (start.number, start.attempt) not in known]
        if new:
            fence(head, flow)
        live = _live(tx, {token, *(row.claim_token for row in known.values() if row.claim_token)}, now)
        if token not in live:
            raise TemporaryError("the host's lease is over, and not renewed yet")
        is_due = bool(new) and may_start(head, door)
        has_lost = is_due and (has_lost_acts(head, flow) or not are_on_record(tx, head.id, flow.uid, reads))
        fitting = [
            (start, works[start.number])
            for start in new
            if is_due and not has_lost and start.number in works and fits(works[start.number].row, start)
        ]
        claim = {"claim_token": token, "host": host, "code_version": code_version}
        apart = {number for number, work in works.items() if _is_isolated(work)}
        begun = put_on_record(tx, head, fitting, now, lambda start: {**claim, "begun": start.number not in apart})
        deaths = {
            key: _take(tx, row, claim, live, begins=row.member not in apart)
            for key, row in known.items()
            if key not in ended
        }
        arguments = {(item.start.number, item.start.attempt): item.arguments for item in begun}
        arguments |= {key: known[key].arguments for key, count in deaths.items() if count is not None}
        grafters = _grafters(tx, head, starts)
        errors = _errors(tx, head, starts)
        mine = [
            _step(head, start, works[start.number], arguments[key], deaths.get(key) or 0, grafters, errors, reads)
            for start in sorted(starts, key=lambda start: start.number)
            if (key := (start.number, start.attempt)) in arguments
        ]
        return Claimed(
            mine=with_items(tx, head.uid, mine, _rows(works)),
            held=[number for (number, _), count in deaths.items() if count is None],
            ended=list(ended.values()),
            stale=[start.number for start in new if (start.number, start.attempt) not in arguments],
            has_lost=has_lost,
        )

    @transaction
    def begin(self, tx: Connection, flow_uid: str, start: AttemptRef, token: str) -> bool:
        key = {"of_flow": self.number(tx, flow_uid), "of_member": start.number, "of_attempt": start.attempt}
        return tx.execute(BEGIN, {**key, "of_token": token}).rowcount == 1

    @transaction
    def renew(self, tx: Connection, token: str, lasts: timedelta) -> Mapping[AttemptKey, bool]:
        now = self._db.clock()
        if not tx.execute(LEASE.values(expires_at=now + lasts), {"of_token": token}).rowcount:
            tx.execute(delete(step_leases).where(step_leases.c.expires_at < now - FORGOTTEN))
            tx.execute(insert(step_leases), {"token": token, "expires_at": now + lasts})
        rows = tx.execute(WITH_TOKEN, {"of_token": token})
        return {(row.uid, row.member, row.attempt): row.stop_asked for row in rows}

    @transaction
    def release(self, tx: Connection, token: str, attempts: Collection[AttemptKey] | None = None) -> None:
        rows = tx.execute(WITH_TOKEN, {"of_token": token}).all()
        keys = [row[1:4] for row in rows if attempts is None or (row.uid, row.member, row.attempt) in attempts]
        for _, of_flow in groupby(keys, key=lambda key: key[0]):
            for page in pages(list(of_flow)):
                RELEASE(tx, page, of_token=token, claim_token=None, begun=False)

    @transaction
    def note_cause(self, tx: Connection, flow_uid: str, numbers: Collection[int], cause: str) -> None:
        flow = self.number(tx, flow_uid)
        for page in pages(sorted(numbers)):
            tx.execute(CAUSE.values(cause=cause), {"of_flow": flow, "numbers": list(page)})

    def _lock_for_start(self, tx: Connection, flow_uid: str) -> Row[Any]:
        """Lock the flow's row shared, and alone for its first start: a shared lock that is to grow may deadlock."""
        head = self.head(tx, flow_uid, SHARED if flow_uid in self._started else LOCKED)
        if head.started_at is not None:
            if len(self._started) >= MOST_KNOWN:
                self._started.clear()
            self._started.add(flow_uid)
        return head


def _is_for_task(definition: MemberDefinition) -> bool:
    work = definition.work
    return isinstance(work, StepWork) and work.form is CallForm.ITEM and isinstance(work.arguments, dict)


def _with_item(
    step: ClaimedStep, targets: Mapping[int, Target], runs_of_tasks: Mapping[tuple[int, int | None], Any]
) -> ClaimedStep:
    target = targets.get(step.start.number)
    run = None if target is None else runs_of_tasks.get((target.number, target.task))
    if run is None:  # no step for a task, or a failed crawl without runs whose failure does not count
        return step
    return replace(step, arguments=task_item(step.arguments, run.id, run.run_uid))


def _is_isolated(work: Work) -> bool:
    return bool(getattr(work.definition.work, "isolate", False))


def _take(
    tx: Connection, row: Row[Any], claim: Mapping[str, Any], live: Collection[str], *, begins: bool
) -> int | None:
    """Claim an attempt that is on record. Return its deaths, or None if another host holds the attempt.

    `live`: tokens with a lease. `begins`: whether the function begins with the claim, unless the attempt has deaths.
    """
    if row.claim_token == claim["claim_token"]:
        return int(row.deaths)
    if row.claim_token in live:
        return None
    key = {"of_flow": row.flow, "of_member": row.member, "of_attempt": row.attempt}
    deaths = int(row.deaths) + int(row.begun)
    tx.execute(TAKE.values(**claim, deaths=deaths, begun=begins and deaths == 0), key)
    return deaths


def _live(tx: Connection, tokens: Collection[str], now: datetime) -> set[str]:
    """Return the tokens of hosts that live."""
    return set(tx.scalars(LIVE, {"tokens": sorted(tokens), "now": now}))


def _rows(works: Mapping[int, Work]) -> dict[int, MemberRow]:
    return {number: work.row for number, work in works.items()}


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
    start: AttemptRef,
    work: Work,
    arguments: Any,
    deaths: int,
    grafters: Collection[int],
    errors: Mapping[int, Sequence[Mapping[str, Any]]],
    reads: Mapping[int, int],
) -> ClaimedStep:
    definition_arguments = getattr(work.definition.work, "arguments", None)
    return ClaimedStep(
        start=start,
        path=work.row.path,
        definition=work.definition,
        arguments=definition_arguments if arguments is None else arguments,
        flow_id=head.flow_id,
        flow_name=head.name,
        flow_uid=head.uid,
        is_grafter=start.number in grafters,
        deaths=deaths,
        scheduled_at=work.row.scheduled_at(start.attempt),
        errors=errors.get(start.number, ()),
        reads=reads,
    )
