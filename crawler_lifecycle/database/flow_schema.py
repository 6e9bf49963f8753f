"""Tables for flows: the ledger. All rows of a flow refer to the flow's row.

`door` in a row is the number of the door that changed the row last: a supervisor reads the rows after a door.
"""

import sqlalchemy as sa

from crawler_lifecycle.base.names import LONGEST_PATH
from crawler_lifecycle.base.requesters import LONGEST_REQUESTER
from crawler_lifecycle.database.schema import TABLE_OPTIONS, metadata, now
from crawler_lifecycle.database.types import (
    Document,
    Id,
    Json,
    JsonModel,
    LongText,
    Packed,
    ShortText,
    UtcDateTime,
    growing,
    stored_enum,
)
from crawler_lifecycle.model.flow_retrying import RetryPolicy
from crawler_lifecycle.model.flow_states import (
    EndKind,
    FlowEnd,
    FlowIntent,
    FlowState,
    GroupGrowth,
    MemberKind,
    MemberState,
    Ready,
)

flows = sa.Table(
    "flows",
    metadata,
    sa.Column("id", Id, nullable=False, autoincrement=True),
    sa.Column("uid", sa.String(36), nullable=False),
    sa.Column("flow_id", sa.String(128), nullable=False),  # the author's id
    sa.Column("name", sa.String(128)),
    sa.Column("family", sa.String(128)),
    sa.Column("state", stored_enum(FlowState), nullable=False),
    sa.Column("intent", stored_enum(FlowIntent), nullable=False),
    sa.Column("accepts_members", sa.Boolean, nullable=False),
    sa.Column("max_parallel", sa.Integer),
    sa.Column("context", Json),
    sa.Column("fingerprint", sa.String(64), nullable=False),  # in the context
    sa.Column("ignore_cancelled", sa.Boolean, nullable=False),
    sa.Column("ignore_discarded", sa.Boolean, nullable=False),
    sa.Column("own_host", sa.String(128), nullable=False),  # empty: all hosts
    sa.Column("last_member", sa.Integer, nullable=False),  # highest number ever used
    sa.Column("last_group", sa.Integer, nullable=False),
    sa.Column("door", sa.Integer, nullable=False),
    sa.Column("removal", sa.Integer, nullable=False),  # last door that removed rows; 0: none did
    sa.Column("epoch", sa.Integer, nullable=False),
    sa.Column("version", sa.Integer, nullable=False),  # number of the last act by a supervisor
    sa.Column("supervisor_workflow_id", sa.String(128)),
    sa.Column("supervisor_run_id", sa.String(36)),
    sa.Column("supervisor_began_at", UtcDateTime),
    sa.Column("created_by", ShortText(LONGEST_REQUESTER)),
    sa.Column("created_at", UtcDateTime, nullable=False),
    sa.Column("updated_at", UtcDateTime, nullable=False),  # last door
    sa.Column("started_at", UtcDateTime),  # first start of a member
    sa.Column("stopped_at", UtcDateTime),  # end; null while the flow is open
    growing("changed_at", now),
    sa.PrimaryKeyConstraint("id", name="pk_flows"),
    sa.UniqueConstraint("uid", name="uq_flows_uid"),
    sa.UniqueConstraint("flow_id", name="uq_flows_flow_id"),
    sa.Index("ix_flows_state", "state", "changed_at"),
    sa.Index("ix_flows_family", "family"),
    sa.Index("ix_flows_stopped_at", "stopped_at"),
    sqlite_autoincrement=True,
    **TABLE_OPTIONS,
)


def _of_flow(table: str) -> sa.Column[int]:
    return sa.Column("flow", Id, sa.ForeignKey("flows.id", name=f"fk_{table}_flow"), nullable=False)


# without the top level, whose values are in the flow's row
flow_groups = sa.Table(
    "flow_groups",
    metadata,
    _of_flow("flow_groups"),
    sa.Column("number", sa.Integer, nullable=False, autoincrement=False),
    sa.Column("path", sa.String(LONGEST_PATH), nullable=False),
    sa.Column("parent", sa.Integer),
    sa.Column("needs", Document, nullable=False),
    sa.Column("ignore_cancelled", sa.Boolean, nullable=False),
    sa.Column("ignore_discarded", sa.Boolean, nullable=False),
    sa.Column("max_parallel", sa.Integer),
    sa.Column("growth", stored_enum(GroupGrowth)),
    sa.Column("grower", sa.Integer),
    sa.Column("expected", sa.Integer, nullable=False),
    sa.Column("context", Json),  # encoded values of the group alone
    sa.Column("context_fingerprint", sa.String(64), nullable=False),
    sa.Column("fingerprint", sa.String(64), nullable=False),
    sa.Column("definition", Document, nullable=False),
    sa.Column("door", sa.Integer, nullable=False),
    sa.PrimaryKeyConstraint("flow", "number", name="pk_flow_groups"),
    sa.Index("ix_flow_groups_grower", "flow", "grower"),
    **TABLE_OPTIONS,
)

