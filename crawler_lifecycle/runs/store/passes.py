"""The dispatcher's passes: claims on tasks of all runs, as the limits allow, and causes for the tasks that wait on."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import groupby, islice
from operator import attrgetter, itemgetter

from sqlalchemy import ColumnElement, Connection, and_, or_, select, update

from crawler_lifecycle.database.pages import pages
from crawler_lifecycle.database.schema import histories, task_histories
from crawler_lifecycle.database.transactions import lock_run, reading, transaction
from crawler_lifecycle.limits.rules.planning import plan
from crawler_lifecycle.limits.rules.rooms import Hold
from crawler_lifecycle.limits.store.admission import IS_DEPLOYED_HERE, at, limits_on_record, lock_admission, situation
from crawler_lifecycle.limits.store.front import holds_behind_front, runs_of_a_pass
from crawler_lifecycle.limits.store.holds import admit, end_wait, write_hold, write_holds
from crawler_lifecycle.limits.store.uses import are_many, counting, uses
from crawler_lifecycle.model.naming import MAIN_TASK
from crawler_lifecycle.model.states import Intent, RunStatus, TaskStatus
from crawler_lifecycle.runs.ports.runs import Claim
from crawler_lifecycle.runs.store.claiming import (
    cause_assignments,
    claim_is_free,
    is_claimable,
    is_queued,
    is_settled,
    take_claims,
)
from crawler_lifecycle.runs.store.claims import TaskClaims
from crawler_lifecycle.runs.store.reading import run_row

runs, tasks = histories.c, task_histories.c


class Passes(TaskClaims):
    """The methods in `runs.ports.Claims` for the dispatcher."""

    def claim_tasks(self, token: str, expires_in: timedelta, most: int) -> list[Claim]:
        """Claim up to `most` tasks of all runs, as the limits allow, and write what holds the other tasks."""
        if not self._has_something_to_deploy(token):
            self._fold_changes()  # otherwise the next start after a quiet day would
            return []
        claims, causes = self._claim_tasks(token, expires_in, most)
        # without the check every pass would change the runs' rows
        for run_id, cause in self._with_another_cause(causes):
            self._write_cause(run_id, cause)
        return claims

    @reading
    def _has_something_to_deploy(self, connection: Connection, token: str) -> bool:
        waiting = select(tasks.task).join_from(histories, task_histories, tasks.history_id == runs.id)
        now = self._db.clock()
        is_waiting = and_(IS_DEPLOYED_HERE, runs.intent == Intent.RUN, is_claimable(now, token))
        return connection.scalar(waiting.where(is_waiting).limit(1), at(now)) is not None

    def _fold_changes(self) -> None:
        with self._db.read() as connection:
            if not are_many(connection):
                return
        self._db.transact(lock_admission)

    @transaction
    def _claim_tasks(
        self, tx: Connection, token: str, expires_in: timedelta, most: int
    ) -> tuple[list[Claim], dict[int, str]]:
        """Return the claims, and by RunID the cause why tasks of PROCESSING runs stay QUEUED."""
        now = self._lock_admission(tx)
        limits = limits_on_record(tx, self._most_tasks)
        used = uses(tx, limits)
        with_claims = tx.scalars(select(tasks.history_id).where(tasks.status == TaskStatus.DEPLOYING))
        now_open = situation(tx, limits, now, runs_of_a_pass(tx, limits, most, now).union(with_claims))
        pauses = now_open.pauses()
        free = _free_claims(tx, now, token, pauses.keys(), most)
        new = plan(now_open.runs, limits, most - min(len(free), (most + 1) // 2), used)
        claims = list[Claim]()
        for run_id, count in sorted(new.granted.items()):
            # after the ends that made room, which may have come since `now`
            claims += claim_ready_tasks(tx, run_id, count, token, self._db.clock(), expires_in)
        for run_id, numbers in _by_run(free[: most - len(claims)]):
            claims += _claim_again(tx, run_id, numbers, token, now, expires_in, pauses.get(run_id))
        claims.sort(key=attrgetter("run_id", "task"))
        causes = write_holds(tx, now_open, new, now)
        for hold, run_ids in list(holds_behind_front(tx, now_open, new, most, now)):
            write_hold(tx, run_ids, hold, now)
        return claims, causes

    @reading
    def _with_another_cause(self, connection: Connection, causes: Mapping[int, str]) -> list[tuple[int, str]]:
        """Return the runs with a QUEUED task that has another cause than the given one, or none."""
        now, unexplained = self._db.clock(), list[tuple[int, str]]()
        for cause in set(causes.values()):
            for page in pages([run_id for run_id in causes if causes[run_id] == cause]):
                query = select(tasks.history_id).distinct().where(_is_queued_without(cause, page, now))
                unexplained += [(run_id, cause) for run_id in connection.scalars(query)]
        return unexplained

    @transaction
    def _write_cause(self, tx: Connection, run_id: int, cause: str) -> None:
        """Write why the run's QUEUED tasks are still queued."""
        lock_run(tx, run_id)
        now = self._db.clock()
        assignments = (*cause_assignments(cause, now), (tasks.version, tasks.version + 1))
        tx.execute(update(task_histories).where(_is_queued_without(cause, [run_id], now)).ordered_values(*assignments))


