"""Read a flow's ledger: its members and groups, and the begins, ends and runs of its members' attempts.

Hosts and runs write only rows of their own. The supervisor notes these news in the members' rows with its next write.
Until then, the stored row lags, and other readers use effective rows: stored rows, changed as the news change them.
A sight is one reading of a run or of a run's tasks. Statements with FEW in their name read the given numbers alone.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from sqlalchemy import Connection, Row, and_, bindparam, not_, or_, select

from crawler_lifecycle.database.flow_schema import attempt_begins, attempt_ends, flow_attempts, flow_members
from crawler_lifecycle.database.pages import PagedStatement, pages
from crawler_lifecycle.database.schema import histories, task_histories
from crawler_lifecycle.database.transactions import OPEN_STATUSES
from crawler_lifecycle.flows.rules.ends import AttemptBegun, AttemptEnd, RunSeen, TasksSeen, after_sight
from crawler_lifecycle.flows.rules.rows import TOP, GroupRow, Ledger, MemberRow
from crawler_lifecycle.flows.rules.states import effective
from crawler_lifecycle.flows.store.locks import locking
from crawler_lifecycle.flows.store.rows import (
    GROUP_COLUMNS,
    READ_MEMBER,
    flow_row,
    group_row,
    groups,
    member_row,
    members,
)
from crawler_lifecycle.model.flow_states import MemberKind
from crawler_lifecycle.model.states import OVER, ExportState, TaskStatus

attempts, begins, ends = flow_attempts.c, attempt_begins.c, attempt_ends.c
runs, tasks = histories.c, task_histories.c
AttemptKey = tuple[int, int]  # member's number, attempt's number
MOST_IN_STATEMENT = 500  # numbers; for more members, the rows of the whole flow are read and filtered here
FEW = 100  # numbers in a statement built once
NUMBERS: Any = bindparam("numbers", expanding=True)
OF_FLOW = members.flow == bindparam("of_flow")

# ends of attempts
IS_LAST_END = and_(ends.flow == members.flow, ends.member == members.number, ends.attempt == members.attempt)
HAS_NUMBER = ends.member.in_(NUMBERS)
END = select(ends.member, ends.attempt, ends.kind, ends.ended_at, ends.outcome, ends.reason)
ENDS = END.where(ends.flow == bindparam("of_flow"), HAS_NUMBER)
LAST_ENDS = END.join_from(attempt_ends, flow_members, IS_LAST_END).where(ends.flow == bindparam("of_flow"))
FEW_LAST_ENDS = LAST_ENDS.where(HAS_NUMBER)
UNNOTED_ENDS = LAST_ENDS.where(members.in_flight)
HAVE_ENDED = select(ends.member, ends.attempt).where(ends.flow == bindparam("of_flow"), HAS_NUMBER)

BEGINS_WITH_ENDS = (
    select(begins.member, begins.attempt, begins.generation, begins.begun_at)
    .add_columns(ends.kind, ends.ended_at, ends.outcome, ends.reason)
    .join_from(
        attempt_begins,
        attempt_ends,
        and_(ends.flow == begins.flow, ends.member == begins.member, ends.attempt == begins.attempt),
        isouter=True,
    )
)
# begins of steps unknown to their member's row; a later try of an attempt is no news for its member
IS_NEW_BEGIN = begins.noted.is_(False)
NEW_BEGINS = BEGINS_WITH_ENDS.where(begins.flow == bindparam("of_flow"), IS_NEW_BEGIN).order_by(
    begins.member, begins.attempt
)
FEW_NEW_BEGINS = NEW_BEGINS.where(begins.member.in_(NUMBERS))

# runs of crawls
RUN_COLUMNS = [runs.flow_member, runs.flow_attempt, runs.status, runs.end_number, runs.finished_at, runs.begun_at]
SIGHT_COLUMNS = [*RUN_COLUMNS, runs.reason, runs.outcome, runs.export_state, runs.tasks]
RUNS = (
    select(*SIGHT_COLUMNS)
    .join_from(histories, flow_members, and_(members.number == runs.flow_member, members.attempt == runs.flow_attempt))
    .where(runs.flow_uid == bindparam("of_uid"), OF_FLOW)
)
FEW_RUNS = RUNS.where(runs.flow_member.in_(NUMBERS))
HAVE_RUN = select(runs.flow_member, runs.flow_attempt).where(
    runs.flow_uid == bindparam("of_uid"), runs.flow_member.in_(NUMBERS)
)
IS_OPEN = runs.status.in_(OPEN_STATUSES)
OPEN_RUN = select(runs.id).where(runs.flow_uid == bindparam("of_uid"), IS_OPEN).limit(1)
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

# ended tasks in the runs of a member's generation
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
    .where(runs.flow_uid == bindparam("of_uid"), OF_FLOW, members.number.in_(NUMBERS), tasks.status.in_(OVER))
    .order_by(runs.flow_member, runs.flow_attempt, tasks.task)
)
GENERATIONS = select(members.number, members.generation).where(OF_FLOW, members.number.in_(NUMBERS))

# members and groups
ALL_GROUPS = select(*GROUP_COLUMNS).where(groups.flow == bindparam("of_flow"))
ALL_MEMBERS = select(*READ_MEMBER).where(OF_FLOW)
FEW_MEMBERS = ALL_MEMBERS.where(members.number.in_(NUMBERS)).order_by(members.number)
FEW_LOCKED = locking(FEW_MEMBERS, flow_members)
KEY = [members.flow, members.number]
MANY = select(*READ_MEMBER).order_by(members.number)
MANY_MEMBERS = PagedStatement(KEY, lambda _: MANY, locks=False)
MANY_LOCKED = PagedStatement(KEY, lambda _: locking(MANY, flow_members))


def unnoted(connection: Connection, flow: int) -> tuple[list[AttemptBegun], list[AttemptEnd]]:
    """Return the begins and ends unknown to their member's row, oldest first. Ends of runs are not here."""
    rows = connection.execute(NEW_BEGINS, {"of_flow": flow}).all()
    ended = [end_in(row) for row in connection.execute(UNNOTED_ENDS, {"of_flow": flow})]
    return [_begun(row) for row in rows], [*ended, *(end_in(row) for row in rows if row.kind is not None)]


