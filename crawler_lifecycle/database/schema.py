"""Tables of the database. `migrations/` creates the tables; a test proves that both agree.

Everything about a run refers to the run's row in `histories`. Every write to a run or its tasks locks the run's row
first: writers to the same run follow each other and cannot deadlock.
"""

from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

from crawler_lifecycle.base.requesters import LONGEST_REQUESTER
from crawler_lifecycle.database.types import (
    Document,
    ExactText,
    Id,
    Json,
    JsonModel,
    LongText,
    ShortText,
    Uid,
    UtcDateTime,
    growing,
    stored_enum,
)
from crawler_lifecycle.model.audits import FindingKind
from crawler_lifecycle.model.limits import LONGEST_SCOPE
from crawler_lifecycle.model.looks import OutcomeFacts
from crawler_lifecycle.model.states import ExportState, Intent, RunStatus, TaskStatus, Trigger

REVISION = "0001"  # the latest file in `migrations/versions`
LONGEST_WORKFLOW_ID = 700  # the unique key of a workflow id and an execution's id (36) may have 768 characters


def now() -> datetime:
    return datetime.now(UTC)


metadata = sa.MetaData()
# names and ids differ by case, which MySQL's default collation ignores
TABLE_OPTIONS: dict[str, Any] = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}

installation = sa.Table(
    "installation",
    metadata,
    sa.Column("id", sa.Integer, nullable=False, autoincrement=False),
    sa.Column("uid", sa.String(36), nullable=False),
    sa.Column("created_at", UtcDateTime, nullable=False),
    # the place of the installation's jobs, null until the first look
    sa.Column("namespace", sa.String(63)),
    sa.Column("namespace_uid", sa.String(128)),
    sa.Column("cluster_uid", sa.String(128)),
    sa.PrimaryKeyConstraint("id", name="pk_installation"),
    sa.CheckConstraint("id = 1", name="ck_installation_single"),
    **TABLE_OPTIONS,
)
OWN_INSTALLATION = sa.select(installation.c.uid).scalar_subquery()

