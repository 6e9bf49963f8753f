"""Announcing that a run is over, and archiving what it left. Neither changes how the run ended."""

from temporalio import workflow
from temporalio.common import RawValue
from temporalio.exceptions import ActivityError

from crawler_lifecycle.activities.exports import ExportActivities
from crawler_lifecycle.contract.steps import ExportedFiles, RunRef, ToRun
from crawler_lifecycle.workflows.inputs import NOTHING, decoded
from crawler_lifecycle.workflows.options import ANNOUNCE, LONG


async def export(run: RunRef) -> ExportedFiles:
    await workflow.execute_activity_method(ExportActivities.initiate_export_signal, ToRun(run=run), **ANNOUNCE)
    return await workflow.execute_activity_method(ExportActivities.export_supporting_files, ToRun(run=run), **LONG)


async def export_if_possible(run: RunRef) -> None:
    """The end of a run: what cannot be exported now is shown as failed and can be exported again."""
    try:
        await export(run)
    except ActivityError as error:
        workflow.logger.error("run %s is over, but its export failed: %s", run.run_id, error.cause)


@workflow.defn(name="RunExportWorkflow")
class RunExportWorkflow:
    """Exports a run again, under the same ids, without crawling again."""

    @workflow.run
    async def run(self, raw: RawValue = NOTHING) -> ExportedFiles:
        return await export(decoded(ToRun, raw).run)
