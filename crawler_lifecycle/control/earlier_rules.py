"""What did a schedule go by before its present rules? A line each in its note, beside its pauses.

Temporal names times by the present rules only, and keeps none of those before.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from heapq import merge
from itertools import groupby, islice

from pydantic import Field, ValidationError
from temporalio.client import ScheduleDescription, ScheduleSpec

from crawler_lifecycle.contract.base import Message
from crawler_lifecycle.contract.cron import problem_of, times_of
from crawler_lifecycle.contract.schedules import Overlap
from crawler_lifecycle.control import schedule_forms as forms

WENT_BY = "went by "
MOST_RULES = 20
CLOCKS_DIFFER = timedelta(minutes=2)


class Rules(Message):
    """From `since` up to `until`; `missed` is what Temporal had counted by then since the schedule was made."""

    since: datetime
    until: datetime
    missed: int
    window_seconds: int
    overlap: Overlap | None = None
    cron: list[str] = Field(default_factory=list)
    every_seconds: int | None = Field(default=None, gt=0)
    offset_seconds: int = 0
    time_zone: str = "UTC"
    jitter_seconds: int = 0

    @property
    def jitter(self) -> timedelta:
        return timedelta(seconds=self.jitter_seconds)

    @property
    def window(self) -> timedelta:
        return timedelta(seconds=self.window_seconds)

    def due(self, until: datetime, most: int) -> Sequence[datetime]:
        """The latest times up to then, without their jitter. Oldest first."""
        until = min(until, self.until)
        lines = [times_of(line, self.time_zone, self.since, until) for line in self.cron if problem_of(line) is None]
        newest_first = merge(*lines, self._of_interval(until), reverse=True)
        return [*islice((at for at, _ in groupby(newest_first)), most)][::-1]

    def _of_interval(self, until: datetime) -> Iterator[datetime]:
        if self.every_seconds is None:
            return
        seconds = int(until.timestamp()) - (int(until.timestamp()) - self.offset_seconds) % self.every_seconds
        while (at := datetime.fromtimestamp(seconds, UTC)) > self.since:
            yield at
            seconds -= self.every_seconds


def rules_of(description: ScheduleDescription, until: datetime) -> Rules:
    """Those that it goes by; without times, if they are such as only others make."""
    schedule, info = description.schedule, description.info
    window = schedule.policy.catchup_window or timedelta()
    return Rules(
        since=info.last_updated_at or info.created_at,
        until=until,
        missed=info.num_actions_missed_catchup_window,
        window_seconds=int(window.total_seconds()),
        overlap=forms.overlap_of(schedule.policy),
        **forms.of_spec(schedule.spec if _is_of_ours(schedule.spec) else ScheduleSpec()),
    )


def _is_of_ours(spec: ScheduleSpec) -> bool:
    lines = [calendar.comment or forms.NOT_OF_OURS for calendar in spec.calendars]
    cut = spec.skip or spec.start_at or spec.end_at
    return not cut and len(spec.intervals) <= 1 and all(problem_of(line) is None for line in lines)


def with_rules(description: ScheduleDescription, now: datetime) -> str:
    """Its note with a line more: for the rules that it goes by up to now. The oldest ones go."""
    lines = (description.schedule.state.note or "").splitlines()
    known = [line for line in lines if line.startswith(WENT_BY)]
    gone = set(known[: max(0, len(known) + 1 - MOST_RULES)])
    line = WENT_BY + rules_of(description, now).model_dump_json(exclude_defaults=True)
    return "\n".join([*(each for each in lines if each not in gone), line])


def earlier_rules(note: str, present: datetime) -> list[Rules]:
    """Oldest first, up to those that it goes by since `present`. What others changed in between is left out."""
    found = [*_read(line.removeprefix(WENT_BY) for line in note.splitlines() if line.startswith(WENT_BY))]
    following = [*(each.since for each in found), present][1:]
    return [_up_to(each, then) for each, then in zip(found, following, strict=True)]


def _read(lines: Iterable[str]) -> Iterator[Rules]:
    for line in lines:
        try:
            yield Rules.model_validate_json(line)
        except ValidationError:  # somebody has written into the note
            continue


def _up_to(rules: Rules, then: datetime) -> Rules:
    """When the next ones took effect Temporal has noted, by its own clock."""
    follows = abs(then - rules.until) <= CLOCKS_DIFFER
    return rules.model_copy(update={"until": then if follows else min(rules.until, then)})