histories = sa.Table(
    "histories",
    metadata,
    sa.Column("id", Id, nullable=False, autoincrement=True),
    sa.Column("run_uid", sa.String(36), nullable=False),
    sa.Column("installation", sa.String(36), nullable=False),
    sa.Column("cluster", sa.String(63), nullable=False),
    sa.Column("crawler", sa.String(128), nullable=False),
    sa.Column("trigger_kind", stored_enum(Trigger), nullable=False),
    sa.Column("requested_by", ShortText(LONGEST_REQUESTER)),
    sa.Column("status", stored_enum(RunStatus), nullable=False),
    sa.Column("reason", ShortText(128)),
    sa.Column("intent", stored_enum(Intent), nullable=False),
    sa.Column("tasks", sa.Integer, nullable=False),
    sa.Column("max_parallel", sa.Integer),
    sa.Column("priority", sa.Integer, nullable=False),
    sa.Column("admitted_at", UtcDateTime),  # null while the run waits for its permit; an open run's permit
    sa.Column("held_by", ShortText(LONGEST_SCOPE)),  # the scope whose limit or pause holds the run or its child tasks
    # the run's first workflow execution; never changes
    sa.Column("workflow_id", sa.String(LONGEST_WORKFLOW_ID), nullable=False),
    sa.Column("first_execution_run_id", sa.String(36), nullable=False),
    # the present supervisor, a workflow execution
    sa.Column("supervisor_workflow_id", sa.String(LONGEST_WORKFLOW_ID), nullable=False),
    sa.Column("supervisor_run_id", sa.String(36), nullable=False),
    sa.Column("supervisor_began_at", UtcDateTime),  # null while the run's creator supervises
    sa.Column("epoch", sa.Integer, nullable=False),
    sa.Column("request", Document, nullable=False),
    sa.Column("entry", Document, nullable=False),  # a copy from the catalogue
    sa.Column("waiting_cause", ShortText(128)),
    sa.Column("waiting_since", UtcDateTime),
    sa.Column("waiting_message", LongText(4000)),
    sa.Column("last_look_at", UtcDateTime),
    sa.Column("look_problem", LongText(4000)),
    sa.Column("next_look_at", UtcDateTime),
    sa.Column("nudge_sent", sa.Integer, nullable=False),
    sa.Column("nudge_acknowledged", sa.Integer, nullable=False),
    sa.Column("export_state", stored_enum(ExportState)),
    sa.Column("end_number", sa.Integer, nullable=False),
    # the attempt of a crawl in a flow, null for a run of its own
    sa.Column("flow_uid", sa.String(36)),
    sa.Column("flow_member", sa.Integer),
    sa.Column("flow_attempt", sa.Integer),
    sa.Column("flow_manager", sa.Integer),  # number of the manager with the crawl
    # about the end: the outcome word, the main task's result, the sums of the tasks' stats
    sa.Column("outcome", ShortText(64)),
    sa.Column("stats", Json),
    sa.Column("result", Json),
    # the use until the last end, null before the first
    sa.Column("task_seconds", sa.Double),
    sa.Column("cpu_seconds", sa.Double),
    sa.Column("memory_gib_seconds", sa.Double),
    sa.Column("archived_bytes", sa.BigInteger),
    sa.Column("created_at", UtcDateTime, nullable=False),
    sa.Column("begun_at", UtcDateTime, nullable=False),  # limits count from here: created, or reopened
    sa.Column("started_at", UtcDateTime),
    sa.Column("finished_at", UtcDateTime),
    # set by every UPDATE on the row, hence by every write to a run or its tasks; live views follow the column
    growing("changed_at", now),
    sa.PrimaryKeyConstraint("id", name="pk_histories"),
    sa.UniqueConstraint("run_uid", name="uq_histories_run_uid"),
    sa.UniqueConstraint("workflow_id", "first_execution_run_id", name="uq_histories_execution"),
    sa.UniqueConstraint("flow_uid", "flow_member", "flow_attempt", name="uq_histories_flow"),
    sa.Index("ix_histories_flow_ends", "flow_uid", "end_number", "status"),  # a flow's reopened runs
    sa.Index("ix_histories_reopened", "end_number", "status"),  # the reopened runs of all flows, for the audit
    # lists for people: an index for each filter, all sorted by RunID (`runs.store.lists`)
    sa.Index("ix_histories_own", "flow_uid", "id"),
    sa.Index("ix_histories_status", "status", "id"),
    sa.Index("ix_histories_flow_status", "flow_uid", "status", "id"),
    sa.Index("ix_histories_reason", "reason", "id"),
    sa.Index("ix_histories_outcome", "outcome", "id"),
    sa.Index("ix_histories_crawler", "crawler", "id"),
    sa.Index("ix_histories_requester", "requested_by", "id"),
    sa.Index("ix_histories_trigger", "trigger_kind", "id"),
    sa.Index("ix_histories_created", "created_at"),
    sa.Index("ix_histories_changed", "changed_at"),
    sa.Index("ix_histories_export", "export_state", "id"),
    # the line of queued runs, without the rows
    sa.Index("ix_histories_held", "held_by", "admitted_at", "intent", "status", "installation", "priority"),
    sa.Index("ix_histories_waiting", "waiting_cause", "waiting_since", "id"),  # runs without room
    # the sums of use, without the rows
    sa.Index(
        "ix_histories_usage",
        *("finished_at", "crawler", "flow_uid", "task_seconds", "cpu_seconds", "memory_gib_seconds", "archived_bytes"),
    ),
    sqlite_autoincrement=True,  # otherwise SQLite may give a deleted run's RunID again
    **TABLE_OPTIONS,
)

history_labels = sa.Table(
    "history_labels",
    metadata,
    sa.Column("history_id", Id, sa.ForeignKey("histories.id", name="fk_history_labels_history"), nullable=False),
    sa.Column("label", sa.String(128), nullable=False),
    sa.PrimaryKeyConstraint("history_id", "label", name="pk_history_labels"),
    # for lists; admission finds the labels by the open runs, which are few
    sa.Index("ix_history_labels_label", "label", "history_id"),
    **TABLE_OPTIONS,
)

