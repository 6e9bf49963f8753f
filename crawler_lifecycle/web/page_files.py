"""Serves the live page's files, with headers by which the browser connects to our server only.

`/sentences.js` is made from the tables with the sentences of causes and reasons.
"""

import json
from collections.abc import Callable
from pathlib import Path

from fastapi import APIRouter, Response

from crawler_lifecycle.flows.rules.words import SENTENCES, SENTENCES_WITH_NAME
from crawler_lifecycle.model.reasons import WAITS_FOR
from crawler_lifecycle.runs.rules import outcome

FOLDER = Path(__file__).with_name("page")
MEDIA_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
HEADERS = {  # the browser may load and connect to this server only, and no other site may embed the page
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-cache",
}


def files_by_path() -> dict[str, tuple[bytes, str]]:
    """Return the page's files and their media types by the path of their URL."""
    paths = [path for path in sorted(FOLDER.iterdir()) if path.suffix in MEDIA_TYPES]
    files = {f"/{path.name}": (path.read_bytes(), MEDIA_TYPES[path.suffix]) for path in paths}
    return {"/": files["/index.html"], **files, "/sentences.js": (_sentences(), MEDIA_TYPES[".js"])}


def _sentences() -> bytes:
    tables = {
        "WAITS_FOR": WAITS_FOR,
        "SENTENCES": {**outcome.SENTENCES, **SENTENCES},  # a crawl's member ends with its run's reason
        "SENTENCES_WITH_NAME": SENTENCES_WITH_NAME,
    }
    return "".join(f"export const {name} = {json.dumps(table)};\n" for name, table in tables.items()).encode()


def page_router() -> APIRouter:
    router = APIRouter(include_in_schema=False)
    for path, (content, media_type) in files_by_path().items():
        router.add_api_route(path, _file_endpoint(content, media_type), methods=["GET", "HEAD"], name=path)
    return router


def _file_endpoint(content: bytes, media_type: str) -> Callable[[], Response]:
    def serve() -> Response:
        return Response(content, media_type=media_type, headers=HEADERS)

    return serve