flow_members = sa.Table(
    "flow_members",
    metadata,
    _of_flow("flow_members"),
    sa.Column("number", sa.Integer, nullable=False, autoincrement=False),
    sa.Column("path", sa.String(LONGEST_PATH), nullable=False),
    sa.Column("path_uid", sa.String(36), nullable=False),  # computed from the path, which is too long for an index
    sa.Column("group_number", sa.Integer, nullable=False),
    sa.Column("kind", stored_enum(MemberKind), nullable=False),
    sa.Column("needs", Document, nullable=False),
    sa.Column("ignore_cancelled", sa.Boolean, nullable=False),
    sa.Column("ignore_discarded", sa.Boolean, nullable=False),
    sa.Column("retry", JsonModel(RetryPolicy), nullable=False),
    sa.Column("priority", sa.Integer, nullable=False),
    sa.Column("ready", stored_enum(Ready), nullable=False),
    sa.Column("route", sa.String(800), nullable=False),  # queue and function of a step
    sa.Column("start_at", UtcDateTime),
    sa.Column("timeout_seconds", sa.Double),
    sa.Column("fingerprint", sa.String(64), nullable=False),
    sa.Column("definition", Document, nullable=False),
    sa.Column("arguments", Json),  # of the last retry with arguments; null: the arguments in the definition
    sa.Column("memory_factor", sa.Double),  # after a retry under a rule with a factor; null: the definition's factor
    sa.Column("state", stored_enum(MemberState), nullable=False),
    sa.Column("cause", ShortText(255)),
    sa.Column("reason", LongText(4000)),
    sa.Column("outcome", ShortText(128)),
    sa.Column("since", UtcDateTime),
    sa.Column("due", UtcDateTime),
    sa.Column("generation", sa.Integer, nullable=False),
    sa.Column("attempt", sa.Integer, nullable=False),
    sa.Column("attempt_generation", sa.Integer, nullable=False),
    sa.Column("tries", sa.Integer, nullable=False),
    sa.Column("tries_by_outcome", Document, nullable=False),
    sa.Column("in_flight", sa.Boolean, nullable=False),
    sa.Column("terminate", sa.Boolean, nullable=False),
    sa.Column("end_number", sa.Integer, nullable=False),  # the run's last end that the row knows; 0: none
    sa.Column("decision", sa.Boolean),
    sa.Column("stop_reason", LongText(1024)),  # from the cancel during an attempt
    sa.Column("started_at", UtcDateTime),
    sa.Column("ended_at", UtcDateTime),
    sa.Column("door", sa.Integer, nullable=False),
    growing("changed_at", now),  # set by every UPDATE; followers read only changed members
    sa.PrimaryKeyConstraint("flow", "number", name="pk_flow_members"),
    sa.UniqueConstraint("flow", "path_uid", name="uq_flow_members_path"),
    # covers a status: the database counts a flow's members without a read of their rows
    sa.Index("ix_flow_members_state", "flow", "in_flight", "state", "group_number", "started_at", "ended_at"),
    sa.Index("ix_flow_members_changed", "flow", "changed_at"),
    sa.Index("ix_flow_members_door", "flow", "door"),
    **TABLE_OPTIONS,
)

# Crawls' attempts. A step's attempt is its first begin.
flow_attempts = sa.Table(
    "flow_attempts",
    metadata,
    _of_flow("flow_attempts"),
    sa.Column("member", sa.Integer, nullable=False, autoincrement=False),
    sa.Column("attempt", sa.Integer, nullable=False, autoincrement=False),
    sa.Column("generation", sa.Integer, nullable=False),
    sa.Column("workflow_id", sa.String(128), nullable=False),  # of the run
    sa.Column("arguments", Json),  # null: the arguments in the definition
    sa.Column("memory_factor", sa.Double),  # null: the factor in the definition
    sa.Column("created_at", UtcDateTime, nullable=False),
    sa.PrimaryKeyConstraint("flow", "member", "attempt", name="pk_flow_attempts"),
    **TABLE_OPTIONS,
)

