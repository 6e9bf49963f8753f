"""Is a zip the same whose entries wait in a file?"""

import io
import tempfile
import zipfile

import pytest

from crawler_lifecycle.adapters.zip_parts import keep_entries_in

MORE_THAN_A_PLAIN_ZIP_HAS = 0x10000 + 10


@pytest.mark.parametrize("count", [0, 1, 1000])
def test_it_is_the_same_byte_for_byte(count: int) -> None:
    assert zipped(count, kept=True).getvalue() == zipped(count, kept=False).getvalue()


@pytest.mark.system
def test_there_may_be_more_than_a_plain_zip_has() -> None:
    with zipfile.ZipFile(zipped(MORE_THAN_A_PLAIN_ZIP_HAS, kept=True)) as archive:
        assert len(archive.namelist()) == MORE_THAN_A_PLAIN_ZIP_HAS
        assert archive.read("größe/65540") == b"65540"


def zipped(count: int, *, kept: bool) -> io.BytesIO:
    content = io.BytesIO()
    with tempfile.TemporaryFile() as file, zipfile.ZipFile(content, "w") as archive:
        if kept:
            keep_entries_in(file, archive)
        for number in range(count):
            archive.writestr(zipfile.ZipInfo(f"größe/{number}"), str(number))
    return content
