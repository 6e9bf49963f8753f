"""When was a schedule due, and what became of each time?"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from google.protobuf.timestamp_pb2 import Timestamp
from temporalio.api.workflowservice.v1 import ListScheduleMatchingTimesRequest
from temporalio.client import ScheduleDescription

from crawler_lifecycle.contract.schedules import Occurrence, Outcome, Overlap
from crawler_lifecycle.control import pause_log
from crawler_lifecycle.control import schedule_forms as forms
from crawler_lifecycle.control.earlier_rules import MOST_RULES, Rules, earlier_rules, rules_of
from crawler_lifecycle.control.engine import RPC_TIMEOUT
from crawler_lifecycle.control.schedule_starts import starts_of, with_runs
from crawler_lifecycle.domain.occurrences import SETTLING, Circumstances, Start, judged, with_queue

if TYPE_CHECKING:
    from crawler_lifecycle.control.control import Control

PAGE = 1000  # as many times as Temporal names at once
FIRST_WINDOW = timedelta(minutes=15)  # at one a second still within a page
GROWTH = 8
JUST_BEFORE = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Span:
    """The latest times that were due by some rules, and how many Temporal has missed while it went by them."""

    rules: Rules
    due: Sequence[datetime]
    missed: int


class Occurrences:
    def __init__(self, control: "Control") -> None:
        self._control = control
        self._engine = control.engine

    async def latest(
        self, description: ScheduleDescription, most: int, before: datetime | None
    ) -> Sequence[Occurrence]:
        """Newest first."""
        if not most:
            return []
        now, schedule = datetime.now(UTC), description.schedule
        present = rules_of(description, now)
        spans = await self._latest_spans(description, present, most, min(now, before - JUST_BEFORE) if before else now)
        if not spans:
            return []
        starts = await self._starts(description, spans, to_the_last=before is not None)
        noted = pause_log.pauses(schedule.state.note or "")
        known = Circumstances(
            starts=starts,
            pauses=pause_log.in_force(noted, paused=schedule.state.paused),
            paused=schedule.state.paused,
            overlap=present.overlap,
            jitter=present.jitter,
            window=present.window,
            # what replaces an open run is the last of those that wait, and so not among earlier ones
            queued=0 if before and present.overlap is Overlap.REPLACE else description.raw_description.info.buffer_size,
            missed=present.missed,
            now=now,
        )
        found = [each for span in spans for each in _judged(span, known)]
        first_executions = {start.workflow_id: start.first_execution for start in starts}
        return [await self._with_run(each, first_executions) for each in reversed(with_queue(found, known))]

    async def _starts(
        self, description: ScheduleDescription, spans: Sequence[Span], *, to_the_last: bool
    ) -> Sequence[Start]:
        jitter, window = max(each.rules.jitter for each in spans), max(each.rules.window for each in spans)
        since, last = spans[0].due[0], spans[-1].due[-1]
        until = last + jitter + window + SETTLING if to_the_last else None
        async with self._engine.translated():
            known = await starts_of(await self._engine.client(), description, since, until)
        ids = (forms.occurrence_id(description.id, at) for at in (since - jitter, last))
        made = await self._control.asked(lambda parts: parts.records.made_by(*ids))
        return with_runs(known, made, description.id)

    async def _with_run(self, occurrence: Occurrence, first_executions: dict[str, str]) -> Occurrence:
        workflow_id = occurrence.workflow_id
        if workflow_id is None:
            return occurrence
        run = await self._control.asked(lambda parts: parts.records.find(workflow_id, first_executions[workflow_id]))
        if run is None:
            return occurrence
        return occurrence.model_copy(update={"run_id": run.run_id, "run_status": run.status})

    async def _latest_spans(
        self, description: ScheduleDescription, present: Rules, most: int, until: datetime
    ) -> Sequence[Span]:
        """Oldest first; none without a time that was due."""
        earlier = earlier_rules(description.schedule.state.note or "", present.since)
        before = [earlier[0].missed if len(earlier) == MOST_RULES else 0, *(each.missed for each in earlier)]
        due = await self._latest_due(description, most, until)
        found = [Span(present, due, present.missed - before[-1])]
        for each, counted in reversed([*zip(earlier, before, strict=False)]):
            left = most - sum(len(span.due) for span in found)
            found.append(Span(each, each.due(until, left), each.missed - counted))
        return [span for span in reversed(found) if span.due]

    async def _latest_due(self, description: ScheduleDescription, most: int, until: datetime) -> Sequence[datetime]:
        """Temporal counts forwards only: so ever longer spans up to then, until they have enough.

        And by the present rules only."""
        made, span = description.info.last_updated_at or description.info.created_at, FIRST_WINDOW
        if until <= made:
            return []
        while True:
            since = max(made, until - span)
            due = await self.due(description.id, since, until)
            if len(due) >= most or since == made:
                return due[-most:]
            span *= GROWTH

    async def due(
        self, schedule_id: str, since: datetime, until: datetime, most: int | None = None
    ) -> Sequence[datetime]:
        """The times after `since`, as Temporal itself counts them, jitter included."""
        client, found = await self._engine.client(), [since]
        while most is None or len(found) <= most:
            async with self._engine.translated():
                answer = await client.workflow_service.list_schedule_matching_times(
                    ListScheduleMatchingTimesRequest(
                        namespace=client.namespace,
                        schedule_id=schedule_id,
                        start_time=_stamp(found[-1]),
                        end_time=_stamp(until),
                    ),
                    timeout=RPC_TIMEOUT,
                )
            found += [each.ToDatetime(UTC) for each in answer.start_time]
            if len(answer.start_time) < PAGE:
                break
        return found[1:]


def _judged(span: Span, known: Circumstances) -> list[Occurrence]:
    """Earlier rules may have ended before what was due just then was late by its jitter."""
    rules = span.rules
    of_then = replace(known, overlap=rules.overlap, jitter=rules.jitter, window=rules.window, missed=span.missed)
    ended = rules.until - rules.jitter
    found = judged(span.due, of_then)
    return [each for each in found if each.at <= ended or rules.until == known.now or each.outcome is Outcome.STARTED]


def _stamp(moment: datetime) -> Timestamp:
    stamp = Timestamp()
    stamp.FromDatetime(moment.astimezone(UTC))
    return stamp
