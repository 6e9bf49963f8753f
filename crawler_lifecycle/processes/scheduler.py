"""Scheduler process: serves the reference scheduler service.

`python -m crawler_lifecycle.processes.scheduler --openapi` prints the service's OpenAPI document instead.
"""

import logging

import uvicorn

from crawler_lifecycle import logs
from crawler_lifecycle.assembly.clusters import cluster_of
from crawler_lifecycle.clusters.adapters.catalogue import Catalogue
from crawler_lifecycle.clusters.processes import ServiceTokens, make_app, openapi_document
from crawler_lifecycle.errors import NotReady
from crawler_lifecycle.http import http_process
from crawler_lifecycle.settings import configuration
from crawler_lifecycle.settings.configuration import forget_secrets

logger = logging.getLogger("crawler_lifecycle.scheduler")

KEEP_ALIVE_SECONDS = 30  # longer than clients keep idle connections: a request on a closing connection gets no answer


def main() -> None:
    http_process.run("scheduler", serve, openapi_document)


def serve() -> None:
    settings = configuration.load()
    forget_secrets()
    logs.configure(settings.log.format, settings.log.level)
    tokens = ServiceTokens.from_settings(settings.scheduler)
    tokens.permissions()  # raises NotReady for a missing token
    if settings.scheduler.catalogue is None:
        raise NotReady("CRAWLER_SCHEDULER__CATALOGUE: expected the path of the crawler catalogue file")
    catalogue = Catalogue.load(settings.scheduler.catalogue)
    is_local = settings.cluster.kind == "local"
    installation = settings.cluster.installation  # the only installation to deploy for; None: any installation
    with http_process.listen(settings.scheduler.url, "CRAWLER_SCHEDULER__URL", loopback_only=is_local) as listening:
        folders = [settings.jobs_folder] if is_local else []  # the service reports when their disk is full
        cluster = cluster_of(settings, installation)
        app = make_app(cluster, catalogue, tokens, installation=installation, folders=folders)
        drain_seconds = http_process.DRAIN_SECONDS
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=drain_seconds,
        )
        server = uvicorn.Server(config)
        logger.info("listening on http://%s:%d, %d crawlers", *listening.getsockname()[:2], len(catalogue.names()))
        http_process.serve_until_signal(server, listening)


if __name__ == "__main__":
    main()
