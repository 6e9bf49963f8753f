"""Archives over the HTTP API."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from email.message import Message as Headers
from pathlib import PurePosixPath
from urllib.parse import unquote, urlsplit

import httpx

from crawler_lifecycle.transport.connection import HttpConnection, segment
from crawler_lifecycle.transport.http_client import LOOPBACK, HttpAnswer

CHUNK_BYTES = 1 << 20  # an archive may be larger than the memory
SILENCE_SECONDS = 60.0  # longest wait for the next byte
REDIRECT = 307


@dataclass(frozen=True, slots=True)
class Download:
    """An archive on its way. `sha256` was computed while the archive was written."""

    name: str
    size: int
    sha256: str | None
    chunks: Iterator[bytes]


class ApiArchives:
    def __init__(self, connection: HttpConnection) -> None:
        self._connection = connection

    @contextmanager
    def open(self, run: int | str, end: int | None = None) -> Iterator[Download]:
        """Open the archive for the run's end; default: the last end. TemporaryError if the download breaks off."""
        path, params = f"/v1/runs/{segment(run)}/archive", {} if end is None else {"end": end}
        headers = self._connection.headers | {"Accept": "*/*", "Accept-Encoding": "identity"}
        try:
            with (
                self._client() as client,
                client.stream("GET", self._connection.url + path, params=params, headers=headers) as answer,
            ):
                if answer.status_code != REDIRECT:
                    yield self._download(answer, answer.headers, answer)
                    return
                # another client: the bucket must not get the token
                with self._client() as other, other.stream("GET", answer.headers["location"]) as stored:
                    yield self._download(stored, answer.headers, stored)
        except httpx.HTTPError as error:
            raise self._connection.away(error) from error

    def _download(self, answer: httpx.Response, head: httpx.Headers, stored: httpx.Response) -> Download:
        if answer.status_code != 200:
            raise self._connection.error(HttpAnswer(answer.status_code, answer.headers, answer.read()))
        size = int(stored.headers["content-length"])
        return Download(_name(stored), size, head.get("x-archive-sha256"), stored.iter_raw(CHUNK_BYTES))

    def _client(self) -> httpx.Client:
        tls = self._connection.tls
        return httpx.Client(
            timeout=SILENCE_SECONDS,
            verify=tls if tls is not None else True,
            mounts={f"all://{host}": None for host in LOOPBACK},
        )


def _name(answer: httpx.Response) -> str:
    """Return the archive's name, without folders: the name becomes a local file's name."""
    disposition = Headers()
    disposition["content-disposition"] = answer.headers.get("content-disposition", "")
    name = disposition.get_filename() or unquote(urlsplit(str(answer.url)).path)
    return PurePosixPath(name).name
