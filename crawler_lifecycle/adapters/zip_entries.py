"""Keep a zip's list of entries in a file, so that memory does not grow with the number of files.

`zipfile` keeps an object for every entry, half a kilobyte, for the zip's directory at the end. It only appends to the
list, counts the list, and reads the list once from the beginning.
"""

import pickle
import zipfile
from collections.abc import Iterator
from typing import IO, Any


def keep_entries_in(file: IO[bytes], archive: zipfile.ZipFile) -> None:
    """Keep the entries of a new zip in a file, which has to stay open until the zip is closed."""
    archive.filelist = _Entries(file)
    archive.NameToInfo = _EmptyDict()


class _Entries(list[zipfile.ZipInfo]):
    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._count = 0

    def append(self, entry: zipfile.ZipInfo) -> None:
        pickle.dump(entry, self._file)
        self._count += 1

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[zipfile.ZipInfo]:
        self._file.seek(0)
        for _ in range(self._count):
            yield pickle.load(self._file)  # noqa: S301 (only this process has the file)


class _EmptyDict(dict[str, zipfile.ZipInfo]):
    """A dict without content: `zipfile` uses names only to find entries again and to warn about duplicates."""

    def __setitem__(self, name: str, entry: Any) -> None:
        pass
