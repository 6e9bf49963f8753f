import shlex
import subprocess
import zipfile
from pathlib import Path

import pytest

from crawler_lifecycle.stack.demo import _list_command

pytestmark = pytest.mark.regression(
    "The demo named `python -m zipfile` for its archive, also where unzip is installed and no `python` is"
)


@pytest.mark.parametrize("has_unzip", [True, False])
def test_the_command_for_the_archive_is_on_this_machine(
    has_unzip: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}" if has_unzip else None)
    command = shlex.split(_list_command())
    if has_unzip:
        assert command == ["unzip", "-l"]
        return
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("files/items.jsonl", "{}")
    listed = subprocess.run([*command, tmp_path / "a.zip"], capture_output=True, text=True, check=True)
    assert "files/items.jsonl" in listed.stdout
