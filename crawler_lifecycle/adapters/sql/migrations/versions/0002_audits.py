"""Audits and what they found, and two indexes for what they ask. It only adds: programs for 0001 go on."""

from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import mysql

from crawler_lifecycle.adapters.sql import again

revision = "0002"
down_revision = "0001"

Id = sa.BigInteger().with_variant(sa.Integer, "sqlite")
Time = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql")
Text = sa.Text().with_variant(mysql.MEDIUMTEXT, "mysql")
MYSQL: dict[str, Any] = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}


def upgrade() -> None:
    _audits()
    _audit_findings()
    again.create_index("ix_histories_export", "histories", ["export_state", "id"])
    again.create_index("ix_history_logs_event", "history_logs", ["event", "history_id"])


def _audits() -> None:
    again.create_table(
        "audits",
        sa.Column("audit_uid", sa.String(36), nullable=False),
        sa.Column("began_at", Time, nullable=False),
        sa.Column("finished_at", Time),
        sa.Column("complete", sa.Boolean, nullable=False),
        sa.Column("parts", Text, nullable=False),
        sa.PrimaryKeyConstraint("audit_uid", name="pk_audits"),
        **MYSQL,
    )
    again.create_index("ix_audits_began", "audits", ["began_at"])
    again.create_index("ix_audits_complete", "audits", ["complete", "finished_at"])


def _audit_findings() -> None:
    again.create_table(
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
    again.create_index("ix_audit_findings_run", "audit_findings", ["run_uid"])
    again.create_index("ix_audit_findings_closed", "audit_findings", ["closed_at", "kind", "last_seen_at"])
