"""Events on EventBridge: a run is over, or its files are ready."""

from typing import Any

from crawler_lifecycle.adapters.aws.client import calling, make_client
from crawler_lifecycle.contract.notices import ExportEvent, ExportKind
from crawler_lifecycle.errors import Refused, TemporaryError
from crawler_lifecycle.settings.outside import ExportSettings

PASSING = ("ThrottlingException", "InternalException", "InternalFailure", "ServiceUnavailable")
MEND = "are CRAWLER_EXPORT__EVENT_BUS, the region and the rights of these credentials (events:PutEvents) right?"


class EventBridge:
    def __init__(self, bus: str, settings: ExportSettings) -> None:
        self._bus = bus
        self._source = settings.event_source
        self._types = {ExportKind.RUN_ENDED: settings.run_ended_type, ExportKind.FILES_READY: settings.files_ready_type}
        self._client = make_client(
            "events", settings, settings.events_endpoint_url, "CRAWLER_EXPORT__EVENTS_ENDPOINT_URL", tries=1
        )

    def announce(self, event: ExportEvent) -> None:
        """Try once; the caller retries. EventBridge gives every try an id, so the constant id is in the detail."""
        entry = {
            "EventBusName": self._bus,
            "Source": self._source,
            "DetailType": self._types[event.kind],
            "Time": event.at,
            "Detail": event.model_dump_json(),
        }
        with calling(f"event bus {self._bus}", MEND):
            answer = self._client.put_events(Entries=[entry])
        self._check_taken(answer)

    def check_events(self) -> str:
        with calling(f"event bus {self._bus}", MEND):
            self._client.describe_event_bus(Name=self._bus)
        return f"events on bus {self._bus}, source {self._source}"

    def _check_taken(self, answer: dict[str, Any]) -> None:
        """Raise if EventBridge refused the entry, even in an answer with status 200."""
        if not answer.get("FailedEntryCount"):
            return
        entry: dict[str, str] = next(iter(answer.get("Entries", [])), {})
        code = entry.get("ErrorCode", "no reason")
        message = f"event bus {self._bus} did not take the event: {code}: {entry.get('ErrorMessage', '')}".rstrip(": ")
        raise TemporaryError(message) if code in PASSING else Refused(f"{message}; {MEND}")
