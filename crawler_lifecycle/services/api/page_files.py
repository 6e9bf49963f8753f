"""Serves the live page's files, with headers that let the browser connect to this server only."""

from collections.abc import Callable
from pathlib import Path

from fastapi import APIRouter, Response

FOLDER = Path(__file__).with_name("page")
KINDS = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-cache",
}


def files() -> dict[str, Path]:
    """Return the files by URL path."""
    routes = {f"/{path.name}": path for path in sorted(FOLDER.iterdir()) if path.suffix in KINDS}
    return {"/": FOLDER / "index.html", **routes}


def page_router() -> APIRouter:
    router = APIRouter(include_in_schema=False)
    for path, file in files().items():
        router.add_api_route(path, _served(file), methods=["GET", "HEAD"], name=file.name + path)
    return router


def _served(file: Path) -> Callable[[], Response]:
    content, kind = file.read_bytes(), KINDS[file.suffix]

    def serve() -> Response:
        return Response(content, media_type=kind, headers=HEADERS)

    return serve
