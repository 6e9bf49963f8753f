"""The list of an archive's files, with size and SHA-256, and of the entries that were left out, with the reason."""

import json
from collections.abc import Iterator
from typing import IO

from crawler_lifecycle.adapters.zip_parts import RULE

CHUNK = 1024 * 1024  # bytes read at once
MOST_SHOWN = 5  # the run's timeline names at most 5 of the entries left out
LONGEST_SHOWN = 100  # characters; the rest of a longer name is cut off
FRAME = 1024  # bytes; the manifest without its lists is shorter


class Manifest:
    """The manifest, kept in temporary files until the archive's end because the manifest may be long."""

    def __init__(self, files: IO[bytes], left_out: IO[bytes]) -> None:
        self._files = files
        self._entries_left_out = left_out
        self.left_out = 0
        self.first_left_out: list[str] = []

    @property
    def largest(self) -> int:
        """The manifest's size in bytes, and some more for its frame."""
        return self._files.tell() + self._entries_left_out.tell() + FRAME

    def add_file(self, name: str, size: int, sha256: str, *, changed: bool) -> None:
        item: dict[str, object] = {"name": name, "size": size, "sha256": sha256}
        _append_item(self._files, item | {"changed_while_read": True} if changed else item)

    def add_left_out(self, name: str, reason: str) -> None:
        _append_item(self._entries_left_out, {"name": name, "reason": reason})
        self.left_out += 1
        if self.left_out <= MOST_SHOWN:
            self.first_left_out.append(f"{name[:LONGEST_SHOWN]} ({reason})")

    def chunks(self, files: int, size: int) -> Iterator[bytes]:
        """Yield the manifest's JSON; `files` and `size` are the number of files and the sum of their bytes."""
        # RULE explains to readers of the manifest how names are escaped
        yield f'{{"count": {files},\n"bytes": {size},\n"names": {json.dumps(RULE)},\n"files": ['.encode()
        yield from _chunks_of(self._files)
        yield b'],\n"skipped": ['
        yield from _chunks_of(self._entries_left_out)
        yield b"]}\n"


def _append_item(items: IO[bytes], item: dict[str, object]) -> None:
    items.write((b",\n" if items.tell() else b"\n") + json.dumps(item, ensure_ascii=False).encode())


def _chunks_of(items: IO[bytes]) -> Iterator[bytes]:
    items.seek(0)
    while chunk := items.read(CHUNK):
        yield chunk
