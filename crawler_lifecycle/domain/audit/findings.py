"""Helpers of the audit's rules: a finding about a run, and a time in a message."""

from datetime import datetime

from crawler_lifecycle.contract.audits import Finding, FindingKind
from crawler_lifecycle.domain.audit.subjects import AuditedRun


def run_finding(run: AuditedRun, kind: FindingKind, message: str) -> Finding:
    return Finding(kind=kind, subject=run.run_uid, run_id=run.run_id, run_uid=run.run_uid, message=message)


def timestamp(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"
