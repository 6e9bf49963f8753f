"""Lists of a manager's jobs: the attempts of its items, also in further flows with the manager's name."""

from typing import Any

from sqlalchemy import Connection, Row, and_, or_, select

from crawler_lifecycle.database.flow_schema import flows
from crawler_lifecycle.database.manager_schema import manager_attempts, manager_items, managers
from crawler_lifecycle.database.schema import OWN_INSTALLATION, histories, history_labels, run_tags
from crawler_lifecycle.database.transactions import OPEN_STATUSES, reading
from crawler_lifecycle.database.types import is_text
from crawler_lifecycle.managers.ports import ManagerRef
from crawler_lifecycle.managers.store.locks import OnManagers
from crawler_lifecycle.managers.store.rows import JOB_COLUMNS, WITH_RUNS, job_of, job_of_run
from crawler_lifecycle.model.manager_items import Job, JobFilter, JobState

items, attempts = manager_items.c, manager_attempts.c
IS_LAST_ATTEMPT = and_(
    attempts.flow == items.flow,
    attempts.manager == items.manager,
    attempts.number == items.number,
    attempts.attempt == items.attempt,
)
runs, TAGS, LABELS = histories.c, run_tags.c, history_labels.c
HAS_STATE = {
    JobState.RUNNING: runs.status.in_(OPEN_STATUSES),
    JobState.FINISHED: runs.status.not_in(OPEN_STATUSES),
}
HAS_END = {JobState.RUNNING: attempts.ended_at.is_(None), JobState.FINISHED: attempts.ended_at.is_not(None)}
ATTEMPTS = (
    select(*JOB_COLUMNS, flows.c.uid)
    .select_from(WITH_RUNS.join(flows, flows.c.id == attempts.flow))
    .order_by(attempts.number, attempts.flow, attempts.attempt)
)


class ManagerLists(OnManagers):
    """The methods in `managers.ports.ManagerLedger` for lists."""

    @reading
    def runs(self, connection: Connection, ref: ManagerRef, chosen: JobFilter) -> list[Job]:
        self.fenced(connection, ref)
        query = select(histories).where(runs.installation == OWN_INSTALLATION).order_by(runs.id.desc())
        if chosen.states:
            query = query.where(or_(*(HAS_STATE[state] for state in chosen.states)))
        if chosen.keys:
            query = query.where(runs.workflow_id.in_(chosen.keys))
        if chosen.spider is not None:
            query = query.where(is_text(runs.crawler, chosen.spider))
        for tag in chosen.tags:
            query = query.where(runs.id.in_(select(TAGS.history_id).where(is_text(TAGS.tag, tag))))
        for label in chosen.labels:
            query = query.where(runs.id.in_(select(LABELS.history_id).where(is_text(LABELS.label, label))))
        if chosen.before is not None:
            query = query.where(runs.id < chosen.before)
        rows = connection.execute(query.limit(chosen.limit)).all()
        tags: dict[int, list[str]] = {row.id: [] for row in rows}
        for run_id, tag in connection.execute(select(TAGS.history_id, TAGS.tag).where(TAGS.history_id.in_(tags))):
            tags[run_id].append(tag)
        return [job_of_run(row, sorted(tags[row.id])) for row in rows]

    @reading
    def jobs(
        self,
        connection: Connection,
        ref: ManagerRef,
        state: JobState,
        *,
        after: int = 0,
        limit: int,
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
        rows: list[Row[Any]] = [*connection.execute(query.where(attempts.number > after).limit(limit))]
        if len(rows) == limit:
            last = rows[-1].number
            rows = [row for row in rows if row.number != last]
            rows += connection.execute(query.where(attempts.number == last))
        return [job_of(row.uid, row) for row in rows]
