"""A queue of events with its dead letter queue, in a server for tests."""

from typing import Any
from uuid import uuid4

from crawler_lifecycle.settings.outside import TriggerSettings
from tests.kit.outside.stores import REGION, client_of


class Queues:
    """A queue with its dead letter queue."""

    def __init__(self, url: str) -> None:
        self.url, self.sqs = url, client_of("sqs", url)
        self.events, self.dead = (
            self.sqs.create_queue(QueueName=f"{kind}-{uuid4()}")["QueueUrl"] for kind in ("events", "dead")
        )

    def settings(self, **more: Any) -> TriggerSettings:
        given = {"queue_url": self.events, "dead_letter_url": self.dead, "endpoint_url": self.url, "region": REGION}
        return TriggerSettings(**given | more)

    def send(self, *bodies: str) -> None:
        for body in bodies:
            self.sqs.send_message(QueueUrl=self.events, MessageBody=body)

    def counts(self) -> tuple[int, int]:
        """The messages in the queue that are visible, and those that are hidden."""
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        attributes = self.sqs.get_queue_attributes(QueueUrl=self.events, AttributeNames=names)["Attributes"]
        return int(attributes[names[0]]), int(attributes[names[1]])

    def given_up(self) -> list[tuple[str, str]]:
        """Bodies and reasons in the dead letter queue, which is empty afterwards."""
        taken = list[tuple[str, str]]()
        while messages := self._receive_dead():
            taken += [(message["Body"], message["MessageAttributes"]["Reason"]["StringValue"]) for message in messages]
        return taken

    def _receive_dead(self) -> list[dict[str, Any]]:
        answer = self.sqs.receive_message(
            QueueUrl=self.dead, MaxNumberOfMessages=10, VisibilityTimeout=600, MessageAttributeNames=["All"]
        )
        messages: list[dict[str, Any]] = answer.get("Messages", [])
        return messages
