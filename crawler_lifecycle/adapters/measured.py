"""A sink that measures the bytes that go through it."""

import hashlib
from typing import Protocol


class Sink(Protocol):
    """A target that is written from its beginning to its end; going back in it is not needed."""

    def write(self, data: bytes, /) -> int: ...

    def flush(self) -> None: ...


class Measured:
    """Pass bytes on and count and hash them. It cannot seek, so that no byte changes after it was hashed."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._digest = hashlib.sha256()
        self.size = 0

    def write(self, data: bytes, /) -> int:
        self._digest.update(data)
        self.size += len(data)
        return self._sink.write(data)

    def flush(self) -> None:
        self._sink.flush()

    def sha256(self) -> str:
        return self._digest.hexdigest()
