"""Port for what others learn of a run: its notices, its exports, and the lines about them in its timeline."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from crawler_lifecycle.model.notices import ExportEvent, Notice
from crawler_lifecycle.model.records import Explanation, ExportRecord, RunRecord
from crawler_lifecycle.model.run_plan import RunRef
from crawler_lifecycle.model.states import ExportState


class Deliveries(Protocol):
    """A method with a `RunRef` raises Fenced if the run has another supervisor by now."""

    def current(self, run: RunRef) -> RunRecord:
        """Return the run; Fenced if the caller is not its supervisor any more. NotFound if there is no such run."""

    def note(self, run: RunRef, key: str, event: str, message: str, *, hurried: bool = False) -> None:
        """Add a line to the run's timeline, unless a line with the key exists. `hurried`: see `Tasks`."""

    def has_note(self, run: RunRef, key: str) -> bool:
        """Return whether the run's timeline has a line with the key."""

    def open_export(self, run: RunRef, event: ExportEvent) -> ExportRecord:
        """Return the export's row for the event; make the row (pending) at the first call."""

    def export_event(self, event_id: str) -> ExportEvent | None:
        """Return the event as last written by `open_export` or `settle_export`; None without a row."""

    def export_events(self, event_ids: Sequence[str]) -> Mapping[str, ExportEvent]:
        """Return the written events among these ids, by id."""

    def settle_export(
        self,
        run: RunRef,
        event_id: str,
        state: ExportState,
        location: str | None,
        problem: str | None,
        event: ExportEvent | None = None,
    ) -> None:
        """Write the export's state and, unless `event` is None, the event in its final form. DONE stays DONE."""

    def explanation(self, run: RunRecord) -> Explanation | None:
        """Return why the run ended; None for an open run, and for a run whose tasks all succeeded."""

    def keep_notice(self, run: RunRef, notice: Notice) -> Notice:
        """Store the notice, unless a notice with the same id is stored already. Return the stored notice, to send.

        The given object itself is returned if no try has stored a notice before, and for progress.
        So every try under an id sends the same notice. Only the last progress notice stays stored.
        """
