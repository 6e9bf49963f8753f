"""Reads stored archives: from a local folder, or from a bucket by a signed address."""

from collections.abc import Iterator
from contextlib import contextmanager

import httpx

from crawler_lifecycle.errors import TemporaryError
from crawler_lifecycle.ports import StoredArchive

CHUNK_BYTES = 1 << 20  # an archive may be larger than the memory
SILENCE_SECONDS = 60.0  # longest wait for the next byte from the bucket before the download fails


@contextmanager
def open_chunks(stored: StoredArchive) -> Iterator[Iterator[bytes]]:
    """Yield the chunks of the archive, from the local file or from the bucket's address."""
    if stored.path is not None:
        with stored.path.open("rb") as source:
            yield iter(lambda: source.read(CHUNK_BYTES), b"")
        return
    try:
        with httpx.stream("GET", stored.url or "", timeout=SILENCE_SECONDS) as answer:
            answer.raise_for_status()
            yield answer.iter_raw(CHUNK_BYTES)
    except httpx.HTTPStatusError as error:
        raise TemporaryError(f"the bucket answers {error.response.status_code} for {stored.name}") from error
    except httpx.HTTPError as error:
        raise TemporaryError(f"{stored.name} cannot be fetched: {error or type(error).__name__}") from error
