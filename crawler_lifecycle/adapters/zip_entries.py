"""How does a zip of very many files fit into little memory? Its entries wait for its end in a file.

`zipfile` keeps an object for each entry, half a kilobyte, to write the zip's directory from. It only ever adds to that
list, counts it, and reads it once from the beginning.
"""

import pickle
import zipfile
from collections.abc import Iterator
from typing import IO, Any


def keep_entries_in(file: IO[bytes], archive: zipfile.ZipFile) -> None:
    """Of a zip that is being written and has none yet. The file has to stay open until the zip is closed."""
    archive.filelist = _Entries(file)
    archive.NameToInfo = _NoNames()


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
            yield pickle.load(self._file)  # noqa: S301 (nobody but us has this file)


class _NoNames(dict[str, zipfile.ZipInfo]):
    """Names are only kept to find entries again, and to warn of the second of a name."""

    def __setitem__(self, name: str, entry: Any) -> None:
        pass
