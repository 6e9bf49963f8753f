"""Endpoints for audits: start an audit, and read audits' findings."""

from typing import Annotated

from fastapi import APIRouter, Path, Query, Response

from crawler_lifecycle.contract.answers import AuditStarted
from crawler_lifecycle.contract.audits import AuditReport, AuditRequest, AuditView
from crawler_lifecycle.contract.base import Message
from crawler_lifecycle.services.api.document import AUDIT_BODY
from crawler_lifecycle.services.api.state import OPERATING, READING, Caller, CurrentApi, commands_of
from crawler_lifecycle.services.problems import Responses, problems

# examples for the OpenAPI document
AUDIT_ID = "crawler-audit-0d4c7a52-3c55-4d8e-8a6f-1f0b4f6b7c10-9f1b7d0a6f0b"
BEGAN_AT, FINISHED_AT = "2026-11-20T09:00:00Z", "2026-11-20T09:00:02Z"
RUN_UID = "5b0c9c6e-6f0e-4f57-9a51-0d4c2f6f3a11"
FINDING = {
    "kind": "unsupervised", "subject": RUN_UID, "run_id": 42, "run_uid": RUN_UID, "evidence": None, "problem": None,
    "message": "it is PROCESSING, and its workflow has terminated at 2026-11-20T08:51:00Z",
}  # fmt: skip
REPAIR = {"action": "its workflow was started again"}
PARTS = {"runs": {"examined": 310, "found": {"unsupervised": 1}, "acted": 1, "unknown": 0, "problem": None}}
FINDING_RECORD = (
    FINDING
    | REPAIR
    | {"first_seen_at": BEGAN_AT, "last_seen_at": BEGAN_AT, "closed_at": None, "acted_at": BEGAN_AT, "acts": 1}
)
AUDIT_UID = "019a9f5e-1f0a-7c3e-9b1d-2f4c6a8e0b12"
OVERVIEW = {
    "audits": [
        {"audit_uid": AUDIT_UID, "began_at": BEGAN_AT, "finished_at": FINISHED_AT, "complete": True, "parts": PARTS}
    ],
    "last_complete_at": FINISHED_AT,
    "open": {"unsupervised": 1},
    "findings": [FINDING_RECORD],
    "first_due": None,
    "problem": None,
}
REPORT = {
    "audit": {"audit_uid": AUDIT_UID, "began_at": BEGAN_AT, "repair": True, "remove_unknown_jobs": False},
    "parts": PARTS,
    "findings": [FINDING | REPAIR],
}

router = APIRouter(prefix="/v1", tags=["auditing"])


def _example(value: object, status: int = 200, description: str = "Done.") -> Responses:
    return {status: {"description": description, "content": {"application/json": {"example": value}}}}


class AuditBody(AuditRequest):
    """Request body for an audit. An empty body asks for a dry run."""


class AuditResult(Message):
    """Result of an audit. `report` is none while the audit is under way."""

    report: AuditReport | None


DRY_RUN = AuditBody()  # for a request without a body


@router.get("/audits", dependencies=READING, responses=_example(OVERVIEW))
async def list_audits(
    api: CurrentApi, limit: Annotated[int, Query(ge=0, le=1000, description="largest number of findings")] = 100
) -> AuditView:
    """Return the latest audits and their findings. Open findings come first."""
    return await api.control.audits.view(findings=limit)


@router.post(
    "/audits",
    status_code=202,
    dependencies=OPERATING,
    responses=_example({"audit": AUDIT_ID}, 202, "The audit is under way."),
)
async def start_audit(
    api: CurrentApi, caller: Caller, response: Response, body: Annotated[AuditBody, AUDIT_BODY] = DRY_RUN
) -> AuditStarted:
    """Compare database, Temporal and cluster now. Without `repair` the audit is a dry run."""
    commands = commands_of(api, caller, body.requested_by, "requested_by")
    started = await commands.audits.start(body)
    response.headers["Location"] = f"/v1/audits/{started.audit}"
    return started


@router.get(
    "/audits/{audit}",
    dependencies=READING,
    responses=_example({"report": REPORT}) | problems(_404="There is no such audit."),
)
async def get_audit(api: CurrentApi, audit: Annotated[str, Path(max_length=200)]) -> AuditResult:
    """Return the result of an audit, if the audit has ended."""
    return AuditResult(report=await api.control.audits.result(audit))
