"""Endpoint for the installation as a whole: use of its capacity, and the runs that its cluster has no room for."""

from fastapi import APIRouter

from crawler_lifecycle.contract.answers import InstallationView
from crawler_lifecycle.contract.attention import Attention
from crawler_lifecycle.services.api.document import INSTALLATION_LIMITS, RUN_SUMMARY, example
from crawler_lifecycle.services.api.state import READING, CurrentApi

ATTENTION = {
    "failed_runs": 6, "with_failed_items": {"total": 1, "flows": ["shops/november"]}, "saturated_runs": 1,
    "awaiting_approval": {"total": 1, "flows": ["bookshop/november"]}, "without_host": {"total": 0, "flows": []},
    "open_findings": 1, "pauses": 1, "audit_problem": None,
}  # fmt: skip
MOST_SATURATED = 50  # in an answer
_WAITS = {"waiting_cause": "quota", "waiting_message": "exceeded quota: pods"}
EXAMPLE = {
    "installation": "0d4c7a52-3c55-4d8e-8a6f-1f0b4f6b7c10", "open_runs": 29, "runs_in_line": 15, "saturated_runs": 1,
    "places": {"taken": 16, "total": 16, "waiting": 4}, "limits": INSTALLATION_LIMITS,
    "saturated": [RUN_SUMMARY | _WAITS],
}  # fmt: skip

router = APIRouter(prefix="/v1", tags=["limits"])


@router.get("/attention", dependencies=READING, responses=example(ATTENTION))
async def get_attention(api: CurrentApi) -> Attention:
    """Return what waits for a person, a host or room: the page shows the counts at the top of every view."""
    return await api.control.attention()


@router.get("/installation", dependencies=READING, responses=example(EXAMPLE))
def get_installation(api: CurrentApi) -> InstallationView:
    """Return the use of the installation's capacity, and the runs for which its cluster has no room."""
    return api.control.runs.installation(MOST_SATURATED)
