"""Exports: announce an end by an event, and archive the run's files. A failed export does not change the run's end."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from temporalio import workflow
from temporalio.common import RawValue
from temporalio.exceptions import ActivityError, is_cancelled_exception
from temporalio.workflow import ActivityConfig

from crawler_lifecycle.delivery.activities.exports import ExportActivities
from crawler_lifecycle.model.naming import EXPORT_WORKFLOW, archive_queue
from crawler_lifecycle.model.run_plan import ExportAgain, ExportedEnd, ExportedFiles, ExportSignal, ExportsOwed
from crawler_lifecycle.temporal.converter import NO_INPUT, decoded, failing_with_activity_message
from crawler_lifecycle.temporal.options import ANNOUNCE, LONG

Result = TypeVar("Result")


async def announce(step: ExportedEnd) -> ExportSignal:
    return await workflow.execute_activity_method(ExportActivities.initiate_export_signal, step, **ANNOUNCE)


async def archive(step: ExportedEnd) -> ExportedFiles:
    options = ActivityConfig(**LONG, task_queue=archive_queue(workflow.info().task_queue))
    return await workflow.execute_activity_method(ExportActivities.export_supporting_files, step, **options)


async def export_if_possible(step: ExportedEnd, owed: ExportsOwed | None = None) -> None:
    """Export the end. A failure is only logged: the database has the export as failed, and the export can be repeated.

    `owed`: the missing exports for all ends, if the run was over already; None: event and archive for the present end.
    """
    _, problems = await _export(step, owed or ExportsOwed(events=[step.end], archives=[step.end]))
    for problem in problems:
        workflow.logger.error("run %s is over, but its export failed: %s", step.run.run_id, problem.cause)


async def _export(step: ExportedEnd, owed: ExportsOwed) -> tuple[list[ExportedFiles], list[ActivityError]]:
    """Announce and archive at the same time, since neither needs the other. Return the archives and all failures."""
    announcing, archiving = _for_every_end(announce, step, owed.events), _for_every_end(archive, step, owed.archives)
    (_, failed_events), (archives, failed_archives) = await asyncio.gather(announcing, archiving)
    return archives, [*failed_events, *failed_archives]


async def _for_every_end(
    export: Callable[[ExportedEnd], Awaitable[Result]], step: ExportedEnd, ends: Sequence[int]
) -> tuple[list[Result], list[ActivityError]]:
    """Call `export` for the ends with these numbers, one after the other. Return the results and the failures."""
    results, problems = list[Result](), list[ActivityError]()
    for end in ends:
        try:
            results.append(await export(ExportedEnd(run=step.run, end=end, flow=step.flow)))
        except ActivityError as error:
            if is_cancelled_exception(error):
                raise
            problems.append(error)
    return results, problems


@workflow.defn(name=EXPORT_WORKFLOW)
class RunExportWorkflow:
    """Export an end again under the same ids, without crawling again, and make the missing exports for other ends."""

    @workflow.run
    async def run(self, raw: RawValue = NO_INPUT) -> ExportedFiles:
        step = decoded(ExportAgain, raw)
        with failing_with_activity_message():
            return await _export_again(step)


async def _export_again(step: ExportAgain) -> ExportedFiles:
    """Export, and return the archive of the requested end. Raise the first failure."""
    owed = ExportsOwed(
        events=_with_first(step.end, step.owed.events), archives=_with_first(step.end, step.owed.archives)
    )
    archives, problems = await _export(step, owed)
    if problems:
        raise problems[0]
    return archives[0]


def _with_first(first: int, ends: Sequence[int]) -> list[int]:
    """Return the first end, and then the other ends."""
    return [first, *(end for end in ends if end != first)]