run_tags = sa.Table(
    "run_tags",
    metadata,
    sa.Column("history_id", Id, sa.ForeignKey("histories.id", name="fk_run_tags_history"), nullable=False),
    sa.Column("tag", sa.String(128), nullable=False),
    sa.PrimaryKeyConstraint("history_id", "tag", name="pk_run_tags"),
    sa.Index("ix_run_tags_tag", "tag", "history_id"),
    **TABLE_OPTIONS,
)

# a scope's limits; a scope without a row has no limits but the settings'
scope_limits = sa.Table(
    "scope_limits",
    metadata,
    sa.Column("scope", sa.String(LONGEST_SCOPE), nullable=False),
    sa.Column("runs", sa.Integer),
    sa.Column("tasks", sa.Integer),
    sa.Column("weight", sa.Integer),
    sa.Column("paused_at", UtcDateTime),
    sa.Column("paused_by", ShortText(LONGEST_REQUESTER)),
    sa.Column("paused_reason", LongText(1024)),
    sa.Column("changed_at", UtcDateTime, nullable=False),
    sa.Column("changed_by", ShortText(LONGEST_REQUESTER)),
    sa.PrimaryKeyConstraint("scope", name="pk_scope_limits"),
    **TABLE_OPTIONS,
)

_USE = ("runs", "tasks", "mains", "children", "places", "held")  # as in `limits.rules.Use`

# the open runs' use by scope; only the admission lock's holder writes here
scope_sums = sa.Table(
    "scope_sums",
    metadata,
    sa.Column("scope", ExactText(LONGEST_SCOPE), nullable=False),
    *(sa.Column(name, sa.Integer, nullable=False) for name in _USE),
    sa.PrimaryKeyConstraint("scope", name="pk_scope_sums"),
    **TABLE_OPTIONS,
)

# changes for the sums, appended by every transaction with a change in a run's use, and folded into the sums later
scope_changes = sa.Table(
    "scope_changes",
    metadata,
    sa.Column("id", Id, nullable=False, autoincrement=True),
    sa.Column("scope", ExactText(LONGEST_SCOPE), nullable=False),
    *(sa.Column(name, sa.Integer, nullable=False) for name in _USE),
    sa.PrimaryKeyConstraint("id", name="pk_scope_changes"),
    **TABLE_OPTIONS,
)

history_properties = sa.Table(
    "history_properties",
    metadata,
    sa.Column("history_id", Id, sa.ForeignKey("histories.id", name="fk_history_properties_history"), nullable=False),
    sa.Column("name", sa.String(128), nullable=False),
    sa.Column("value", LongText(32_000), nullable=False),
    sa.PrimaryKeyConstraint("history_id", "name", name="pk_history_properties"),
    **TABLE_OPTIONS,
)

history_logs = sa.Table(
    "history_logs",
    metadata,
    sa.Column("id", Id, nullable=False, autoincrement=True),
    sa.Column("history_id", Id, sa.ForeignKey("histories.id", name="fk_history_logs_history"), nullable=False),
    sa.Column("entry_uid", sa.String(36), nullable=False),  # computed from the line's key: a key has one line
    sa.Column("at", UtcDateTime, nullable=False),
    sa.Column("event", sa.String(64), nullable=False),
    sa.Column("message", LongText(4000), nullable=False),
    sa.Column("actor", ShortText(LONGEST_REQUESTER)),
    sa.Column("door", ShortText(64)),
    sa.PrimaryKeyConstraint("id", name="pk_history_logs"),
    sa.UniqueConstraint("history_id", "entry_uid", name="uq_history_logs_entry"),
    sa.Index("ix_history_logs_event", "event", "history_id"),
    **TABLE_OPTIONS,
)

