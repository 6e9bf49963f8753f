"""Tables of the database. `migrations/` creates the tables; a test proves that both agree.

Everything about a run refers to the run's row in `histories`. Every write to a run or its tasks locks the run's row
first: writers to the same run follow each other and cannot deadlock.
"""

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    Boolean,
    CheckConstraint,
    Column,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    UniqueConstraint,
    select,
)

from crawler_lifecycle.adapters.sql.moments import growing
from crawler_lifecycle.adapters.sql.types import Document, Id, Line, Lines, Model, UtcDateTime, words
from crawler_lifecycle.contract.audits import FindingKind
from crawler_lifecycle.contract.outcome_facts import OutcomeFacts
from crawler_lifecycle.contract.states import ExportState, Intent, RunStatus, TaskStatus, Trigger

REVISION = "0001"
LONGEST_WORKFLOW_ID = 700  # with the execution's id the longest id that fits a unique key in InnoDB


def now() -> datetime:
    return datetime.now(UTC)


metadata = MetaData()
# names and ids differ by case, which MySQL's default collation ignores
MYSQL: dict[str, Any] = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}

installation = Table(
    "installation",
    metadata,
    Column("id", Integer, nullable=False, autoincrement=False),
    Column("uid", String(36), nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    # the place of the installation's jobs, known from the first look on
    Column("namespace", String(63)),
    Column("namespace_uid", String(128)),
    Column("cluster_uid", String(128)),
    PrimaryKeyConstraint("id", name="pk_installation"),
    CheckConstraint("id = 1", name="ck_installation_single"),
    **MYSQL,
)
OWN_INSTALLATION = select(installation.c.uid).scalar_subquery()

histories = Table(
    "histories",
    metadata,
    Column("id", Id, nullable=False, autoincrement=True),
    Column("run_uid", String(36), nullable=False),
    Column("installation", String(36), nullable=False),
    Column("cluster", String(63), nullable=False),
    Column("crawler", String(128), nullable=False),
    Column("trigger_kind", words(Trigger), nullable=False),
    Column("status", words(RunStatus), nullable=False),
    Column("reason", Line(128)),
    Column("intent", words(Intent), nullable=False),
    Column("tasks", Integer, nullable=False),
    Column("max_parallel", Integer),
    # the execution that created the run never changes; the supervising execution does
    Column("workflow_id", String(LONGEST_WORKFLOW_ID), nullable=False),
    Column("first_execution_run_id", String(36), nullable=False),
    Column("supervisor_workflow_id", String(LONGEST_WORKFLOW_ID), nullable=False),
    Column("supervisor_run_id", String(36), nullable=False),
    Column("supervisor_began_at", UtcDateTime),  # null: the execution that created the run
    Column("epoch", Integer, nullable=False),
    Column("request", Document, nullable=False),
    Column("entry", Document, nullable=False),
    Column("waiting_cause", Line(128)),
    Column("waiting_since", UtcDateTime),
    Column("waiting_message", Lines(4000)),
    Column("last_look_at", UtcDateTime),
    Column("look_problem", Lines(4000)),
    Column("next_look_at", UtcDateTime),
    Column("nudge_sent", Integer, nullable=False),
    Column("nudge_acknowledged", Integer, nullable=False),
    Column("export_state", words(ExportState)),
    Column("end_number", Integer, nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    Column("begun_at", UtcDateTime, nullable=False),  # limits count from here: created, or reopened
    Column("started_at", UtcDateTime),
    Column("finished_at", UtcDateTime),
    # set by every UPDATE on the row, hence by every write to a run or its tasks; live views follow the column
    growing("changed_at", now),
    PrimaryKeyConstraint("id", name="pk_histories"),
    UniqueConstraint("run_uid", name="uq_histories_run_uid"),
    UniqueConstraint("workflow_id", "first_execution_run_id", name="uq_histories_execution"),
    Index("ix_histories_status", "status", "intent"),
    Index("ix_histories_crawler", "crawler"),
    Index("ix_histories_changed", "changed_at"),
    Index("ix_histories_export", "export_state", "id"),
    sqlite_autoincrement=True,  # a RunID is never given twice
    **MYSQL,
)

history_properties = Table(
    "history_properties",
    metadata,
    Column("history_id", Id, ForeignKey("histories.id", name="fk_history_properties_history"), nullable=False),
    Column("name", String(128), nullable=False),
    Column("value", Lines(4000), nullable=False),
    PrimaryKeyConstraint("history_id", "name", name="pk_history_properties"),
    **MYSQL,
)

history_logs = Table(
    "history_logs",
    metadata,
    Column("id", Id, nullable=False, autoincrement=True),
    Column("history_id", Id, ForeignKey("histories.id", name="fk_history_logs_history"), nullable=False),
    Column("entry_uid", String(36), nullable=False),  # made from the line's key: a line is logged once
    Column("at", UtcDateTime, nullable=False),
    Column("event", String(64), nullable=False),
    Column("message", Lines(4000), nullable=False),
    Column("actor", Line(256)),
    Column("door", Line(64)),
    PrimaryKeyConstraint("id", name="pk_history_logs"),
    UniqueConstraint("history_id", "entry_uid", name="uq_history_logs_entry"),
    Index("ix_history_logs_event", "event", "history_id"),
    **MYSQL,
)

task_histories = Table(
    "task_histories",
    metadata,
    Column("history_id", Id, ForeignKey("histories.id", name="fk_task_histories_history"), nullable=False),
    Column("task", Integer, nullable=False, autoincrement=False),
    Column("attempt", Integer, nullable=False),
    Column("version", Integer, nullable=False),
    Column("status", words(TaskStatus), nullable=False),
    Column("cause", Line(128)),
    Column("cause_since", UtcDateTime),
    Column("reason", Line(128)),
    Column("exit_code", Integer),
    Column("facts", Model(OutcomeFacts)),  # facts name the uid of their job
    Column("absent_count", Integer, nullable=False),
    Column("job_name", Line(255)),
    Column("job_uid", Line(255)),
    Column("claim_token", String(64)),
    Column("claim_expires_at", UtcDateTime),
    Column("queued_at", UtcDateTime, nullable=False),
    Column("deployed_at", UtcDateTime),
    Column("started_at", UtcDateTime),
    Column("finished_at", UtcDateTime),
    Column("message", Lines(4000)),
    Column("node", Line(255)),
    Column("restarts", Integer, nullable=False),
    Column("log_tail", Lines(16_000, keep_end=True)),
    Column("events", Document, nullable=False),
    PrimaryKeyConstraint("history_id", "task", name="pk_task_histories"),
    # the first index is for queries about a single run, the second for the dispatcher's queries about all runs
    Index("ix_task_histories_run", "history_id", "status", "task"),
    Index("ix_task_histories_status", "status", "history_id", "task", "claim_expires_at"),
    **MYSQL,
)

exports = Table(
    "exports",
    metadata,
    Column("event_id", String(36), nullable=False),
    Column("history_id", Id, ForeignKey("histories.id", name="fk_exports_history"), nullable=False),
    Column("kind", String(32), nullable=False),
    Column("state", words(ExportState), nullable=False),
    Column("event", Document, nullable=False),  # as announced, for pipelines that read the table
    Column("location", Lines(4000)),
    Column("problem", Lines(4000)),
    Column("created_at", UtcDateTime, nullable=False),
    Column("finished_at", UtcDateTime),
    PrimaryKeyConstraint("event_id", name="pk_exports"),
    Index("ix_exports_history", "history_id"),
    Index("ix_exports_state", "state", "created_at"),
    **MYSQL,
)

audits = Table(
    "audits",
    metadata,
    Column("audit_uid", String(36), nullable=False),
    Column("began_at", UtcDateTime, nullable=False),
    Column("finished_at", UtcDateTime),
    Column("complete", Boolean, nullable=False),
    Column("parts", Document, nullable=False),
    PrimaryKeyConstraint("audit_uid", name="pk_audits"),
    Index("ix_audits_began", "began_at"),
    Index("ix_audits_complete", "complete", "finished_at"),
    **MYSQL,
)

audit_findings = Table(
    "audit_findings",
    metadata,
    Column("id", Id, nullable=False, autoincrement=True),
    Column("open_key", String(36)),  # from kind and subject; null when closed, so that an open finding is unique
    Column("kind", words(FindingKind), nullable=False),
    Column("subject", Line(255), nullable=False),
    Column("history_id", Id),  # no foreign key: a finding outlives its run
    Column("run_uid", String(36)),
    Column("message", Lines(4000), nullable=False),
    Column("evidence", Lines(16_000, keep_end=True)),
    Column("first_seen_at", UtcDateTime, nullable=False),
    Column("last_seen_at", UtcDateTime, nullable=False),
    Column("last_seen_by", String(36), nullable=False),  # the audit
    Column("closed_at", UtcDateTime),
    Column("action", Lines(4000)),
    Column("acted_at", UtcDateTime),
    Column("acts", Integer, nullable=False),
    Column("problem", Lines(4000)),
    PrimaryKeyConstraint("id", name="pk_audit_findings"),
    UniqueConstraint("open_key", name="uq_audit_findings_open"),
    Index("ix_audit_findings_run", "run_uid"),
    Index("ix_audit_findings_closed", "closed_at", "kind", "last_seen_at"),
    **MYSQL,
)
