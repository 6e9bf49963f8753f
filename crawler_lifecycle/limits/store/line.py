"""The line of runs that wait for a permit, for readers."""

from sqlalchemy import ColumnElement, Connection, and_, case, func, or_, select

from crawler_lifecycle.database.schema import OWN_INSTALLATION, histories
from crawler_lifecycle.database.transactions import OPEN_STATUSES
from crawler_lifecycle.model.records import Place, RunRecord
from crawler_lifecycle.model.states import Intent

runs = histories.c


def is_in_line() -> ColumnElement[bool]:
    """Return the condition for the installation's runs that wait for their permit."""
    waits = and_(runs.held_by.is_not(None), runs.admitted_at.is_(None), runs.intent == Intent.RUN)
    return and_(waits, runs.status.in_(OPEN_STATUSES), runs.installation == OWN_INSTALLATION)


def place_in_line(connection: Connection, run: RunRecord) -> Place | None:
    """Return the run's place among the runs that the same scope holds; None unless the run waits for its permit."""
    if run.held_by is None or run.admitted_at is not None or run.intent is not Intent.RUN:
        return None
    is_before = or_(runs.priority > run.priority, and_(runs.priority == run.priority, runs.id <= run.run_id))
    query = select(func.sum(case((is_before, 1), else_=0)), func.count())
    number, length = connection.execute(query.where(runs.held_by == run.held_by, is_in_line())).one()
    return Place(number=int(number), length=length) if number else None
