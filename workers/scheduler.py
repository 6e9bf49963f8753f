"""The process of the reference scheduler service.

`python -m workers.scheduler --openapi` prints the service's OpenAPI document instead.
"""

import ipaddress
import json
import logging
import signal
import socket
import sys
from urllib.parse import urlsplit

import uvicorn

from crawler_lifecycle import configuration, logs, settings
from crawler_lifecycle.adapters.catalogue import Catalogue
from crawler_lifecycle.bootstrap.clusters import cluster_of
from crawler_lifecycle.contract.deployment import checked_token
from crawler_lifecycle.errors import LifecycleError, NotReady
from crawler_lifecycle.services.scheduler import make_app, openapi_document

logger = logging.getLogger("crawler_lifecycle.scheduler")

DRAIN_SECONDS = 20


def main() -> int:
    if sys.argv[1:] == ["--openapi"]:
        sys.stdout.write(json.dumps(openapi_document(), indent=2) + "\n")
        return 0
    try:
        serve(configuration.load())
    except LifecycleError as error:
        sys.stderr.write(f"scheduler: {error.message}\n")
        return 1
    return 0


def serve(chosen: settings.Settings) -> None:
    logs.configure(chosen.log.format, chosen.log.level)
    token = checked_token(chosen.scheduler.token.get_secret_value())
    if chosen.scheduler.catalogue is None:
        raise NotReady("CRAWLER_SCHEDULER__CATALOGUE: expected the path of the crawler catalogue file")
    catalogue = Catalogue.load(chosen.scheduler.catalogue)
    with listen(chosen.scheduler.url, anywhere=chosen.cluster.kind != "local") as listening:
        installation = chosen.cluster.installation
        folders = [chosen.jobs_folder] if chosen.cluster.kind == "local" else []
        cluster = cluster_of(chosen, installation)
        app = make_app(cluster, catalogue, token, installation=installation, folders=folders)
        server = uvicorn.Server(
            uvicorn.Config(app, log_config=None, access_log=False, timeout_graceful_shutdown=DRAIN_SECONDS)
        )
        # uvicorn raises the signal again after draining: an orderly end is a success
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, server.handle_exit)
        logger.info("listening on http://%s:%d, %d crawlers", *listening.getsockname()[:2], len(catalogue.names()))
        server.run(sockets=[listening])


def listen(url: str, *, anywhere: bool) -> socket.socket:
    """Return a socket on the URL's address. With a local cluster the token's holder may run commands here, so only
    loopback is allowed."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", 80 if parts.port is None else parts.port
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        if not anywhere and not ipaddress.ip_address(address[0]).is_loopback:
            raise NotReady(f"CRAWLER_SCHEDULER__URL: {url}: the local cluster's service listens on loopback only")
        return socket.create_server((host, port), family=family)
    except (ValueError, OSError) as error:
        reason = getattr(error, "strerror", None) or error
        raise NotReady(f"CRAWLER_SCHEDULER__URL: cannot listen on {url}: {reason}") from error


if __name__ == "__main__":
    sys.exit(main())
