"""Exports: announce the end by an event and archive the run's files. A failed export changes no run's end."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from temporalio import workflow
from temporalio.common import RawValue
from temporalio.exceptions import ActivityError, is_cancelled_exception

from crawler_lifecycle.activities.exports import ExportActivities
from crawler_lifecycle.contract.steps.run import ExportAgain, ExportedFiles, ExportSignal, ExportsOwed, RunEnd
from crawler_lifecycle.domain.naming import EXPORT_WORKFLOW
from crawler_lifecycle.workflows.inputs import NO_INPUT, decoded, failing_with_activity_message
from crawler_lifecycle.workflows.options import ANNOUNCE, LONG

T = TypeVar("T")


async def announce(step: RunEnd) -> ExportSignal:
    return await workflow.execute_activity_method(ExportActivities.initiate_export_signal, step, **ANNOUNCE)


async def archive(step: RunEnd) -> ExportedFiles:
    return await workflow.execute_activity_method(ExportActivities.export_supporting_files, step, **LONG)


async def export_if_possible(step: RunEnd, owed: ExportsOwed | None = None) -> None:
    """Export the run. A failed part is shown as failed and can be exported again.

    `owed`: the missing exports, if the run was over before.
    """
    _, problems = await _export(step, owed or ExportsOwed(events=[step.end], archives=[step.end]))
    for problem in problems:
        workflow.logger.error("run %s is over, but its export failed: %s", step.run.run_id, problem.cause)


async def _export(step: RunEnd, owed: ExportsOwed) -> tuple[list[ExportedFiles], list[ActivityError]]:
    """Announce and archive at the same time, since neither needs the other. Return the archives and the failures."""
    (_, not_announced), (archives, not_archived) = await asyncio.gather(
        _for_ends(announce, step, owed.events), _for_ends(archive, step, owed.archives)
    )
    return archives, [*not_announced, *not_archived]


async def _for_ends(
    make: Callable[[RunEnd], Awaitable[T]], step: RunEnd, ends: Sequence[int]
) -> tuple[list[T], list[ActivityError]]:
    results, problems = list[T](), list[ActivityError]()
    for end in ends:
        try:
            results.append(await make(RunEnd(run=step.run, end=end)))
        except ActivityError as error:
            if is_cancelled_exception(error):
                raise
            problems.append(error)
    return results, problems


@workflow.defn(name=EXPORT_WORKFLOW)
class RunExportWorkflow:
    """Export a run again, under the same ids and without crawling again, with the missing exports of its other ends."""

    @workflow.run
    async def run(self, raw: RawValue = NO_INPUT) -> ExportedFiles:
        step = decoded(ExportAgain, raw)
        with failing_with_activity_message():
            return await _export_again(step)


async def _export_again(step: ExportAgain) -> ExportedFiles:
    owed = ExportsOwed(
        events=_with_first(step.end, step.owed.events), archives=_with_first(step.end, step.owed.archives)
    )
    archived, problems = await _export(step, owed)
    if problems:
        raise problems[0]
    return archived[0]


def _with_first(first: int, ends: Sequence[int]) -> list[int]:
    """Return the ends with the requested end first: the workflow returns the first end's archive."""
    return [first, *(end for end in ends if end != first)]
