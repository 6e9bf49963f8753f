"""A small bookshop on loopback, the same on every start: an index, 12 list pages, 60 books.

Usage: python bookshop_site.py [PORT]. Without a port, or with 0, it takes a free one. It prints its address.
"""

import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

LISTS = 12
BOOKS_A_LIST = 5
BOOKS = LISTS * BOOKS_A_LIST
SUBJECTS = ("Tides", "Lighthouses", "Moss", "Clockwork", "Harbours", "Snow")
FORMS = ("A Short History of", "Letters on", "The Atlas of", "Notes towards", "Against")


def pages() -> dict[str, str]:
    """Every page by its path."""
    lists = {f"/list/{number}": _list(number) for number in range(1, LISTS + 1)}
    books = {f"/book/{number}": _book(number) for number in range(1, BOOKS + 1)}
    return {"/": _page("Bookshop", _links("list", lists)), **lists, **books}


def _list(number: int) -> str:
    first = (number - 1) * BOOKS_A_LIST + 1
    return _page(f"List {number}", _links("book", [f"/book/{book}" for book in range(first, first + BOOKS_A_LIST)]))


def _book(number: int) -> str:
    title = f"{FORMS[number % len(FORMS)]} {SUBJECTS[number % len(SUBJECTS)]}, volume {number}"
    return _page(title, f'<p class="price">{5 + number % 20}.{number % 100:02}</p>')


def _links(kind: str, paths: "dict[str, str] | list[str]") -> str:
    return "".join(f'<a class="{kind}" href="{path}">{path}</a>\n' for path in paths)


def _page(title: str, body: str) -> str:
    return f"<!doctype html><title>{title}</title><h1>{title}</h1>\n{body}"


class Handler(BaseHTTPRequestHandler):
    site = pages()

    def do_GET(self) -> None:
        body = self.site.get(self.path, "no such page").encode()
        self.send_response(200 if self.path in self.site else 404)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """A line a page would drown everything else."""


def make_server(port: int = 0) -> ThreadingHTTPServer:
    return ThreadingHTTPServer(("127.0.0.1", port), Handler)


if __name__ == "__main__":
    with make_server(int(sys.argv[1]) if len(sys.argv) > 1 else 0) as server:
        print(f"http://127.0.0.1:{server.server_port}", flush=True)
        server.serve_forever()
