"""Sights: ends of attempts, runs and tasks, as a flow reads them. A run writes nothing for its flow."""

from collections.abc import Collection, Iterator
from typing import Any

from sqlalchemy import Connection, Row, and_, bindparam, not_, or_, select

from crawler_lifecycle.database.flow_schema import flow_attempts, flow_members
from crawler_lifecycle.database.schema import histories, task_histories
from crawler_lifecycle.database.transactions import OPEN_STATUSES
from crawler_lifecycle.flows.rules.crawls import RunSeen, TasksSeen
from crawler_lifecycle.flows.rules.ends import AttemptEnd
from crawler_lifecycle.model.states import OVER, ExportState, TaskStatus

members, attempts, runs, tasks = flow_members.c, flow_attempts.c, histories.c, task_histories.c
MOST_IN_STATEMENT = 500  # numbers; for more members, the rows of the whole flow are read and filtered here
IS_LAST_ATTEMPT = and_(
    attempts.flow == members.flow, attempts.member == members.number, attempts.attempt == members.attempt
)
END_COLUMNS = [attempts.member, attempts.attempt, attempts.end_kind, attempts.ended_at, attempts.outcome]
ENDS = (
    select(*END_COLUMNS, attempts.reason)
    .join_from(flow_attempts, flow_members, IS_LAST_ATTEMPT)
    .where(attempts.flow == bindparam("of_flow"), attempts.ended_at.is_not(None))
)
RUN_COLUMNS = [runs.flow_member, runs.flow_attempt, runs.status, runs.end_number, runs.finished_at, runs.begun_at]
SIGHT_COLUMNS = [*RUN_COLUMNS, runs.reason, runs.outcome, runs.export_state, runs.tasks]
RUNS = (
    select(*SIGHT_COLUMNS)
    .join_from(histories, flow_members, and_(members.number == runs.flow_member, members.attempt == runs.flow_attempt))
    .where(runs.flow_uid == bindparam("of_uid"), members.flow == bindparam("of_flow"))
)
IS_OPEN = runs.status.in_(OPEN_STATUSES)
HAS_ENDED = and_(not_(IS_OPEN), runs.end_number > members.end_number)  # since the member's row was written
IS_REOPENED = and_(IS_OPEN, members.in_flight.is_(False), members.end_number > 0, runs.end_number >= members.end_number)
EVER_REOPENED = or_(runs.end_number > 1, and_(runs.end_number == 1, IS_OPEN))
# runs with an end or a reopening since the write to their member's row: few rows are read in a flow with any size
NEWS_UNDER_WAY = and_(members.in_flight, HAS_ENDED)
NEWS_AFTER_END = and_(EVER_REOPENED, or_(HAS_ENDED, IS_REOPENED))
NEWS = tuple(RUNS.where(has_news) for has_news in (NEWS_UNDER_WAY, NEWS_AFTER_END))
# a member's end is stored, its run was reopened since, and the supervisor has read neither the reopening nor an end
UNREAD = and_(
    runs.flow_manager.is_(None),
    NEWS_AFTER_END,
    members.end_number > 0,
    members.attempt_generation == members.generation,  # otherwise a retry has replaced the attempt
)
UNREAD_RUN = RUNS.where(UNREAD).limit(1)
OPEN_RUN = select(runs.id).where(runs.flow_uid == bindparam("of_uid"), IS_OPEN).limit(1)
TASK_ENDS = (
    select(runs.flow_member, attempts.generation, tasks.task, tasks.status)
    .join_from(histories, task_histories, tasks.history_id == runs.id)
    .join(flow_members, members.number == runs.flow_member)
    .join(
        flow_attempts,
        and_(
            attempts.flow == members.flow,
            attempts.member == members.number,
            attempts.attempt == runs.flow_attempt,
            attempts.generation == members.generation,
        ),
    )
    .where(
        runs.flow_uid == bindparam("of_uid"),
        members.flow == bindparam("of_flow"),
        members.number.in_(bindparam("numbers", expanding=True)),
        tasks.status.in_(OVER),
    )
    .order_by(runs.flow_member, runs.flow_attempt, tasks.task)
)
GENERATIONS = select(members.number, members.generation).where(
    members.flow == bindparam("of_flow"), members.number.in_(bindparam("numbers", expanding=True))
)
OF_ATTEMPTS = attempts.member.in_(bindparam("numbers", expanding=True))
OF_RUNS = runs.flow_member.in_(bindparam("numbers", expanding=True))
FEW_ENDS, FEW_RUNS = ENDS.where(OF_ATTEMPTS), RUNS.where(OF_RUNS)


