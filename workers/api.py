"""The process of the HTTP API and its live page.

`python -m workers.api --openapi` prints the API's OpenAPI document instead.
"""

import json
import logging
import signal
import sys
from types import FrameType

import uvicorn
from fastapi import FastAPI

from crawler_lifecycle import logs
from crawler_lifecycle.control.control import Control
from crawler_lifecycle.control.installation import locate
from crawler_lifecycle.errors import LifecycleError
from crawler_lifecycle.services.api.app import make_app, openapi_document
from crawler_lifecycle.services.api.connection import server_config
from crawler_lifecycle.services.listening import listen

logger = logging.getLogger("crawler_lifecycle.api")

DRAIN_SECONDS = 20


class Server(uvicorn.Server):
    """Server that ends its streams at shutdown; uvicorn would wait for them."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        app = self.config.app
        assert isinstance(app, FastAPI)
        app.state.desk.closing.set()
        super().handle_exit(sig, frame)


def main() -> int:
    if sys.argv[1:] == ["--openapi"]:
        sys.stdout.write(json.dumps(openapi_document(), indent=2) + "\n")
        return 0
    try:
        serve(Control(locate()))
    except LifecycleError as error:
        sys.stderr.write(f"api: {error.message}\n")
        return 1
    return 0


def serve(control: Control) -> None:
    settings = control.installation.settings
    logs.configure(settings.log.format, settings.log.level)
    control.context.store.records.installation()  # refuses a database with an unknown schema
    with listen(settings.api.url, "CRAWLER_API__URL") as listening:
        app = make_app(control, settings)
        config = server_config(app, server_header=False, timeout_graceful_shutdown=DRAIN_SECONDS)
        server = Server(config)
        # uvicorn raises the signal again after draining: an orderly end is a success
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, server.handle_exit)
        logger.info("listening on http://%s:%d", *listening.getsockname()[:2])
        server.run(sockets=[listening])


if __name__ == "__main__":
    sys.exit(main())
