"""Endpoint for a run with all its tasks and their evidence, for programs such as `crawlctl show`."""

from fastapi import APIRouter

from crawler_lifecycle.contract.records import RunDetails
from crawler_lifecycle.services.api.document import NO_RUN
from crawler_lifecycle.services.api.state import READING, CurrentApi, Run
from crawler_lifecycle.services.problems import problems

router = APIRouter(prefix="/v1", tags=["reading"])


@router.get("/runs/{run}/details", dependencies=READING, responses=problems(_404=NO_RUN))
def get_run_details(api: CurrentApi, run: Run) -> RunDetails:
    """Return a run with all its tasks and their evidence. The answer may be large: live pages read the tasks in
    pages.
    """
    return api.control.runs.show(run)