def attempt_ends(connection: Connection, flow: int, numbers: Collection[int]) -> list[AttemptEnd]:
    """Return the stored ends of the members' last attempts. The end of a run is not stored here."""
    rows = _chosen(connection, ENDS, FEW_ENDS, {"of_flow": flow}, numbers)
    return [attempt_end(row) for row in rows]


def attempt_end(row: Row[Any]) -> AttemptEnd:
    return AttemptEnd(row.member, row.attempt, row.end_kind, row.ended_at, row.outcome, row.reason)


def run_sights(connection: Connection, flow: int, flow_uid: str, numbers: Collection[int]) -> list[RunSeen]:
    """Return the sights of the members' last runs."""
    rows = _chosen(connection, RUNS, FEW_RUNS, {"of_flow": flow, "of_uid": flow_uid}, numbers)
    return [run_sight(row) for row in rows]


def news_of_runs(connection: Connection, flow: int, flow_uid: str) -> list[RunSeen]:
    """Return the sights of runs that ended, or were reopened, since their member's row was written."""
    key = {"of_flow": flow, "of_uid": flow_uid}
    return [run_sight(row) for news in NEWS for row in connection.execute(news, key)]


def has_run_to_read(connection: Connection, flow: int, flow_uid: str) -> bool:
    """Return whether a run of an ended flow is open, or has ended since the flow's supervisor read the run."""
    keys = {"of_flow": flow, "of_uid": flow_uid}
    return any(connection.execute(query, keys).first() is not None for query in (OPEN_RUN, UNREAD_RUN))


def task_sights(connection: Connection, flow: int, flow_uid: str, numbers: Collection[int]) -> list[TasksSeen]:
    """Return the ended tasks of the members' attempts in their present generation. A success in any attempt counts.

    A member without ended tasks has an empty sight: so the supervisor learns that no task has succeeded.
    """
    if not numbers:
        return []
    key = {"of_flow": flow, "of_uid": flow_uid, "numbers": sorted(numbers)}
    generations: dict[int, int] = dict(iter(connection.execute(GENERATIONS, key)))
    ends: dict[int, dict[int, TaskStatus]] = {member: {} for member in generations}
    for member, _, task, status in connection.execute(TASK_ENDS, key):
        if ends[member].get(task) is not TaskStatus.SUCCEEDED:
            ends[member][task] = status
    return [TasksSeen(member, generations[member], known) for member, known in ends.items()]


def run_sight(row: Row[Any]) -> RunSeen:
    """Return the sight from a row with SIGHT_COLUMNS."""
    is_over = row.status.is_over
    return RunSeen(
        row.flow_member,
        row.flow_attempt,
        row.status,
        row.end_number if is_over else row.end_number + 1,
        row.finished_at if is_over else row.begun_at,
        row.reason,
        row.outcome,
        archived=row.export_state is ExportState.DONE,
        tasks=row.tasks,
    )


def _chosen(
    connection: Connection, whole: Any, few: Any, key: dict[str, Any], numbers: Collection[int]
) -> Iterator[Row[Any]]:
    """Yield the rows of these members. The first column is the member's number."""
    if not numbers:
        return
    if len(numbers) <= MOST_IN_STATEMENT:
        yield from connection.execute(few, {**key, "numbers": sorted(numbers)})
        return
    wanted = set(numbers)
    yield from (row for row in connection.execute(whole, key) if row[0] in wanted)