def _is_queued_without(cause: str, run_ids: Sequence[int], now: datetime) -> ColumnElement[bool]:
    """Return the condition for the runs' QUEUED tasks with another cause or no cause; tasks in a pause keep theirs."""
    has_another_cause = or_(tasks.cause.is_(None), tasks.cause != cause)
    return and_(tasks.history_id.in_(run_ids), is_queued(now), has_another_cause)


def _free_claims(
    connection: Connection, now: datetime, token: str, paused: Collection[int], most: int
) -> list[tuple[int, int]]:
    """Return the run and number of at most `most` tasks with a free claim: their jobs may exist already.

    These tasks have their places. The claims that expire first come first: a claim that is taken again comes last, so
    a task whose deployment fails again and again keeps no other task waiting. Claims of `paused` runs (RunIDs) are free
    when no earlier request is on its way any more: only then a look proves that there is no job.
    """
    is_free = claim_is_free(now, token)
    query = select(tasks.history_id, tasks.task, is_settled(now).label("is_settled"))
    joined = query.join_from(histories, task_histories, tasks.history_id == runs.id)
    free = joined.where(IS_DEPLOYED_HERE, runs.intent == Intent.RUN, is_free)
    ordered = free.order_by(tasks.claim_expires_at, tasks.history_id, tasks.task)
    rows = connection.execute(ordered if paused else ordered.limit(most), at(now))
    may_be_claimed = ((row.history_id, row.task) for row in rows if row.is_settled or row.history_id not in paused)
    return list(islice(may_be_claimed, most))


def _by_run(numbered: Iterable[tuple[int, int]]) -> Iterator[tuple[int, list[int]]]:
    """Yield the RunIDs with their task numbers, in the order of all locks on runs' rows."""
    for run_id, group in groupby(sorted(numbered), key=itemgetter(0)):
        yield run_id, [task for _, task in group]


def claim_ready_tasks(
    connection: Connection, run_id: int, count: int, token: str, now: datetime, expires_in: timedelta
) -> list[Claim]:
    """Admit the run, if it waits for its permit, and claim its next QUEUED tasks. The main task comes first."""
    lock_run(connection, run_id)
    row = run_row(connection, run_id)
    if row.status.is_over or row.intent is not Intent.RUN:
        return []
    ready = select(tasks.task).where(tasks.history_id == run_id, is_queued(now))
    if row.status is RunStatus.INITIALIZING:  # the child tasks wait until the main job has started
        ready = ready.where(tasks.task == MAIN_TASK)
    numbers = connection.scalars(ready.order_by(tasks.task).limit(count)).all()
    with counting(connection, run_id):
        if row.admitted_at is None:
            admit(connection, run_id, now)
        return take_claims(connection, row, numbers, is_queued(now), token, now + expires_in)


def _claim_again(
    connection: Connection,
    run_id: int,
    numbers: Sequence[int],
    token: str,
    now: datetime,
    expires_in: timedelta,
    pause: Hold | None,
) -> list[Claim]:
    """Claim tasks whose jobs may exist already: with a pause only to find the jobs, otherwise to deploy the tasks."""
    lock_run(connection, run_id)
    row = run_row(connection, run_id)
    if row.status.is_over or row.intent is not Intent.RUN:
        return []
    if pause is None and row.status is RunStatus.INITIALIZING:
        end_wait(connection, run_id)
    is_free = is_settled(now) if pause else claim_is_free(now, token)
    return take_claims(connection, row, numbers, is_free, token, now + expires_in, pause)
