"""Tables for crawl managers: a manager's row, its items, and their attempts.

The rows have no foreign key: for the key, MySQL would lock the flow's row after the manager's row, and deadlock with a
door.
"""

import sqlalchemy as sa

from crawler_lifecycle.database.schema import TABLE_OPTIONS, metadata, now
from crawler_lifecycle.database.types import Id, Json, JsonModel, LongText, ShortText, UtcDateTime, growing, stored_enum
from crawler_lifecycle.model.manager_items import LONGEST_KEY, CodeProblem, ItemState, Origin, Verdict
from crawler_lifecycle.model.outcome_words import FINISHED
from crawler_lifecycle.model.requests import RunParameters


def _of_manager() -> list[sa.Column[int]]:
    return [
        sa.Column("flow", Id, nullable=False, autoincrement=False),
        sa.Column("manager", sa.Integer, nullable=False, autoincrement=False),  # number of the flow's member
    ]


managers = sa.Table(
    "managers",
    metadata,
    *_of_manager(),
    # the right to write: the member's attempt, and the token of its claim
    sa.Column("attempt", sa.Integer, nullable=False),
    sa.Column("token", sa.String(64), nullable=False),
    sa.Column("child", sa.String(64), nullable=False),  # id of the present object's process
    sa.Column("incarnation", sa.Integer, nullable=False),
    sa.Column("first_began_at", UtcDateTime, nullable=False),
    sa.Column("tags", Json, nullable=False),
    sa.Column("state", Json),  # the author's
    sa.Column("output", Json),  # the last lines by the object's processes
    sa.Column("setbacks", Json),  # the host's counts of failures in author's code
    sa.Column("stats", Json, nullable=False),
    sa.Column("cursor", Json),
    sa.Column("read_sets", sa.BigInteger, nullable=False),  # parameter sets taken from the generator
    sa.Column("digest", sa.String(64)),  # of these parameter sets; None: any sets are right
    sa.Column("repeated", sa.BigInteger, nullable=False),
    sa.Column("is_exhausted", sa.Boolean, nullable=False),
    sa.Column("last_item", sa.Integer, nullable=False),
    # numbers of settled items: to count a million of rows takes too long
    sa.Column("completed", sa.Integer, nullable=False),
    sa.Column("failed", sa.Integer, nullable=False),
    sa.Column("cancelled", sa.Integer, nullable=False),
    sa.Column("refused", sa.Integer, nullable=False),
    sa.Column("items_door", sa.Integer, nullable=False),  # last door that added or renewed items, or ended a drain
    sa.Column("last_call", sa.String(64)),  # the last commit, with the numbers of its items
    sa.Column("last_numbers", Json),
    sa.Column("problem", JsonModel(CodeProblem)),
    sa.Column("close_reason", ShortText(128)),
    sa.Column("closed_at", UtcDateTime),
    growing("changed_at", now),
    sa.PrimaryKeyConstraint("flow", "manager", name="pk_managers"),
    sa.Index("ix_managers_token", "token"),
    **TABLE_OPTIONS,
)

manager_items = sa.Table(
    "manager_items",
    metadata,
    *_of_manager(),
    sa.Column("number", sa.Integer, nullable=False, autoincrement=False),
    sa.Column("member", sa.Integer, nullable=False),  # number among the flow's members, for runs
    sa.Column("dedup_key", sa.String(LONGEST_KEY)),
    sa.Column("origin", stored_enum(Origin), nullable=False),
    sa.Column("state", stored_enum(ItemState), nullable=False),
    sa.Column("place", sa.Integer, nullable=False),  # order of the choice
    sa.Column("due", UtcDateTime),  # end of the pause before the next attempt
    sa.Column("generation", sa.Integer, nullable=False),
    sa.Column("attempt", sa.Integer, nullable=False),
    sa.Column("tries", sa.Integer, nullable=False),  # attempts in the present generation
    sa.Column("override", Json, nullable=False),
    sa.Column("request", JsonModel(RunParameters)),
    sa.Column("problem", LongText(1000)),
    growing("changed_at", now),
    sa.PrimaryKeyConstraint("flow", "manager", "number", name="pk_manager_items"),
    sa.UniqueConstraint("flow", "manager", "dedup_key", name="uq_manager_items_key"),
    sa.Index("ix_manager_items_state", "flow", "manager", "state", "place", "number", "due"),
    **TABLE_OPTIONS,
)

# keys from removed items: an item with such a key is still a repeat
manager_keys = sa.Table(
    "manager_keys",
    metadata,
    *_of_manager(),
    sa.Column("dedup_key", sa.String(LONGEST_KEY), nullable=False),
    sa.Column("number", sa.Integer, nullable=False),
    sa.PrimaryKeyConstraint("flow", "manager", "dedup_key", name="pk_manager_keys"),
    **TABLE_OPTIONS,
)

manager_attempts = sa.Table(
    "manager_attempts",
    metadata,
    *_of_manager(),
    sa.Column("number", sa.Integer, nullable=False, autoincrement=False),
    sa.Column("attempt", sa.Integer, nullable=False, autoincrement=False),
    sa.Column("member", sa.Integer, nullable=False),
    sa.Column("generation", sa.Integer, nullable=False),
    sa.Column("tries", sa.Integer, nullable=False),
    sa.Column("override", Json, nullable=False),
    sa.Column("request", JsonModel(RunParameters), nullable=False),
    sa.Column("began_at", UtcDateTime, nullable=False),
    # copies from the run, which may be pruned
    sa.Column("run_id", Id),
    sa.Column("run_uid", sa.String(36)),
    sa.Column("ended_at", UtcDateTime),
    sa.Column("outcome", ShortText(64)),
    sa.Column("is_failed", sa.Boolean, nullable=False),
    sa.Column("stats", Json),
    sa.Column("result", Json),
    sa.Column("reacted_at", UtcDateTime),
    sa.Column("verdict", stored_enum(Verdict)),
    sa.PrimaryKeyConstraint("flow", "manager", "number", "attempt", name="pk_manager_attempts"),
    sa.UniqueConstraint("flow", "member", "attempt", name="uq_manager_attempts_member"),
    sa.Index("ix_manager_attempts_open", "flow", "manager", "reacted_at", "ended_at", "number"),
    sa.Index("ix_manager_attempts_outcome", "flow", "manager", "outcome", "number"),  # for lists
    **TABLE_OPTIONS,
)
# refused items that count as failures: a manager that closed as finished has skipped them, or its own filter has
REFUSED_AS_FAILED = sa.case((managers.c.close_reason == FINISHED, 0), else_=managers.c.refused)
