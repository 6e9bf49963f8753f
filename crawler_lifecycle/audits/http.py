"""Endpoints for audits: start an audit, and read audits' findings."""

from typing import Annotated, Protocol

from fastapi import APIRouter, Depends, Path, Query, Response

from crawler_lifecycle.audits.commands import AuditCommands
from crawler_lifecycle.base.base import Message
from crawler_lifecycle.http.document import answer
from crawler_lifecycle.http.problems import problems
from crawler_lifecycle.http.state import OPERATING, READING, ApiState, Caller, ForCallers, api_state, commands_of
from crawler_lifecycle.model.answers import AuditStarted
from crawler_lifecycle.model.audits import AuditReport, AuditRequest, AuditView


class HasAudits(ForCallers, Protocol):
    audits: AuditCommands


CurrentApi = Annotated[ApiState[HasAudits], Depends(api_state)]
router = APIRouter(prefix="/v1", tags=["auditing"])


class AuditResult(Message):
    """Result of an audit. `report` is none while the audit is under way."""

    report: AuditReport | None


DRY_RUN = AuditRequest()  # for a request without a body


@router.get("/audits", dependencies=READING)
async def list_audits(
    api: CurrentApi, limit: Annotated[int, Query(ge=0, le=1000, description="largest number of findings")] = 100
) -> AuditView:
    """Return the latest audits and their findings. Open findings come first."""
    return await api.control.audits.view(findings=limit)


@router.post(
    "/audits",
    status_code=202,
    dependencies=OPERATING,
    responses=answer(202, "The audit is under way."),
)
async def start_audit(
    api: CurrentApi, caller: Caller, response: Response, body: AuditRequest = DRY_RUN
) -> AuditStarted:
    """Compare database, Temporal and cluster now. Without `repair` the audit is a dry run."""
    commands = commands_of(api, caller, body.requested_by, "requested_by")
    started = await commands.audits.start(body)
    response.headers["Location"] = f"/v1/audits/{started.audit}"
    return started


@router.get(
    "/audits/{audit}",
    dependencies=READING,
    responses=problems(_404="There is no such audit."),
)
async def get_audit(api: CurrentApi, audit: Annotated[str, Path(max_length=200)]) -> AuditResult:
    """Return the result of an audit, if the audit has ended."""
    return AuditResult(report=await api.control.audits.result(audit))
