"""Announcer on an EventBridge bus: a run is over, a run's files are archived, or a flow is over."""

from typing import Any

from crawler_lifecycle.delivery.aws.client import make_client, translated_errors
from crawler_lifecycle.errors import Refused, TemporaryError
from crawler_lifecycle.model.flow_states import FlowNoticeKind
from crawler_lifecycle.model.notices import AnyEvent
from crawler_lifecycle.model.states import ExportKind
from crawler_lifecycle.settings.outside import ExportSettings

PASSING_CODES = (  # error codes for passing failures: the next try may succeed
    "ThrottlingException",
    "InternalException",
    "InternalFailure",
    "ServiceUnavailable",
)
MEND_EVENTS = "are CRAWLER_EXPORT__EVENT_BUS, the region and the rights of these credentials (events:PutEvents) right?"


class EventBridge:
    """Announcer on one event bus."""

    def __init__(self, bus: str, settings: ExportSettings) -> None:
        self._bus = bus
        self._source = settings.event_source
        self._types = {
            ExportKind.RUN_ENDED: settings.run_ended_type,
            ExportKind.FILES_READY: settings.files_ready_type,
            FlowNoticeKind.FLOW_ENDED: settings.flow_ended_type,
        }
        self._client = make_client(
            "events",
            settings.events_endpoint_url,
            "CRAWLER_EXPORT__EVENTS_ENDPOINT_URL",
            region=settings.region,
            seconds=settings.timeout_seconds,
            tries=1,
        )

    def announce(self, event: AnyEvent) -> None:
        """Send the event once; the caller repeats a failed try. Raise TemporaryError, Refused or NotReady.

        EventBridge gives every try another id, so the id that receivers compare is in the detail.
        """
        entry = {
            "EventBusName": self._bus,
            "Source": self._source,
            "DetailType": self._types[event.kind],
            "Time": event.at,
            "Detail": event.model_dump_json(),
        }
        with translated_errors(f"event bus {self._bus}", MEND_EVENTS):
            answer = self._client.put_events(Entries=[entry])
        self._raise_if_refused(answer)

    def check_events(self) -> str:
        with translated_errors(f"event bus {self._bus}", MEND_EVENTS):
            self._client.describe_event_bus(Name=self._bus)
        return f"events on bus {self._bus}, source {self._source}"

    def _raise_if_refused(self, answer: dict[str, Any]) -> None:
        """Raise if EventBridge refused the entry. A refusal comes in an answer with status 200, as acceptance does.

        Raise TemporaryError for a code in PASSING_CODES, and Refused for any other code.
        """
        if not answer.get("FailedEntryCount"):
            return
        entry: dict[str, str] = next(iter(answer.get("Entries", [])), {})
        code = entry.get("ErrorCode", "no reason")
        message = f"event bus {self._bus} did not take the event: {code}: {entry.get('ErrorMessage', '')}".rstrip(": ")
        raise TemporaryError(message) if code in PASSING_CODES else Refused(f"{message}; {MEND_EVENTS}")