# A host inserts a step's begin before the call. A further try is for the next host, once the lease is over. No foreign
# key, as for the ends.
attempt_begins = sa.Table(
    "attempt_begins",
    metadata,
    sa.Column("flow", Id, nullable=False, autoincrement=False),
    sa.Column("member", sa.Integer, nullable=False, autoincrement=False),
    sa.Column("attempt", sa.Integer, nullable=False, autoincrement=False),
    sa.Column("number", sa.Integer, nullable=False, autoincrement=False),  # the try
    sa.Column("counted", sa.Integer, nullable=False),  # tries whose death counts
    sa.Column("generation", sa.Integer, nullable=False),
    sa.Column("arguments", Json),  # null: the arguments in the definition
    sa.Column("token", sa.String(64), nullable=False),  # in `step_leases`
    sa.Column("host", ShortText(255), nullable=False),
    sa.Column("code_version", ShortText(128)),
    sa.Column("begun_at", UtcDateTime, nullable=False),
    sa.Column("noted", sa.Boolean, nullable=False),  # whether the member's row knows the attempt
    sa.PrimaryKeyConstraint("flow", "member", "attempt", "number", name="pk_attempt_begins"),
    sa.Index("ix_attempt_begins_noted", "flow", "noted"),
    **TABLE_OPTIONS,
)

# a row per host; without a lease, or after its time, the host's attempts are for other hosts
step_leases = sa.Table(
    "step_leases",
    metadata,
    sa.Column("token", sa.String(64), nullable=False),
    sa.Column("expires_at", UtcDateTime, nullable=False),
    sa.PrimaryKeyConstraint("token", name="pk_step_leases"),
    **TABLE_OPTIONS,
)

# Ends of attempts with their results. An end is inserted once, and the first one counts. A crawl ends with its run, and
# has a row here only if its start was refused. A decision about an approval has its generation as its attempt.
# No foreign key: for the key, MySQL would lock the flow's row after the attempt's row, and deadlock with a door.
attempt_ends = sa.Table(
    "attempt_ends",
    metadata,
    sa.Column("flow", Id, nullable=False, autoincrement=False),
    sa.Column("member", sa.Integer, nullable=False, autoincrement=False),
    sa.Column("attempt", sa.Integer, nullable=False, autoincrement=False),
    sa.Column("kind", stored_enum(EndKind), nullable=False),
    sa.Column("ended_at", UtcDateTime, nullable=False),
    sa.Column("outcome", ShortText(128)),
    sa.Column("reason", LongText(4000)),
    sa.Column("error", LongText(16_000, keep_end=True)),
    sa.Column("value", Packed),
    sa.Column("size", sa.Integer, nullable=False),  # bytes of the value as JSON
    sa.PrimaryKeyConstraint("flow", "member", "attempt", name="pk_attempt_ends"),
    **TABLE_OPTIONS,
)

# keys of appends that were made
flow_appends = sa.Table(
    "flow_appends",
    metadata,
    _of_flow("flow_appends"),
    sa.Column("key", sa.String(128), nullable=False),
    sa.Column("made_at", UtcDateTime, nullable=False),
    sa.PrimaryKeyConstraint("flow", "key", name="pk_flow_appends"),
    **TABLE_OPTIONS,
)

flow_logs = sa.Table(
    "flow_logs",
    metadata,
    sa.Column("id", Id, nullable=False, autoincrement=True),
    _of_flow("flow_logs"),
    sa.Column("at", UtcDateTime, nullable=False),
    sa.Column("event", sa.String(64), nullable=False),
    sa.Column("message", LongText(4000), nullable=False),
    sa.Column("actor", ShortText(LONGEST_REQUESTER)),
    sa.Column("door", ShortText(64)),
    sa.PrimaryKeyConstraint("id", name="pk_flow_logs"),
    sa.Index("ix_flow_logs_flow", "flow", "id"),
    **TABLE_OPTIONS,
)

# Flows' ends. An end is written with the flow's final state, so no end goes without its announcement.
flow_ends = sa.Table(
    "flow_ends",
    metadata,
    _of_flow("flow_ends"),
    sa.Column("number", sa.Integer, nullable=False, autoincrement=False),
    sa.Column("content", JsonModel(FlowEnd), nullable=False),
    sa.Column("ended_at", UtcDateTime, nullable=False),
    sa.Column("notice_owed", sa.Boolean, nullable=False),
    sa.Column("event_owed", sa.Boolean, nullable=False),
    sa.Column("is_owed", sa.Boolean, nullable=False),  # notice or event, for the audit's index
    sa.Column("problem", LongText(1000)),  # the last failure, or the refusal for good
    sa.PrimaryKeyConstraint("flow", "number", name="pk_flow_ends"),
    sa.Index("ix_flow_ends_owed", "is_owed", "ended_at"),
    **TABLE_OPTIONS,
)
