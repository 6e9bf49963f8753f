"""State of a run's stops in its workflow: the first stop, stops not yet recorded, and whether the stop is a force."""

from datetime import datetime

from temporalio import workflow
from temporalio.common import SearchAttributeKey

from crawler_lifecycle.model.lifecycle import AcceptedStop, Carried
from crawler_lifecycle.model.reasons import SCHEDULE_DOOR
from crawler_lifecycle.model.requests import StopRequest
from crawler_lifecycle.model.states import Intent

SCHEDULE = SearchAttributeKey.for_keyword("TemporalScheduledById")
REPLACED = "cancelled by schedule overlap policy"  # Temporal's reason if a schedule's next run replaces this run
LONGEST_ACTOR, LONGEST_REASON = 256, 1024  # characters; a StopRequest accepts longer actors, for the names of tokens


class StopState:
    def __init__(self) -> None:
        self._unrecorded: list[AcceptedStop] = []  # stops not yet recorded
        self.first: AcceptedStop | None = None  # its grace period counts; None: no stop is asked for
        self.is_forced = False
        self.is_cancelled = False  # a stop was a cancel by Temporal's tools, so the workflow has to close as cancelled

    @property
    def is_asked(self) -> bool:
        return self.first is not None

    @property
    def has_unrecorded(self) -> bool:
        return bool(self._unrecorded)

    @property
    def intent(self) -> Intent:
        if self.first is None:
            return Intent.RUN
        return Intent.FORCE if self.is_forced else Intent.STOP

    def accept(self, stop: StopRequest, ends_as: str | None = None) -> bool:
        """Note a stop, and leave the action to the flow. Return whether an earlier stop was accepted.

        `ends_as`: the limit, if the run itself gives up; None: a person or another program asks for the stop.
        """
        is_repeated = self.is_asked
        self._unrecorded.append(AcceptedStop(stop=stop, at=stop.asked_at or workflow.now(), ends_as=ends_as))
        self.first = self.first or AcceptedStop(stop=stop, at=workflow.now())
        self.is_forced = self.is_forced or stop.force
        return is_repeated

    def accept_cancel(self) -> None:
        self.is_cancelled = True
        self.accept(_stop_by_cancel())

    def apply_intent(self, intent: Intent, since: datetime | None = None, told_at: datetime | None = None) -> None:
        """Take the intent over from the database, where a stop may be recorded although its signal was lost.

        `since`: when an earlier supervisor was first asked for the stop; `told_at`: when the jobs were first asked.
        """
        if intent is not Intent.RUN and self.first is None:
            self.first = AcceptedStop(stop=StopRequest(door="database"), at=workflow.now())
        if self.first is not None and since is not None:
            self.first = self.first.model_copy(update={"since": since, "told_at": told_at})
        self.is_forced = self.is_forced or intent is Intent.FORCE

    def take_unrecorded(self) -> list[AcceptedStop]:
        """Return the stops not yet recorded; the caller records them."""
        unrecorded, self._unrecorded = self._unrecorded, []
        return unrecorded

    def carry(self) -> dict[str, object]:
        """Return the fields for the next execution's `Carried`."""
        return {
            "asked": self._unrecorded,
            "stopping": self.first,
            "forced": self.is_forced,
            "cancelled": self.is_cancelled,
        }

    def resume(self, carried: Carried) -> None:
        """Add the stops from the earlier execution to the stops already accepted by this execution."""
        self._unrecorded = [*carried.asked, *self._unrecorded]
        self.first = carried.stopping or self.first
        self.is_forced = self.is_forced or carried.forced
        self.is_cancelled = self.is_cancelled or carried.cancelled


def _stop_by_cancel() -> StopRequest:
    """Return the stop for a cancel of the workflow. If a schedule replaces the run, the schedule is the actor."""
    reason = workflow.cancellation_reason()
    schedule = workflow.info().typed_search_attributes.get(SCHEDULE)
    if reason == REPLACED and schedule is not None:
        actor = f"schedule {schedule}"[:LONGEST_ACTOR]
        return StopRequest(actor=actor, reason="its next occurrence was due", door=SCHEDULE_DOOR)
    reason = (reason or "the workflow was cancelled")[:LONGEST_REASON]
    return StopRequest(actor="Temporal", reason=reason, door="cancel")
