"""The SQS queue with events, and its dead letter queue."""

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass

from crawler_lifecycle.delivery.aws.client import make_client, translated_errors
from crawler_lifecycle.errors import NotReady
from crawler_lifecycle.settings.outside import TriggerSettings

MOST_MESSAGES = 10  # in an answer by SQS
POLL_SECONDS = 10  # longest wait for messages in a request, also when the process ends
TRIES = 3
ANSWER_SECONDS = 10.0  # time limit for an answer, after the long poll
LONGEST_REASON = 1000  # characters: the reason counts towards the size of the message
REMEDY = (
    "are CRAWLER_TRIGGERS__QUEUE_URL, CRAWLER_TRIGGERS__DEAD_LETTER_URL, the region and the rights of these "
    "credentials (sqs:ReceiveMessage, sqs:DeleteMessage, sqs:ChangeMessageVisibility, sqs:GetQueueAttributes; "
    "sqs:SendMessage for the dead letter queue) right?"
)


@dataclass(frozen=True, slots=True)
class QueueMessage:
    """A received message. `receipt` is valid for this delivery alone."""

    id: str
    body: str
    receipt: str
    deliveries: int
    sent_at: float  # seconds since 1970

    @property
    def age(self) -> float:
        return max(0.0, time.time() - self.sent_at)


class EventQueue:
    """Every call is bounded: TRIES tries, each with a time limit. Errors are TemporaryError or NotReady."""

    def __init__(self, settings: TriggerSettings) -> None:
        if not settings.queue_url:
            raise NotReady("CRAWLER_TRIGGERS__QUEUE_URL: expected the URL of the SQS queue with the events")
        if not settings.dead_letter_url:
            raise NotReady("CRAWLER_TRIGGERS__DEAD_LETTER_URL: expected the URL of the dead letter queue")
        self._url, self._dead_letter_url = settings.queue_url, settings.dead_letter_url
        self._visibility_seconds = settings.visibility_seconds
        self._client = make_client(
            "sqs",
            settings.endpoint_url,
            "CRAWLER_TRIGGERS__ENDPOINT_URL",
            region=settings.region,
            seconds=POLL_SECONDS + ANSWER_SECONDS,
            tries=TRIES,
        )

    def receive(self) -> Sequence[QueueMessage]:
        """Wait for messages, and hide the received messages from other workers for a while."""
        with translated_errors(f"queue {self._url}", REMEDY):
            answer = self._client.receive_message(
                QueueUrl=self._url,
                MaxNumberOfMessages=MOST_MESSAGES,
                WaitTimeSeconds=POLL_SECONDS,
                VisibilityTimeout=self._visibility_seconds,
                MessageSystemAttributeNames=["ApproximateReceiveCount", "SentTimestamp"],
            )
        return [
            QueueMessage(
                received["MessageId"],
                received["Body"],
                received["ReceiptHandle"],
                int(received["Attributes"]["ApproximateReceiveCount"]),
                int(received["Attributes"]["SentTimestamp"]) / 1000,
            )
            for received in answer.get("Messages", [])
        ]

    def delete(self, message: QueueMessage) -> None:
        with translated_errors(f"queue {self._url}", REMEDY):
            self._client.delete_message(QueueUrl=self._url, ReceiptHandle=message.receipt)

    def give_up(self, message: QueueMessage, reason: str) -> None:
        """Copy the message to the dead letter queue, with the reason, before it is deleted here.

        A crash in between repeats the copy. The body stays unchanged, for a redrive.
        """
        attribute = {"DataType": "String", "StringValue": re.sub(r"[^ -~]+", " ", reason)[:LONGEST_REASON] or "unknown"}
        with translated_errors(f"dead letter queue {self._dead_letter_url}", REMEDY):
            self._client.send_message(
                QueueUrl=self._dead_letter_url, MessageBody=message.body, MessageAttributes={"Reason": attribute}
            )
        self.delete(message)

    def postpone(self, message: QueueMessage, seconds: float) -> None:
        """Let the queue deliver the message again after this time."""
        with translated_errors(f"queue {self._url}", REMEDY):
            self._client.change_message_visibility(
                QueueUrl=self._url, ReceiptHandle=message.receipt, VisibilityTimeout=int(seconds)
            )

    def check(self) -> None:
        """Raise an error if a queue does not answer."""
        with translated_errors(f"queue {self._url}", REMEDY):
            self._client.get_queue_attributes(QueueUrl=self._url, AttributeNames=["QueueArn"])
