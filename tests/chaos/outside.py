"""What a stack speaks to outside: an S3 server, an event bus, a receiver of webhooks, each behind a door of its own."""

import io
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import time
import zipfile
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from botocore.exceptions import BotoCoreError

from crawler_lifecycle.stack.plan import free_ports
from tests.kit.outside.proxy import Proxy, proxy_to
from tests.kit.outside.receivers import Receiver, serving
from tests.kit.outside.stores import BUCKET, CREDENTIALS, KEY, REGION, SECRET, SOURCE, Bus, S3Store, moto_server
from tests.kit.waiting import PATIENCE

WEBHOOK_SECRET = "whsec_Y2hhb3MgaXMgbm90IHRoZSBlbmQgb2YgaXQuLi4="
PREFIX = "crawls/"


@dataclass
class S3Server:
    """`rclone serve s3`: a process that can be killed, and comes back on its port with its folder."""

    folder: Path
    port: int
    process: "subprocess.Popen[bytes] | None" = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        (self.folder / BUCKET).mkdir(parents=True, exist_ok=True)
        program = str(Path(sys.executable).with_name("rclone"))
        options = ["--config", "", "--addr", f"127.0.0.1:{self.port}", "--auth-key", f"{KEY},{SECRET}"]
        command = [program, "serve", "s3", *options, str(self.folder)]
        with self.folder.with_suffix(".log").open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        until_it_answers(self.url)

    def end(self) -> None:
        if self.process:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()


@dataclass
class Outside:
    s3: S3Server
    bus: Bus
    receiver: Receiver
    doors: dict[str, Proxy]
    events: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: defaultdict(list))
    notices: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: defaultdict(list))
    _read: int = 0

    @property
    def settings(self) -> dict[str, str]:
        return CREDENTIALS | {
            "CRAWLER_EXPORT__BUCKET": BUCKET,
            "CRAWLER_EXPORT__PREFIX": PREFIX,
            "CRAWLER_EXPORT__PATH_STYLE": "true",
            "CRAWLER_EXPORT__S3_ENDPOINT_URL": self.doors["s3"].url,
            "CRAWLER_EXPORT__EVENTS_ENDPOINT_URL": self.doors["events"].url,
            "CRAWLER_EXPORT__REGION": REGION,
            "CRAWLER_EXPORT__EVENT_BUS": self.bus.name,
            "CRAWLER_EXPORT__EVENT_SOURCE": SOURCE,
            "CRAWLER_EXPORT__RUN_ENDED_TYPE": "Ended",
            "CRAWLER_EXPORT__FILES_READY_TYPE": "Ready",
            "CRAWLER_EXPORT__TIMEOUT_SECONDS": "5",
            "CRAWLER_NOTICES__TIMEOUT_SECONDS": "5",
            "CRAWLER_NOTICES__WEBHOOKS": f"{self.doors['webhook'].url} {WEBHOOK_SECRET}",
        }

    def events_of(self, run_uid: str) -> list[dict[str, Any]]:
        """Those of EventBridge that have come out of the queue."""
        for each in self.bus.taken():
            self.events[each["detail"].get("run_uid", "")].append(each["detail"])
        return self.events[run_uid]

    def notices_of(self, run_uid: str) -> list[dict[str, Any]]:
        """As the receiver of the webhooks has them, repeats included."""
        new = self.receiver.received[self._read :]
        self._read += len(new)
        for notice in (json.loads(each.body)["data"] for each in new if each.method == "POST"):
            self.notices[notice.get("run_uid", "")].append(notice)
        return self.notices[run_uid]

    def archive(self, location: str) -> zipfile.ZipFile | None:
        """What is there under the name that an event told."""
        path = self.s3.folder / location.removeprefix("s3://")
        return zipfile.ZipFile(io.BytesIO(path.read_bytes())) if path.exists() else None

    def unfinished(self) -> list[str]:
        with suppress(BotoCoreError):
            return S3Store(self.s3.url, PREFIX).unfinished()
        return []


@contextmanager
def outside(folder: Path) -> Iterator[Outside]:
    os.environ.update(CREDENTIALS)  # our own clients of these servers
    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # a line for each request
    server, receiver = S3Server(folder / "s3", free_ports(1)[0]), Receiver()
    with ExitStack() as opened:
        opened.enter_context(serving(receiver))
        opened.callback(server.end)
        server.start()
        bus = Bus(opened.enter_context(moto_server()))
        upstream = {"s3": server.url, "events": bus.url, "webhook": receiver.url}
        yield Outside(
            server, bus, receiver, {name: opened.enter_context(proxy_to(url)) for name, url in upstream.items()}
        )


def until_it_answers(url: str, patience: float = PATIENCE) -> None:
    address, deadline = urlsplit(url), time.monotonic() + patience
    while time.monotonic() < deadline:
        try:
            socket.create_connection((address.hostname, address.port or 80), timeout=1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise TimeoutError(f"nobody answers at {url} after {patience:.0f} s")