task_histories = sa.Table(
    "task_histories",
    metadata,
    sa.Column("history_id", Id, sa.ForeignKey("histories.id", name="fk_task_histories_history"), nullable=False),
    sa.Column("task", sa.Integer, nullable=False, autoincrement=False),
    sa.Column("attempt", sa.Integer, nullable=False),
    sa.Column("version", sa.Integer, nullable=False),
    sa.Column("status", stored_enum(TaskStatus), nullable=False),
    sa.Column("cause", ShortText(128)),
    sa.Column("cause_since", UtcDateTime),
    sa.Column("reason", ShortText(128)),
    sa.Column("exit_code", sa.Integer),
    sa.Column("facts", JsonModel(OutcomeFacts)),  # facts name the uid of their job
    sa.Column("absent_count", sa.Integer, nullable=False),
    sa.Column("absent_since", UtcDateTime),
    # attempts after a failure of the infrastructure, and of the program
    sa.Column("infrastructure_failures", sa.Integer, nullable=False),
    sa.Column("program_failures", sa.Integer, nullable=False),
    sa.Column("deploy_after", UtcDateTime),  # end of the pause before the attempt
    sa.Column("job_name", ShortText(255)),
    sa.Column("job_uid", ShortText(255)),
    sa.Column("claim_token", sa.String(64)),
    sa.Column("claim_expires_at", UtcDateTime),
    sa.Column("queued_at", UtcDateTime, nullable=False),
    sa.Column("deployed_at", UtcDateTime),
    sa.Column("started_at", UtcDateTime),
    sa.Column("finished_at", UtcDateTime),
    sa.Column("message", LongText(4000)),
    sa.Column("node", ShortText(255)),
    sa.Column("restarts", sa.Integer, nullable=False),
    sa.Column("log_tail", LongText(16_000, keep_end=True)),
    sa.Column("events", Document, nullable=False),
    sa.PrimaryKeyConstraint("history_id", "task", name="pk_task_histories"),
    # the first index is for queries about a single run, the second for the dispatcher's queries about all runs
    sa.Index("ix_task_histories_run", "history_id", "status", "task"),
    sa.Index("ix_task_histories_status", "status", "history_id", "task", "claim_expires_at"),
    **TABLE_OPTIONS,
)

# a task's attempts before its present attempt, each as its row was at the attempt's end
task_attempts = sa.Table(
    "task_attempts",
    metadata,
    sa.Column("history_id", Id, sa.ForeignKey("histories.id", name="fk_task_attempts_history"), nullable=False),
    sa.Column("task", sa.Integer, nullable=False, autoincrement=False),
    sa.Column("attempt", sa.Integer, nullable=False, autoincrement=False),
    sa.Column("status", stored_enum(TaskStatus), nullable=False),
    sa.Column("reason", ShortText(128)),
    sa.Column("exit_code", sa.Integer),
    sa.Column("facts", JsonModel(OutcomeFacts)),
    sa.Column("job_name", ShortText(255)),
    sa.Column("job_uid", ShortText(255)),
    sa.Column("started_at", UtcDateTime),
    sa.Column("finished_at", UtcDateTime),
    sa.Column("message", LongText(4000)),
    sa.Column("node", ShortText(255)),
    sa.Column("log_tail", LongText(16_000, keep_end=True)),
    sa.Column("events", Document, nullable=False),
    sa.PrimaryKeyConstraint("history_id", "task", "attempt", name="pk_task_attempts"),
    **TABLE_OPTIONS,
)

exports = sa.Table(
    "exports",
    metadata,
    sa.Column("event_id", sa.String(36), nullable=False),
    sa.Column("history_id", Id, sa.ForeignKey("histories.id", name="fk_exports_history"), nullable=False),
    sa.Column("kind", sa.String(32), nullable=False),
    sa.Column("state", stored_enum(ExportState), nullable=False),
    sa.Column("event", Document, nullable=False),  # JSON as announced; companies' pipelines read the table
    sa.Column("location", LongText(4000)),
    sa.Column("problem", LongText(4000)),
    sa.Column("created_at", UtcDateTime, nullable=False),
    sa.Column("finished_at", UtcDateTime),
    sa.PrimaryKeyConstraint("event_id", name="pk_exports"),
    sa.Index("ix_exports_history", "history_id"),
    sa.Index("ix_exports_state", "state", "created_at"),
    **TABLE_OPTIONS,
)

