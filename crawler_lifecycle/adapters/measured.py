"""Count and hash bytes on the way to a sink."""

import hashlib
from typing import Protocol


class Sink(Protocol):
    """A target written from beginning to end; seeking back is not needed."""

    def write(self, data: bytes, /) -> int: ...

    def flush(self) -> None: ...


class Measured:
    """Pass bytes on, count and hash them. There is no seek, so no byte changes after it was hashed."""

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
