"""The first schema: the installation, runs with their tasks, logs, properties and exports, and audits."""

from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import mysql

from crawler_lifecycle.adapters.sql.idempotent_ddl import create_index, create_table

revision = "0001"
down_revision = None

Id = sa.BigInteger().with_variant(sa.Integer, "sqlite")
Time = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql")
Text = sa.Text().with_variant(mysql.MEDIUMTEXT, "mysql")
MYSQL: dict[str, Any] = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}


def upgrade() -> None:
    _installation()
    _histories()
    _history_properties()
    _history_logs()
    _task_histories()
    _exports()
    _audits()
    _audit_findings()


def _installation() -> None:
    create_table(
        "installation",
        sa.Column("id", sa.Integer, nullable=False, autoincrement=False),
        sa.Column("uid", sa.String(36), nullable=False),
        sa.Column("created_at", Time, nullable=False),
        sa.Column("namespace", sa.String(63)),
        sa.Column("namespace_uid", sa.String(128)),
        sa.Column("cluster_uid", sa.String(128)),
        sa.PrimaryKeyConstraint("id", name="pk_installation"),
        sa.CheckConstraint("id = 1", name="ck_installation_single"),
        **MYSQL,
    )


def _histories() -> None:
    create_table(
        "histories",
        sa.Column("id", Id, nullable=False, autoincrement=True),
        sa.Column("run_uid", sa.String(36), nullable=False),
        sa.Column("installation", sa.String(36), nullable=False),
        sa.Column("cluster", sa.String(63), nullable=False),
        sa.Column("crawler", sa.String(128), nullable=False),
        sa.Column("trigger_kind", sa.String(16), nullable=False),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("reason", sa.String(128)),
        sa.Column("intent", sa.String(16), nullable=False),
        sa.Column("tasks", sa.Integer, nullable=False),
        sa.Column("max_parallel", sa.Integer),
        sa.Column("workflow_id", sa.String(700), nullable=False),
        sa.Column("first_execution_run_id", sa.String(36), nullable=False),
        sa.Column("supervisor_workflow_id", sa.String(700), nullable=False),
        sa.Column("supervisor_run_id", sa.String(36), nullable=False),
        sa.Column("supervisor_began_at", Time),
        sa.Column("epoch", sa.Integer, nullable=False),
        sa.Column("request", Text, nullable=False),
        sa.Column("entry", Text, nullable=False),
        sa.Column("waiting_cause", sa.String(128)),
        sa.Column("waiting_since", Time),
        sa.Column("waiting_message", Text),
        sa.Column("last_look_at", Time),
        sa.Column("look_problem", Text),
        sa.Column("next_look_at", Time),
        sa.Column("nudge_sent", sa.Integer, nullable=False),
        sa.Column("nudge_acknowledged", sa.Integer, nullable=False),
        sa.Column("export_state", sa.String(16)),
        sa.Column("end_number", sa.Integer, nullable=False),
        sa.Column("created_at", Time, nullable=False),
        sa.Column("begun_at", Time, nullable=False),
        sa.Column("started_at", Time),
        sa.Column("finished_at", Time),
        sa.Column("changed_at", Time, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_histories"),
        sa.UniqueConstraint("run_uid", name="uq_histories_run_uid"),
        sa.UniqueConstraint("workflow_id", "first_execution_run_id", name="uq_histories_execution"),
        sqlite_autoincrement=True,
        **MYSQL,
    )
    create_index("ix_histories_changed", "histories", ["changed_at"])
    create_index("ix_histories_crawler", "histories", ["crawler"])
    create_index("ix_histories_export", "histories", ["export_state", "id"])
    create_index("ix_histories_status", "histories", ["status", "intent"])


def _history_properties() -> None:
    create_table(
        "history_properties",
        sa.Column("history_id", Id, nullable=False),
        sa.Column("name", sa.String(128), nullable=False),
        sa.Column("value", Text, nullable=False),
        sa.PrimaryKeyConstraint("history_id", "name", name="pk_history_properties"),
        sa.ForeignKeyConstraint(["history_id"], ["histories.id"], name="fk_history_properties_history"),
        **MYSQL,
    )


def _history_logs() -> None:
    create_table(
        "history_logs",
        sa.Column("id", Id, nullable=False, autoincrement=True),
        sa.Column("history_id", Id, nullable=False),
        sa.Column("entry_uid", sa.String(36), nullable=False),
        sa.Column("at", Time, nullable=False),
        sa.Column("event", sa.String(64), nullable=False),
        sa.Column("message", Text, nullable=False),
        sa.Column("actor", sa.String(256)),
        sa.Column("door", sa.String(64)),
        sa.PrimaryKeyConstraint("id", name="pk_history_logs"),
        sa.UniqueConstraint("history_id", "entry_uid", name="uq_history_logs_entry"),
        sa.ForeignKeyConstraint(["history_id"], ["histories.id"], name="fk_history_logs_history"),
        **MYSQL,
    )
    create_index("ix_history_logs_event", "history_logs", ["event", "history_id"])


def _task_histories() -> None:
    create_table(
        "task_histories",
        sa.Column("history_id", Id, nullable=False),
        sa.Column("task", sa.Integer, nullable=False, autoincrement=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("cause", sa.String(128)),
        sa.Column("cause_since", Time),
        sa.Column("reason", sa.String(128)),
        sa.Column("exit_code", sa.Integer),
        sa.Column("facts", Text),
        sa.Column("absent_count", sa.Integer, nullable=False),
        sa.Column("job_name", sa.String(255)),
        sa.Column("job_uid", sa.String(255)),
        sa.Column("claim_token", sa.String(64)),
        sa.Column("claim_expires_at", Time),
        sa.Column("queued_at", Time, nullable=False),
        sa.Column("deployed_at", Time),
        sa.Column("started_at", Time),
        sa.Column("finished_at", Time),
        sa.Column("message", Text),
        sa.Column("node", sa.String(255)),
        sa.Column("restarts", sa.Integer, nullable=False),
        sa.Column("log_tail", Text),
        sa.Column("events", Text, nullable=False),
        sa.PrimaryKeyConstraint("history_id", "task", name="pk_task_histories"),
        sa.ForeignKeyConstraint(["history_id"], ["histories.id"], name="fk_task_histories_history"),
        **MYSQL,
    )
    create_index("ix_task_histories_run", "task_histories", ["history_id", "status", "task"])
    create_index("ix_task_histories_status", "task_histories", ["status", "history_id", "task", "claim_expires_at"])


def _exports() -> None:
    create_table(
        "exports",
        sa.Column("event_id", sa.String(36), nullable=False),
        sa.Column("history_id", Id, nullable=False),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("event", Text, nullable=False),
        sa.Column("location", Text),
        sa.Column("problem", Text),
        sa.Column("created_at", Time, nullable=False),
        sa.Column("finished_at", Time),
        sa.PrimaryKeyConstraint("event_id", name="pk_exports"),
        sa.ForeignKeyConstraint(["history_id"], ["histories.id"], name="fk_exports_history"),
        **MYSQL,
    )
    create_index("ix_exports_history", "exports", ["history_id"])
    create_index("ix_exports_state", "exports", ["state", "created_at"])


def _audits() -> None:
    create_table(
        "audits",
        sa.Column("audit_uid", sa.String(36), nullable=False),
        sa.Column("began_at", Time, nullable=False),
        sa.Column("finished_at", Time),
        sa.Column("complete", sa.Boolean, nullable=False),
        sa.Column("parts", Text, nullable=False),
        sa.PrimaryKeyConstraint("audit_uid", name="pk_audits"),
        **MYSQL,
    )
    create_index("ix_audits_began", "audits", ["began_at"])
    create_index("ix_audits_complete", "audits", ["complete", "finished_at"])


def _audit_findings() -> None:
    create_table(
        "audit_findings",
        sa.Column("id", Id, nullable=False, autoincrement=True),
        sa.Column("open_key", sa.String(36)),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("subject", sa.String(255), nullable=False),
        sa.Column("history_id", Id),
        sa.Column("run_uid", sa.String(36)),
        sa.Column("message", Text, nullable=False),
        sa.Column("evidence", Text),
        sa.Column("first_seen_at", Time, nullable=False),
        sa.Column("last_seen_at", Time, nullable=False),
        sa.Column("last_seen_by", sa.String(36), nullable=False),
        sa.Column("closed_at", Time),
        sa.Column("action", Text),
        sa.Column("acted_at", Time),
        sa.Column("acts", sa.Integer, nullable=False),
        sa.Column("problem", Text),
        sa.PrimaryKeyConstraint("id", name="pk_audit_findings"),
        sa.UniqueConstraint("open_key", name="uq_audit_findings_open"),
        **MYSQL,
    )
    create_index("ix_audit_findings_run", "audit_findings", ["run_uid"])
    create_index("ix_audit_findings_closed", "audit_findings", ["closed_at", "kind", "last_seen_at"])
