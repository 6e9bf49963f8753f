"""Serves the live page's files, with headers by which the browser connects to our server only."""

from collections.abc import Callable
from pathlib import Path

from fastapi import APIRouter, Response

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


def files_by_path() -> dict[str, Path]:
    """Return the page's files by the path of their URL."""
    files = {f"/{path.name}": path for path in sorted(FOLDER.iterdir()) if path.suffix in MEDIA_TYPES}
    return {"/": FOLDER / "index.html", **files}


def page_router() -> APIRouter:
    router = APIRouter(include_in_schema=False)
    for path, file in files_by_path().items():
        router.add_api_route(path, _file_endpoint(file), methods=["GET", "HEAD"], name=file.name + path)
    return router


def _file_endpoint(file: Path) -> Callable[[], Response]:
    content, media_type = file.read_bytes(), MEDIA_TYPES[file.suffix]

    def serve() -> Response:
        return Response(content, media_type=media_type, headers=HEADERS)

    return serve
