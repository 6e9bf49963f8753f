"""Announcing that a run is over, and archiving what it left. Neither changes how the run ended."""

from temporalio import workflow
from temporalio.common import RawValue
from temporalio.exceptions import ActivityError

from crawler_lifecycle.activities.exports import ExportActivities
from crawler_lifecycle.contract.steps import ExportedFiles, ToEnd
from crawler_lifecycle.workflows.inputs import NOTHING, decoded
from crawler_lifecycle.workflows.options import ANNOUNCE, LONG


async def announce(step: ToEnd) -> None:
    await workflow.execute_activity_method(ExportActivities.initiate_export_signal, step, **ANNOUNCE)


async def archive(step: ToEnd) -> ExportedFiles:
    return await workflow.execute_activity_method(ExportActivities.export_supporting_files, step, **LONG)


async def export_if_possible(step: ToEnd) -> None:
    """Each for itself: what cannot be done now is shown as failed and can be done again."""
    for what in (announce, archive):
        try:
            await what(step)
        except ActivityError as error:
            workflow.logger.error("run %s is over, but its export failed: %s", step.run.run_id, error.cause)


@workflow.defn(name="RunExportWorkflow")
class RunExportWorkflow:
    """Exports a run again, under the same ids, without crawling again."""

    @workflow.run
    async def run(self, raw: RawValue = NOTHING) -> ExportedFiles:
        step = decoded(ToEnd, raw)
        await announce(step)
        return await archive(step)
