"""The loop of `python -m workers.triggers`: takes events from the queue to the API. The API has the mapping.

A message is deleted after the API's answer. A crash before repeats the message, and the API starts nothing twice. A
refusal for good sends the message to the dead letter queue. After any other failure, the message stays in the queue and
comes again after a pause.
"""

import logging
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from dataclasses import dataclass, field
from datetime import timedelta

from prometheus_client import Counter, Gauge, Metric
from prometheus_client.registry import Collector

from crawler_lifecycle.base.pacing import Backoff
from crawler_lifecycle.client.api import Api
from crawler_lifecycle.errors import BadInput, LifecycleError, PermanentError
from crawler_lifecycle.http.health import Pulses
from crawler_lifecycle.triggers.model import Act, EventAnswer
from crawler_lifecycle.triggers.queue import EventQueue, QueueMessage

log = logging.getLogger(__name__)
FIRST_PAUSE = timedelta(seconds=5)
LONGEST_PASS_PAUSE = timedelta(seconds=30)  # after failed passes; during an outage, receiving costs tries
OUTCOMES = ("started", "stopped", "repeated", "dead_letter", "failed")


class TriggerMetrics(Collector):
    def __init__(self) -> None:
        self.received = Counter("crawler_trigger_messages_received", "Messages from the queue", registry=None)
        self.messages = Counter("crawler_trigger_messages", "Messages by outcome", ["outcome"], registry=None)
        self.age = Gauge(
            "crawler_trigger_message_age_seconds", "Age of the oldest message in the last answer", registry=None
        )
        for outcome in OUTCOMES:  # an alarm needs a 0
            self.messages.labels(outcome)

    def collect(self) -> Iterable[Metric]:
        for metric in (self.received, self.messages, self.age):
            yield from metric.collect()


@dataclass
class Bridge:
    queue: EventQueue
    post: Callable[[str], EventAnswer]  # sends an event to the API
    longest_pause: timedelta
    pool: Executor
    metrics: TriggerMetrics = field(default_factory=TriggerMetrics)
    pulses: Pulses = field(default_factory=Pulses)

    def run(self, stopped: threading.Event) -> None:
        """Make passes until the event is set. After failed passes in a row, the pause grows."""
        failures, backoff = 0, Backoff(FIRST_PAUSE, LONGEST_PASS_PAUSE)
        while not stopped.is_set():
            try:
                self.handle_messages()
                failures = 0
                self.pulses.passed()
            except LifecycleError as error:
                failures += 1
                self.pulses.failed(error)
                log.warning("no event is handled: %s", error.message)
                stopped.wait(backoff.seconds(failures))

    def handle_messages(self) -> None:
        """Make a pass. If all messages failed, raise the first error: the pass counts as failed."""
        messages = self.queue.receive()
        self.metrics.received.inc(len(messages))
        self.metrics.age.set(max((message.age for message in messages), default=0.0))
        errors = [error for error in self.pool.map(self._handle, messages) if error is not None]
        if messages and len(errors) == len(messages):
            raise errors[0]

    def _handle(self, message: QueueMessage) -> LifecycleError | None:
        """Handle a message. Return the error if the message stays in the queue."""
        try:
            outcome = self._outcome(message)
        except LifecycleError as error:
            self.metrics.messages.labels("failed").inc()
            log.warning("message %s stays in the queue: %s", message.id, error.message)
            self._postpone(message)
            return error
        self.metrics.messages.labels(outcome).inc()
        return None

    def _outcome(self, message: QueueMessage) -> str:
        try:
            answer = self.post(message.body)
        except PermanentError as error:
            if not is_for_good(error):
                raise
            self.queue.give_up(message, error.message)
            log.warning("message %s is in the dead letter queue: %s", message.id, error.message)
            return "dead_letter"
        self.queue.delete(message)
        target = f"run {answer.run_id}" if answer.flow_id is None else f"flow {answer.flow_id}"
        log.info("message %s: %s, rule %s, created: %s", message.id, target, answer.rule, answer.created)
        if not answer.created:
            return "repeated"
        return "stopped" if answer.act is Act.STOP_RUN else "started"

    def _postpone(self, message: QueueMessage) -> None:
        pause = Backoff(FIRST_PAUSE, self.longest_pause).seconds(message.deliveries)
        try:
            self.queue.postpone(message, pause)
        except LifecycleError as error:  # the message comes again when its visibility timeout ends
            log.warning("message %s: its pause cannot be set: %s", message.id, error.message)


def is_for_good(error: PermanentError) -> bool:
    """Return whether no repetition of the event can succeed.

    The endpoint refuses events by BadInput, and the API refuses too large bodies by a plain PermanentError. NotFound
    and the like come from an API without the endpoint, or from a wrong address.
    """
    return isinstance(error, BadInput) or type(error) is PermanentError


def posting(api: Api) -> Callable[[str], EventAnswer]:
    """Return the function to send events to the API. The API checks the body."""

    def post(body: str) -> EventAnswer:
        answer = api.connection.request(
            "POST",
            "/v1/events",
            repeatable=True,
            headers={"Content-Type": "application/json"},
            content=body.encode(),
        )
        return api.connection.model(EventAnswer, answer.body)

    return post
