"""Deaths between a manager's host and the process of the author's object, at each of their messages."""

from typing import Any
from weakref import WeakKeyDictionary

from crawler_lifecycle.hosts.children import Channel
from tests.crash.deaths import Deaths

HOST, OBJECT = "host", "object"
CALLED, ANSWERED = "called", "answered"


def doomed_channel(deaths: Deaths, side: str) -> None:
    """Let this process die before and after each call of the object. The points are `side.call.called` and so on."""
    send, receive = Channel.send, Channel.receive
    calls = WeakKeyDictionary[Channel, str]()  # the last call of each object

    def pass_by(name: str | None, moment: str) -> None:
        if name:
            deaths.pass_by(f"{side}.{name}.{moment}")

    def sending(channel: Channel, message: dict[str, Any]) -> None:
        if side == OBJECT:
            calls[channel] = _name(message)
            pass_by(calls[channel], CALLED)
        answered = calls.get(channel)  # the object's next message may arrive during the sending
        send(channel, message)
        if side == HOST:
            pass_by(answered, ANSWERED)

    def receiving(channel: Channel) -> dict[str, Any] | None:
        message = receive(channel)
        if message is None:
            return None
        if side == HOST:
            calls[channel] = _name(message)
            pass_by(calls[channel], CALLED)
        else:
            pass_by(calls.get(channel), ANSWERED)
        return message

    changed = {"send": sending, "receive": receiving}
    for name, method in changed.items():
        setattr(Channel, name, method)


def _name(message: dict[str, Any]) -> str:
    return str(message.get("call") or next(iter(message), ""))
