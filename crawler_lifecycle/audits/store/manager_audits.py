"""Rows of crawl managers for the audit: attempts and runs that do not agree, and their repair."""

from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, Select, and_, bindparam, or_, select

from crawler_lifecycle.audits.ports import DoubtfulAttempt, UnknownRun
from crawler_lifecycle.database.flow_schema import flow_attempts, flow_members, flows
from crawler_lifecycle.database.manager_schema import manager_attempts, managers
from crawler_lifecycle.database.schema import histories
from crawler_lifecycle.database.transactions import reading, transaction
from crawler_lifecycle.flows.rules.ends import Refusal
from crawler_lifecycle.flows.store.locks import LOCKED
from crawler_lifecycle.flows.store.records import OPEN_STATES
from crawler_lifecycle.managers.store.jobs import refuse_attempt, start_of
from crawler_lifecycle.managers.store.locks import LOCK, Managed, OnManagers
from crawler_lifecycle.managers.store.rows import JOB_COLUMNS
from crawler_lifecycle.model.run_plan import RunRef
from crawler_lifecycle.model.states import RunStatus
from crawler_lifecycle.runs.store.manager_runs import tell_end, tell_run

attempts, runs = manager_attempts.c, histories.c
OVER = [status for status in RunStatus if status.is_over]
OF_MANAGER = and_(managers.c.flow == attempts.flow, managers.c.manager == attempts.manager)
OF_RUN = and_(runs.flow_uid == flows.c.uid, runs.flow_member == attempts.member, runs.flow_attempt == attempts.attempt)
IS_OVER = runs.status.in_(OVER)
IS_UNTOLD = or_(
    attempts.run_id.is_(None),
    and_(attempts.ended_at.is_(None), IS_OVER, runs.finished_at < bindparam("before")),
)
IS_UNSTARTED = and_(attempts.run_id.is_(None), attempts.ended_at.is_(None))
DOUBTFUL: Select[Any] = (
    select(
        *JOB_COLUMNS,
        attempts.flow,
        attempts.manager,
        *(flows.c.uid, flows.c.flow_id, flow_members.c.path),
        *(runs.id.label("found"), runs.run_uid.label("found_uid"), IS_UNTOLD.label("is_untold")),
        managers.c.problem.is_not(None).label("is_failing"),
    )
    .join_from(manager_attempts, managers, OF_MANAGER)
    .join(flows, flows.c.id == attempts.flow)
    .join(flow_members, and_(flow_members.c.flow == attempts.flow, flow_members.c.number == attempts.manager))
    .join(histories, OF_RUN, isouter=True)
    .where(
        or_(managers.c.closed_at.is_(None), IS_UNSTARTED),  # a manager that is closed leaves its crawls, and no start
        flows.c.state.in_(OPEN_STATES),
        attempts.reacted_at.is_(None),
        attempts.began_at < bindparam("before"),
        or_(runs.id.is_(None), IS_UNTOLD, attempts.ended_at < bindparam("before")),
    )
    .order_by(attempts.flow, attempts.manager, attempts.number)
    .limit(bindparam("most"))
)
FURTHER = DOUBTFUL.where(
    or_(
        attempts.flow > bindparam("of_flow"),
        and_(attempts.flow == bindparam("of_flow"), attempts.manager > bindparam("of_manager")),
        and_(
            attempts.flow == bindparam("of_flow"),
            attempts.manager == bindparam("of_manager"),
            attempts.number > bindparam("of_number"),
        ),
    )
)
IS_ATTEMPT = and_(
    attempts.flow == flows.c.id, attempts.member == runs.flow_member, attempts.attempt == runs.flow_attempt
)
IS_ATTEMPT_OF_GRAPH = and_(
    flow_attempts.c.flow == flows.c.id,
    flow_attempts.c.member == runs.flow_member,
    flow_attempts.c.attempt == runs.flow_attempt,
)
UNKNOWN_RUNS = (
    select(flows.c.flow_id, runs.id, runs.run_uid)
    .join_from(histories, flows, flows.c.uid == runs.flow_uid)
    .join(manager_attempts, IS_ATTEMPT, isouter=True)
    .join(flow_attempts, IS_ATTEMPT_OF_GRAPH, isouter=True)
    .where(
        runs.status.not_in(OVER),
        runs.begun_at < bindparam("before"),
        attempts.number.is_(None),
        or_(runs.flow_manager.is_not(None), flow_attempts.c.attempt.is_(None)),
    )
    .order_by(runs.id)
    .limit(bindparam("most"))
)
RUN_LOCKED = (
    select(histories)
    .where(
        runs.flow_uid == bindparam("of_uid"),
        runs.flow_member == bindparam("of_member"),
        runs.flow_attempt == bindparam("of_attempt"),
    )
    .with_for_update()
)
ATTEMPT = select(attempts.manager, attempts.number).where(
    attempts.flow == bindparam("of_flow"),
    attempts.member == bindparam("of_member"),
    attempts.attempt == bindparam("of_attempt"),
)


class SqlManagerAudits(OnManagers):
    """The methods in `audits.ports.ManagerAudits`."""

    @reading
    def doubtful(
        self, connection: Connection, before: datetime, *, after: str = "", limit: int
    ) -> list[DoubtfulAttempt]:
        key: dict[str, Any] = {"before": before, "most": limit}
        if after:
            key |= dict(zip(("of_flow", "of_manager", "of_number"), map(int, after.split("/")), strict=True))
        return [_doubtful(row) for row in connection.execute(FURTHER if after else DOUBTFUL, key)]

    @reading
    def unknown_runs(self, connection: Connection, before: datetime, limit: int) -> list[UnknownRun]:
        return [UnknownRun(*row) for row in connection.execute(UNKNOWN_RUNS, {"before": before, "most": limit})]

    @transaction
    def copy_run(self, tx: Connection, flow_uid: str, member: int, attempt: int) -> bool:
        key = {"of_uid": flow_uid, "of_member": member, "of_attempt": attempt}
        row = tx.execute(RUN_LOCKED, key).one_or_none()
        if row is None:
            return False
        values = {column.name: getattr(row, column.name) for column in histories.c}
        tell_run(tx, values, RunRef(run_id=row.id, run_uid=row.run_uid, epoch=row.epoch))
        if row.status.is_over:
            tell_end(tx, row, values)
        return True

    @transaction
    def refuse(self, tx: Connection, flow_uid: str, member: int, attempt: int, refusal: Refusal) -> bool:
        head = self.head(tx, flow_uid, LOCKED)
        key = {"of_flow": head.id, "of_member": member, "of_attempt": attempt}
        if (item := tx.execute(ATTEMPT, key).one_or_none()) is None:
            return False
        manager = {"of_flow": head.id, "of_manager": item.manager}
        mine = Managed(tx, tx.execute(LOCK, manager).one(), flow_uid, self._db.clock(), head)
        if not refuse_attempt(mine, item.number, attempt, refusal):
            return False
        mine.count("items_door")  # wakes the manager
        mine.save()
        return True


def _doubtful(row: Row[Any]) -> DoubtfulAttempt:
    start = start_of(row, row.path, row, row)
    return DoubtfulAttempt(
        position=f"{row.flow}/{row.manager}/{row.number}",
        flow_uid=row.uid,
        flow_id=row.flow_id,
        member=row.member,
        number=row.number,
        attempt=row.attempt,
        key=start.job.key,
        request=start.request,
        began_at=row.began_at,
        ended_at=row.ended_at,
        run_id=row.found,
        run_uid=row.found_uid,
        knows_run=row.found is not None and not row.is_untold,
        is_failing=bool(row.is_failing),
    )
