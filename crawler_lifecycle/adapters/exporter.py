"""Exporter with separate adapters for events and archives."""

from dataclasses import dataclass

from crawler_lifecycle.contract.notices import ExportEvent
from crawler_lifecycle.ports import Announcer, Archive, Archiver, Progress, StoredArchive


@dataclass(frozen=True, slots=True)
class ChosenExporter:
    events: Announcer
    archives: Archiver

    def announce(self, event: ExportEvent) -> None:
        self.events.announce(event)

    def destination(self, run_uid: str, end: int) -> str:
        return self.archives.destination(run_uid, end)

    def archive(self, run_uid: str, end: int, progress: Progress) -> Archive | None:
        return self.archives.archive(run_uid, end, progress)

    def stored(self, run_uid: str, end: int) -> StoredArchive:
        return self.archives.stored(run_uid, end)

    def check_events(self) -> str:
        return self.events.check_events()

    def check_archives(self) -> str:
        return self.archives.check_archives()
