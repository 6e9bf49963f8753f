"""The pictures of the documentation can be taken at any time, and the documentation shows all of them."""

import struct
from pathlib import Path

import pytest

from tests.browser.screenshots import FOLDER, play, stage

pytestmark = [pytest.mark.process, pytest.mark.timeout(400)]
HOWTO = FOLDER.parent / "howto" / "http-api.md"
LEAST, MOST = 10_000, 200_000  # bytes; a blank page is smaller


async def test_every_picture_of_the_documentation_can_be_taken(has_chromium: None, tmp_path: Path) -> None:
    pictures = tmp_path / "pictures"
    pictures.mkdir()
    async with stage(tmp_path, pictures) as playing:
        await play(playing)
        assert playing.page.errors == []
    for name, size in playing.taken.items():
        content = (pictures / f"{name}.png").read_bytes()
        assert (content[1:4], struct.unpack(">II", content[16:24])) == (b"PNG", size), name
        assert LEAST < len(content) < MOST, name
    assert {path.stem for path in FOLDER.glob("*.png")} == set(playing.taken)
    text = HOWTO.read_text()
    assert [name for name in playing.taken if f"(../screenshots/{name}.png)" not in text] == []