def news_of_attempts(
    connection: Connection, flow: int, rows: Mapping[int, MemberRow]
) -> dict[int, list[AttemptBegun | AttemptEnd]]:
    """Return unnoted begins and ends by member, for the given rows alone, in the attempts' order."""
    key: dict[str, Any] = {"of_flow": flow}
    news: dict[int, list[AttemptBegun | AttemptEnd]] = {}
    in_flight = [row.number for row in rows.values() if row.in_flight]
    for row in _chosen(connection, LAST_ENDS, FEW_LAST_ENDS, key, in_flight):
        news.setdefault(row.member, []).append(end_in(row))
    steps = [row.number for row in rows.values() if row.kind is MemberKind.STEP]
    for row in _chosen(connection, NEW_BEGINS, FEW_NEW_BEGINS, key, steps):
        of_member = news.setdefault(row.member, [])
        of_member.append(_begun(row))
        if row.kind is not None:
            of_member.append(end_in(row))
    return news


def ends_of(connection: Connection, flow: int, keys: Collection[AttemptKey]) -> dict[AttemptKey, AttemptEnd]:
    """Return the attempts' stored ends, by member and attempt."""
    key = {"of_flow": flow, "numbers": sorted({number for number, _ in keys})}
    stored = [end_in(row) for row in connection.execute(ENDS, key)] if keys else []
    return {(end.number, end.attempt): end for end in stored if (end.number, end.attempt) in keys}


def are_on_record(connection: Connection, flow: int, flow_uid: str, attempts: Mapping[int, int]) -> bool:
    """Return whether all attempts have a stored end or a run. `attempts`: by member."""
    key, missing = {"of_flow": flow, "of_uid": flow_uid}, set(attempts.items())
    for query in (HAVE_ENDED, HAVE_RUN):
        for page in pages(sorted(number for number, _ in missing)):
            missing.difference_update((row[0], row[1]) for row in connection.execute(query, {**key, "numbers": page}))
    return not missing


def _begun(row: Any) -> AttemptBegun:
    return AttemptBegun(row.member, row.attempt, row.generation, row.begun_at)


def end_in(row: Any) -> AttemptEnd:
    """Return the end from a row with the columns of END."""
    return AttemptEnd(row.member, row.attempt, row.kind, row.ended_at, row.outcome, row.reason)


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


def read_members(
    connection: Connection, flow: int, numbers: Collection[int], *, locked: bool = False
) -> dict[int, MemberRow]:
    """Return the members with these numbers; unknown numbers are left out. `locked`: lock the rows, by number."""
    statement = FEW_LOCKED if locked else FEW_MEMBERS
    if len(numbers) <= FEW:
        key = {"of_flow": flow, "numbers": sorted(numbers)}
        return _by_number(connection.execute(statement, key)) if numbers else {}
    rows: dict[int, MemberRow] = {}
    for page in pages(sorted(numbers)):
        read = MANY_LOCKED if locked else MANY_MEMBERS
        rows |= _by_number(read(connection, [(flow, number) for number in page]))
    return rows


def read_groups(connection: Connection, flow: int) -> dict[int, GroupRow]:
    """Return all groups, the top level included."""
    rows = (group_row(values) for values in connection.execute(ALL_GROUPS, {"of_flow": flow}))
    return {TOP: GroupRow(TOP), **{row.number: row for row in rows}}


def read_ledger(connection: Connection, head: Row[Any], numbers: Collection[int] | None = None) -> Ledger:
    """Return the flow's ledger with effective rows. `keys` of appends are left out. `numbers`: only these members."""
    if numbers is None:
        rows = _by_number(connection.execute(ALL_MEMBERS, {"of_flow": head.id}))
    else:
        rows = read_members(connection, head.id, numbers)
    return Ledger(
        flow_row(head),
        read_groups(connection, head.id),
        effective_rows(connection, head.id, head.uid, rows),
        last_member=head.last_member,
        last_group=head.last_group,
    )


def effective_rows(
    connection: Connection, flow: int, flow_uid: str, rows: Mapping[int, MemberRow]
) -> dict[int, MemberRow]:
    """Return the stored rows as the unnoted begins, ends and runs change them."""
    news = news_of_attempts(connection, flow, rows)
    current = {number: effective(row, news.get(number, ())) for number, row in rows.items()}
    crawls = [row.number for row in rows.values() if row.kind is MemberKind.CRAWL and row.attempt]
    for seen in run_sights(connection, flow, flow_uid, crawls):
        current[seen.number] = after_sight(current[seen.number], seen)
    return current


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


def _by_number(rows: Any) -> dict[int, MemberRow]:
    return {values[0]: member_row(values) for values in rows}
