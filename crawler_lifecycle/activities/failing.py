"""Find open runs whose workflow fails the same workflow task again and again."""

from collections.abc import Iterable
from functools import partial

from crawler_lifecycle.activities.auditing import gather_limited
from crawler_lifecycle.contract.audits import Finding
from crawler_lifecycle.domain.audit.failing import failing_workflow, is_failing
from crawler_lifecycle.domain.audit.subjects import AuditedRun
from crawler_lifecycle.errors import PermanentError
from crawler_lifecycle.ports import Supervisors


async def failing_workflows(supervisors: Supervisors, runs: Iterable[AuditedRun]) -> list[Finding]:
    """Describe every workflow: on no server does a list tell the attempts of a workflow task."""
    findings = await gather_limited(partial(_finding, supervisors), runs)
    return [finding for finding in findings if finding is not None]


async def _finding(supervisors: Supervisors, run: AuditedRun) -> Finding | None:
    try:
        workflow = await supervisors.describe(run.workflow_id)
        if not is_failing(workflow):
            return None
        return failing_workflow(run, workflow, await supervisors.task_failure(run.workflow_id))
    except PermanentError:  # concerns a single run, and `unsupervised` reports it
        return None
