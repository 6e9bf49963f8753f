"""Endpoint for the installation as a whole: use of its capacity, and the runs that its cluster has no room for."""

from fastapi import APIRouter
from pydantic import Field

from crawler_lifecycle.contract.base import Message
from crawler_lifecycle.contract.limits import INSTALLATION, LimitRecord
from crawler_lifecycle.contract.records import RunSummary
from crawler_lifecycle.contract.run_filter import RunFilter
from crawler_lifecycle.contract.states import RunStatus
from crawler_lifecycle.services.api.document import INSTALLATION_LIMITS, RUN_SUMMARY, example
from crawler_lifecycle.services.api.state import READING, CurrentApi

MOST_SATURATED = 50  # in an answer
OPEN = RunFilter(statuses=tuple(status for status in RunStatus if not status.is_over), flows=True)
_WAITS = {"waiting_cause": "quota", "waiting_message": "exceeded quota: pods"}
EXAMPLE = {
    "installation": "0d4c7a52-3c55-4d8e-8a6f-1f0b4f6b7c10", "open_runs": 29, "runs_in_line": 15, "saturated_runs": 1,
    "limits": INSTALLATION_LIMITS, "saturated": [RUN_SUMMARY | _WAITS],
}  # fmt: skip

router = APIRouter(prefix="/v1", tags=["limits"])


class InstallationView(Message):
    """An installation's capacity, and what waits for capacity."""

    installation: str = Field(description="UUID of the installation")
    limits: LimitRecord = Field(description="caps and pause of the installation, with the present use")
    open_runs: int = Field(description="runs that are not over, with those of flows")
    runs_in_line: int = Field(description="runs that wait for their permit, whichever scope holds them")
    saturated_runs: int = Field(description="runs that have waited for room in the cluster for five minutes or longer")
    saturated: list[RunSummary] = Field(description="the saturated runs that wait longest, each with its waiting cause")


@router.get("/installation", dependencies=READING, responses=example(EXAMPLE))
def installation(api: CurrentApi) -> InstallationView:
    """Return the use of the installation's capacity, and the runs for which its cluster has no room."""
    records = api.control.limits.all()
    saturated = api.control.runs.saturated(MOST_SATURATED)
    return InstallationView(
        installation=api.records.installation(),
        limits=next(record for record in records if record.scope == INSTALLATION),
        open_runs=sum(api.control.runs.counts(OPEN).values()),
        runs_in_line=sum(record.runs_held for record in records),
        saturated_runs=saturated.total,
        saturated=list(saturated.longest),
    )
