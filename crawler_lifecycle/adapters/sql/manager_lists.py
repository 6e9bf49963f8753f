"""Lists of a manager's jobs: the attempts of its items, also in further flows with the manager's name."""

from collections.abc import Collection
from typing import Any

from sqlalchemy import Connection, and_, select

from crawler_lifecycle.adapters.sql.flow_schema import flows
from crawler_lifecycle.adapters.sql.manager_locks import OnManagers
from crawler_lifecycle.adapters.sql.manager_rows import JOB_COLUMNS, job_of
from crawler_lifecycle.adapters.sql.manager_schema import manager_attempts, manager_items, managers
from crawler_lifecycle.adapters.sql.transactions import reading
from crawler_lifecycle.contract.managers.items import Job, JobState
from crawler_lifecycle.ports.managers import ManagerRef

items, attempts = manager_items.c, manager_attempts.c
IS_LAST_ATTEMPT = and_(
    attempts.flow == items.flow,
    attempts.manager == items.manager,
    attempts.number == items.number,
    attempts.attempt == items.attempt,
)
HAS_END = {JobState.RUNNING: attempts.ended_at.is_(None), JobState.FINISHED: attempts.ended_at.is_not(None)}
ATTEMPTS = (
    select(*JOB_COLUMNS, flows.c.uid)
    .join_from(manager_attempts, flows, flows.c.id == attempts.flow)
    .order_by(attempts.number, attempts.flow, attempts.attempt)
)
ROWS_FOR_A_FILTER = 1000


class ManagerLists(OnManagers):
    """The method in `ports.ManagerLedger` for lists."""

    @reading
    def jobs(
        self,
        connection: Connection,
        ref: ManagerRef,
        state: JobState,
        *,
        after: int = 0,
        limit: int,
        tags: Collection[str] = (),
        every_flow: bool = False,
    ) -> list[Job]:
        row = self.fenced(connection, ref)
        query = ATTEMPTS.where(HAS_END[state])
        if every_flow:
            head = self.head(connection, ref.flow_uid)
            named = select(flows.c.id).join(managers, managers.c.flow == flows.c.id)
            query = query.where(attempts.flow.in_(named.where(flows.c.name == head.name)))
        else:
            query = query.where(attempts.flow == row.flow, attempts.manager == row.manager)
        jobs: list[Job] = []
        while len(jobs) < limit:
            size = ROWS_FOR_A_FILTER if tags else limit
            page = _page(connection, query, after, size)
            if not page:
                break
            jobs += [job for job in page if set(tags) <= set(job.request.tags)]
            after = page[-1].number
        return _whole_numbers(jobs, limit)


def _page(connection: Connection, query: Any, after: int, size: int) -> list[Job]:
    """Return the next jobs by number. The page has all jobs with its last number."""
    rows = connection.execute(query.where(attempts.number > after).limit(size)).all()
    if len(rows) == size:
        rest = connection.execute(query.where(attempts.number == rows[-1].number)).all()
        rows = [row for row in rows if row.number != rows[-1].number] + list(rest)
    return [job_of(row.uid, row) for row in rows]


def _whole_numbers(jobs: list[Job], limit: int) -> list[Job]:
    """Return the first jobs up to the limit, and all further jobs with the last number."""
    if len(jobs) <= limit:
        return jobs
    last = jobs[limit - 1].number
    return [job for job in jobs if job.number <= last]
