"""What do all parts of an audit do with what they have found? Write it down, act, write down what was done.

A dry run only tells. What is written down is told as well: the first of it, for whoever asked for the audit.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from temporalio import activity

from crawler_lifecycle.contract.audits import AuditPage, AuditRef, Finding, FindingKind
from crawler_lifecycle.contract.requests import RunRequest
from crawler_lifecycle.domain.audit.subjects import AuditedRun, WorkflowInfo
from crawler_lifecycle.errors import LifecycleError, PermanentError
from crawler_lifecycle.ports import Findings, Supervisors

AT_ONCE = 16  # questions to Temporal
TRIES = 3  # of a page: what fails at one workflow then still, while Temporal's list answers, is a matter of that one
TOLD = 100
RESUMED = "its workflow was started again"
T = TypeVar("T")
R = TypeVar("R")
Act = Callable[[Finding], Awaitable[Finding]]


@dataclass(frozen=True)
class Ledger:
    """Of one page."""

    audit: AuditRef
    findings: Findings

    async def settle(self, found: Sequence[Finding], act: Act, *, examined: int, unknown: int = 0) -> AuditPage:
        counts = Counter(each.kind for each in found)
        if self.audit.repair and found:
            await asyncio.to_thread(self.findings.report, self.audit, found)
            found = [each async for each in self._acted(found, act)]
            _count(counts)
        return AuditPage(
            examined=examined,
            found=dict(counts),
            acted=sum(each.action is not None for each in found),
            unknown=unknown,
            findings=[each.model_copy(update={"evidence": None}) for each in found[:TOLD]],
        )

    async def _acted(self, found: Sequence[Finding], act: Act) -> AsyncIterator[Finding]:
        """What was done is written down before the next few: a worker that dies forgets little."""
        for start in range(0, len(found), AT_ONCE):
            done = await each_of(act, found[start : start + AT_ONCE])
            if told := [each for each in done if each.action or each.problem]:
                await asyncio.to_thread(self.findings.report, self.audit, told)
            for each in done:
                yield each

    async def keep(self, subjects: Collection[tuple[FindingKind, str]]) -> None:
        if self.audit.repair and subjects:
            await asyncio.to_thread(self.findings.keep, self.audit, subjects)


async def each_of(ask: Callable[[T], Awaitable[R]], items: Iterable[T]) -> list[R]:
    """In their order, a few at once. The first that fails fails all: the page is tried again."""
    turns = asyncio.Semaphore(AT_ONCE)

    async def in_turn(item: T) -> R:
        async with turns:
            return await ask(item)

    tasks = [asyncio.create_task(in_turn(item)) for item in items]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()


async def not_open(
    supervisors: Supervisors, runs: Sequence[AuditedRun], doubted: Collection[int] = ()
) -> dict[int, WorkflowInfo]:
    """Of these runs, by RunID, those whose workflows are not listed as open; described, or with the problem of that;
    and those of whom that is doubted."""
    listed = await supervisors.open_among([run.workflow_id for run in runs])
    missing = [run for run in runs if run.workflow_id not in listed or run.run_id in doubted]
    described = await each_of(partial(_described, supervisors), missing)
    return {run.run_id: seen for run, seen in zip(missing, described, strict=True)}


async def _described(supervisors: Supervisors, run: AuditedRun) -> WorkflowInfo:
    try:
        return await supervisors.describe(run.workflow_id)
    except LifecycleError as error:
        return WorkflowInfo(is_open=False, problem=of_this_one(error))


def of_this_one(error: LifecycleError) -> str:
    """What is in the way of one run keeps no other from being audited. An outage is raised: the page is tried again."""
    if not isinstance(error, PermanentError) and activity.info().attempt < TRIES:
        raise error
    return error.message


async def go_on(supervisors: Supervisors, run: AuditedRun, finding: Finding) -> Finding:
    """By its own workflow, under its registered id; joined if it is open by now."""
    if finding.problem:
        return finding
    try:
        await supervisors.go_on(run.workflow_id, RunRequest(crawler=run.crawler, run_id=run.run_id))
    except LifecycleError as error:
        return finding.model_copy(update={"problem": of_this_one(error)})
    return finding.model_copy(update={"action": RESUMED})


def _count(counts: Counter[FindingKind]) -> None:
    for kind, count in counts.items():
        meter = activity.metric_meter().with_additional_attributes({"kind": kind})
        meter.create_counter("crawler_audit_findings", "what audits found, each time they found it").add(count)
