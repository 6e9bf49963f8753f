"""A server with Pusher's protocol on loopback: it takes our notices over HTTP and hands them to browsers."""

import json
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

from websockets.exceptions import ConnectionClosed
from websockets.sync.server import Server, ServerConnection, serve

from tests.kit.outside.receivers import Answer, PusherServer, Received, serving


class PusherChannelsServer(PusherServer):
    """`subscribed` has the names of all channels that a browser has subscribed to, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.subscribed: list[str] = []
        self.browsers: dict[str, list[ServerConnection]] = defaultdict(list)
        self.sockets: Server = serve(self._talk, "127.0.0.1", 0)
        self.address = f"ws://127.0.0.1:{self.sockets.socket.getsockname()[1]}"

    def take(self, request: Received) -> Answer:
        answer = super().take(request)
        if answer.status == 200 and request.path.endswith("/events"):
            event = json.loads(request.body)
            for channel in event["channels"]:
                for browser in self.browsers[channel]:
                    _send(browser, event["name"], channel, event["data"])
        return answer

    def _talk(self, browser: ServerConnection) -> None:
        assert browser.request is not None
        assert browser.request.path.startswith(f"/app/{self.key}?protocol=7")
        established = json.dumps({"socket_id": "1.1", "activity_timeout": 120})
        browser.send(json.dumps({"event": "pusher:connection_established", "data": established}))
        browser.send(json.dumps({"event": "pusher:ping", "data": "{}"}))
        for text in browser:
            message = json.loads(text)
            if message["event"] == "pusher:subscribe":
                channel = message["data"]["channel"]
                self.browsers[channel].append(browser)
                self.subscribed.append(channel)
                _send(browser, "pusher_internal:subscription_succeeded", channel, "{}")

    def cut(self) -> None:
        """Close all browsers' connections."""
        for browsers in self.browsers.values():
            while browsers:
                browsers.pop().close()


def _send(browser: ServerConnection, event: str, channel: str, data: str) -> None:
    try:
        browser.send(json.dumps({"event": event, "channel": channel, "data": data}))
    except ConnectionClosed:
        return


@contextmanager
def pusher_channels() -> Iterator[PusherChannelsServer]:
    server = PusherChannelsServer()
    thread = threading.Thread(target=server.sockets.serve_forever, daemon=True)
    thread.start()
    try:
        with serving(server):
            yield server
    finally:
        server.sockets.shutdown()
        thread.join(10)
