"""Activities for a flow's crawls: start their runs, ask runs to stop, and find attempts that never got a run."""

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

from temporalio import activity

from crawler_lifecycle.base.ranges import from_ranges, to_ranges
from crawler_lifecycle.clusters.ports import Deployer
from crawler_lifecycle.delivery.ports import FlowSupervisors
from crawler_lifecycle.errors import NotFound, Over, PermanentError, TemporaryError
from crawler_lifecycle.flows.ports.ledger import CrawlStart, CrawlToStop, FlowLedger
from crawler_lifecycle.flows.rules.ends import AttemptEnd, Refusal, is_missing, refusal
from crawler_lifecycle.flows.rules.messages import (
    CheckStarts,
    CrawlsStarted,
    FlowRef,
    StartCrawls,
    StartsChecked,
    StopAttempts,
)
from crawler_lifecycle.flows.rules.words import START_REFUSED
from crawler_lifecycle.model.deployment import Crawler
from crawler_lifecycle.model.flow_states import EndKind
from crawler_lifecycle.model.requests import StopRequest
from crawler_lifecycle.model.run_plan import Counted
from crawler_lifecycle.model.supervision import WorkflowInfo
from crawler_lifecycle.runs.ports import Runs
from crawler_lifecycle.runs.rules.plan import RunLimits, planned
from crawler_lifecycle.temporal.together import gather_limited

DOOR = "flow"


@dataclass(frozen=True)
class FlowCrawlActivities:
    ledger: FlowLedger
    runs: Runs
    supervisors: FlowSupervisors
    deployer: Deployer
    limits: RunLimits

    @activity.defn
    async def start_crawls(self, step: StartCrawls) -> CrawlsStarted:
        """Record the attempts and start their runs' workflows, unless the catalogue refuses the request."""
        starts = await asyncio.to_thread(self.ledger.start_crawls, step)
        refusals = await asyncio.to_thread(self._refusals, starts.crawls)
        refused = await self._refuse(step.flow, starts.crawls, refusals)
        await gather_limited(self._start, [crawl for crawl in starts.crawls if crawl.start.number not in refusals])
        ends = (*starts.ended, *refused)
        return CrawlsStarted(stale=to_ranges(starts.stale), ends=ends, version=starts.version, has_lost=starts.has_lost)

    @activity.defn
    async def check_starts(self, step: CheckStarts) -> StartsChecked:
        """Find attempts whose workflow closed before their run, and attempts without a workflow.

        A workflow may make its run between the reading and the look at the workflow, so the rows are read again before
        an attempt counts as refused.
        """
        without_run = await asyncio.to_thread(self.ledger.unlinked_crawls, step.flow, step.before)
        if not without_run:
            return StartsChecked()
        workflows = await gather_limited(self._described, without_run)
        missing = [crawl.number for crawl, (info, _) in zip(without_run, workflows, strict=True) if is_missing(info)]
        ended = {crawl.number: end for crawl, (_, end) in zip(without_run, workflows, strict=True) if end is not None}
        still = await asyncio.to_thread(self.ledger.unlinked_crawls, step.flow, step.before) if ended else []
        refusals = {crawl.number: ended[crawl.number] for crawl in still if crawl.number in ended}
        ends = await self._refuse(step.flow, still, refusals)
        return StartsChecked(ends=ends, missing=to_ranges(missing))

    @activity.defn
    async def stop_attempts(self, step: StopAttempts) -> Counted:
        """Ask the members' crawls to end. Hosts of steps learn of the request from the members."""
        crawls = await asyncio.to_thread(self.ledger.crawls_to_stop, step.flow, from_ranges(step.members))
        request = StopRequest(
            actor=f"flow {step.flow_id}"[:256], door=DOOR, asked_at=activity.info().scheduled_time.astimezone(UTC)
        )
        await gather_limited(partial(self._stop, request), crawls)
        return Counted(count=len(crawls))

    def _refusals(self, crawls: Iterable[CrawlStart]) -> dict[int, Refusal]:
        """Return refusals for requests without a possible run. An absent catalogue refuses no request."""
        entries: dict[str, Crawler] = {}
        refusals: dict[int, Refusal] = {}
        for crawl in crawls:
            name = crawl.request.crawler
            try:
                if name not in entries:
                    entries[name] = self.deployer.crawler(name)
                planned(crawl.request, entries[name], self.limits)
            except TemporaryError:
                break  # the runs' own workflows wait for the catalogue
            except PermanentError as error:
                refusals[crawl.start.number] = Refusal(error.message)
        return refusals

    async def _start(self, crawl: CrawlStart) -> None:
        await self.supervisors.start_crawl(crawl.workflow_id, crawl.request)

    async def _refuse(
        self, flow: FlowRef, crawls: Iterable[CrawlStart | CrawlToStop], refusals: Mapping[int, Refusal]
    ) -> tuple[AttemptEnd, ...]:
        """Record the ends of refused attempts without a run, and return these ends."""
        now = datetime.now(UTC)
        ends = tuple(
            AttemptEnd(number, attempt, EndKind.FAILED, now, refusals[number].outcome, START_REFUSED)
            for number, attempt in map(_attempt, crawls)
            if number in refusals
        )
        if not ends:
            return ()
        messages = {number: refusal.problem for number, refusal in refusals.items()}
        return tuple(await asyncio.to_thread(self.ledger.end_attempts, flow, ends, messages))

    async def _described(self, crawl: CrawlToStop) -> tuple[WorkflowInfo, Refusal | None]:
        """Return the attempt's workflow, and the attempt's refusal if the workflow has closed."""
        workflow = await self.supervisors.describe(crawl.workflow_id)
        failure = None if workflow.is_open else await self.supervisors.failure(crawl.workflow_id)
        return workflow, refusal(workflow, failure)

    async def _stop(self, request: StopRequest, crawl: CrawlToStop) -> None:
        """Ask the run to stop, as `crawlctl stop` does. A crawl without a run gets the stop before its run."""
        request = request.model_copy(update={"reason": crawl.reason})
        if crawl.run_id is None:
            with suppress(NotFound):  # closed without a run: the check of starts ends the attempt
                await self.supervisors.stop(crawl.workflow_id, request)
            return
        asked_at = request.asked_at or datetime.now(UTC)
        try:
            run = await asyncio.to_thread(self.runs.request_stop, crawl.run_id, request, asked_at)
        except Over:
            return
        try:
            await self.supervisors.stop(run.workflow_id, request)
        except NotFound:
            await self.supervisors.go_on(run)


def _attempt(crawl: CrawlStart | CrawlToStop) -> tuple[int, int]:
    return (crawl.start.number, crawl.start.attempt) if isinstance(crawl, CrawlStart) else (crawl.number, crawl.attempt)