# rows for removed runs: a request for a removed run gets the date
removed_runs = sa.Table(
    "removed_runs",
    metadata,
    sa.Column("run_id", Id, nullable=False, autoincrement=False),
    sa.Column("run_uid", Uid, nullable=False),
    sa.Column("removed_on", sa.Date, nullable=False),
    sa.PrimaryKeyConstraint("run_id", name="pk_removed_runs"),
    sa.UniqueConstraint("run_uid", name="uq_removed_runs_uid"),
    **TABLE_OPTIONS,
)

# the present claim on retention, and the last pass's report
retention_passes = sa.Table(
    "retention_passes",
    metadata,
    sa.Column("id", sa.Integer, nullable=False, autoincrement=False),
    sa.Column("holder", ShortText(255)),
    sa.Column("held_until", UtcDateTime),
    sa.Column("logs_until", UtcDateTime),  # logs with earlier archives are removed
    sa.Column("finished_at", UtcDateTime),  # the last pass without a problem
    sa.Column("report", Document),
    sa.PrimaryKeyConstraint("id", name="pk_retention_passes"),
    sa.CheckConstraint("id = 1", name="ck_retention_passes_single"),
    **TABLE_OPTIONS,
)

# Temporal alone keeps the schedules, and does not keep the requesters of commands
schedule_commands = sa.Table(
    "schedule_commands",
    metadata,
    sa.Column("id", Id, nullable=False, autoincrement=True),
    sa.Column("schedule", ShortText(128), nullable=False),
    sa.Column("at", UtcDateTime, nullable=False),
    sa.Column("command", sa.String(16), nullable=False),
    sa.Column("actor", ShortText(LONGEST_REQUESTER)),
    sa.Column("door", ShortText(64), nullable=False),
    sa.PrimaryKeyConstraint("id", name="pk_schedule_commands"),
    sa.Index("ix_schedule_commands_schedule", "schedule", "id"),
    **TABLE_OPTIONS,
)

audits = sa.Table(
    "audits",
    metadata,
    sa.Column("audit_uid", sa.String(36), nullable=False),
    sa.Column("began_at", UtcDateTime, nullable=False),
    sa.Column("finished_at", UtcDateTime),
    sa.Column("complete", sa.Boolean, nullable=False),
    sa.Column("parts", Document, nullable=False),
    sa.Column("requested_by", ShortText(LONGEST_REQUESTER)),  # null: a scheduled audit
    sa.PrimaryKeyConstraint("audit_uid", name="pk_audits"),
    sa.Index("ix_audits_began", "began_at"),
    sa.Index("ix_audits_complete", "complete", "finished_at"),
    **TABLE_OPTIONS,
)

audit_findings = sa.Table(
    "audit_findings",
    metadata,
    sa.Column("id", Id, nullable=False, autoincrement=True),
    sa.Column("open_key", sa.String(36)),  # computed from kind and subject; null after the close
    sa.Column("kind", stored_enum(FindingKind), nullable=False),
    sa.Column("subject", ShortText(255), nullable=False),
    sa.Column("history_id", Id),  # no foreign key: a finding outlives its run
    sa.Column("run_uid", sa.String(36)),
    sa.Column("message", LongText(4000), nullable=False),
    sa.Column("evidence", LongText(16_000, keep_end=True)),
    sa.Column("first_seen_at", UtcDateTime, nullable=False),
    sa.Column("last_seen_at", UtcDateTime, nullable=False),
    sa.Column("last_seen_by", sa.String(36), nullable=False),  # the last audit's uid
    sa.Column("closed_at", UtcDateTime),
    sa.Column("action", LongText(4000)),
    sa.Column("acted_at", UtcDateTime),
    sa.Column("acts", sa.Integer, nullable=False),  # how many actions
    sa.Column("problem", LongText(4000)),
    sa.PrimaryKeyConstraint("id", name="pk_audit_findings"),
    sa.UniqueConstraint("open_key", name="uq_audit_findings_open"),  # a kind and subject have at most one open finding
    sa.Index("ix_audit_findings_run", "run_uid"),
    sa.Index("ix_audit_findings_closed", "closed_at", "kind", "last_seen_at"),
    **TABLE_OPTIONS,
)
