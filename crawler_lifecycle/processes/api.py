"""API process: serves the HTTP API and its live page.

`python -m crawler_lifecycle.processes.api --openapi` prints the API's OpenAPI document instead.
"""

import logging
from functools import partial
from types import FrameType

import uvicorn
from fastapi import FastAPI

from crawler_lifecycle import logs
from crawler_lifecycle.assembly.control import Control
from crawler_lifecycle.http import http_process
from crawler_lifecycle.http.http_process import server_config
from crawler_lifecycle.settings.configuration import forget_secrets
from crawler_lifecycle.settings.installation import locate
from crawler_lifecycle.triggers import http as triggers
from crawler_lifecycle.web.app import make_app, openapi_document

ROUTERS = (triggers.router,)  # of capabilities with their own folders
logger = logging.getLogger("crawler_lifecycle.api")


class Server(uvicorn.Server):
    """Ends the server's live streams at shutdown. Uvicorn itself would wait until the clients end the streams."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Handle SIGTERM or SIGINT: the streams end when the event `closing` is set."""
        app = self.config.app
        assert isinstance(app, FastAPI)
        app.state.api.closing.set()
        super().handle_exit(sig, frame)


def main() -> None:
    http_process.run("api", serve, partial(openapi_document, ROUTERS))


def serve() -> None:
    control = Control(locate())
    forget_secrets()
    settings = control.installation.settings
    settings.database.refuse_few_connections()
    logs.configure(settings.log.format, settings.log.level)
    control.context.store.records.installation()  # raises NotReady for a database with an unknown schema
    with http_process.listen(settings.api.url, "CRAWLER_API__URL") as listening:
        app = make_app(control, settings, ROUTERS)
        drain_seconds = http_process.DRAIN_SECONDS
        server = Server(server_config(app, server_header=False, timeout_graceful_shutdown=drain_seconds))
        logger.info("listening on http://%s:%d", *listening.getsockname()[:2])
        http_process.serve_until_signal(server, listening)


if __name__ == "__main__":
    main()
