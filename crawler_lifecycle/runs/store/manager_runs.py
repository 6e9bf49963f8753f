"""Attempts of managers' items, written by their runs: the run's creation, its end and its reopening.

The run's row is locked before. Only new tags of a job lock a run after its attempt, and may have to be tried again.
"""

from collections.abc import Collection, Mapping
from typing import Any

from sqlalchemy import Connection, Row, bindparam, delete, insert, or_, select, update

from crawler_lifecycle.database.flow_schema import flows
from crawler_lifecycle.database.manager_schema import manager_attempts
from crawler_lifecycle.database.schema import run_tags
from crawler_lifecycle.errors import Conflict
from crawler_lifecycle.model.run_plan import RunRef
from crawler_lifecycle.model.states import RunStatus

attempts = manager_attempts.c
FLOW = select(flows.c.id).where(flows.c.uid == bindparam("of_uid"))
IS_THIS = (
    attempts.flow == bindparam("of_flow"),
    attempts.member == bindparam("of_member"),
    attempts.attempt == bindparam("of_attempt"),
)
THIS_ATTEMPT = update(manager_attempts).where(*IS_THIS)
WITHOUT_REACTION = THIS_ATTEMPT.where(attempts.reacted_at.is_(None))
OPEN_OR_OF_RUN = THIS_ATTEMPT.where(or_(attempts.reacted_at.is_(None), attempts.run_id.is_not(None)))
IS_KNOWN, REQUEST = select(attempts.number).where(*IS_THIS), select(attempts.request).where(*IS_THIS)
NO_END = {"ended_at": None, "outcome": None, "is_failed": False, "stats": None, "result": None}


def tell_run(tx: Connection, values: Mapping[str, Any], run: RunRef, tags: Collection[str] = ()) -> None:
    """Write the run into its attempt. `values`: the run's row. `tags`: the stored tags.

    Conflict for an attempt that was refused: the activity of a terminated workflow may come so late, and nobody would
    react to the end of its run.
    """
    key = _key(tx, values["flow_uid"], values["flow_member"], values["flow_attempt"])
    if tx.execute(OPEN_OR_OF_RUN.values(run_id=run.run_id, run_uid=run.run_uid), key).rowcount:
        request = tx.scalar(REQUEST, key)
        if request is not None and set(request.tags) != set(tags):  # the manager has changed them since its start
            write_tags(tx, {run.run_id: request.tags})
        return
    if tx.execute(IS_KNOWN, key).one_or_none() is not None:
        raise Conflict(f"attempt {key['of_attempt']} of {values['flow_uid']} was refused before its run was made")


def write_tags(tx: Connection, tags_by_run: Mapping[int, Collection[str]]) -> None:
    """Replace the tags by which lists find the runs. The runs' requests keep the tags of the start."""
    if tags_by_run:
        tx.execute(delete(run_tags).where(run_tags.c.history_id.in_(sorted(tags_by_run))))
    if new := [{"history_id": run_id, "tag": tag} for run_id, tags in tags_by_run.items() for tag in sorted(set(tags))]:
        tx.execute(insert(run_tags), new)


def tell_end(tx: Connection, row: Row[Any], end: Mapping[str, Any]) -> None:
    """Write the run's end into its attempt. `end`: the new values in the run's row."""
    copies = {
        "ended_at": end["finished_at"],
        "outcome": end["outcome"],
        "is_failed": end["status"] is RunStatus.FAILED,
        "stats": end["stats"],
        "result": end["result"],
    }
    key = _key(tx, row.flow_uid, row.flow_member, row.flow_attempt)
    tx.execute(WITHOUT_REACTION.values(copies), key)


def tell_reopening(tx: Connection, row: Row[Any]) -> None:
    """Remove the run's end from its attempt. Conflict if the manager has reacted to the end."""
    key = _key(tx, row.flow_uid, row.flow_member, row.flow_attempt)
    if not tx.execute(WITHOUT_REACTION.values(NO_END), key).rowcount:
        raise Conflict(
            f"run {row.id} belongs to a crawl manager that has reacted to its end: retry the manager's item instead"
        )


def _key(tx: Connection, flow_uid: str, member: int, attempt: int) -> dict[str, Any]:
    return {"of_flow": tx.scalar(FLOW, {"of_uid": flow_uid}), "of_member": member, "of_attempt": attempt}
