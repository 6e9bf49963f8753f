"""Other programs that read zips: Info-ZIP and 7-Zip."""

import shutil
import subprocess
from pathlib import Path

from tests.kit.data.databases import missing

PROGRAMS = {"Info-ZIP": ("unzip",), "7-Zip": ("7zz", "7z", "7za")}


def command_of(program: str) -> str:
    """The first of its names that is installed; without any the test is skipped, or fails where nothing may be."""
    names = PROGRAMS[program]
    path = next((place for name in names if (place := shutil.which(name))), None)
    if path is None:
        missing(f"{program} is missing (Debian: apt-get install unzip 7zip; macOS: brew install sevenzip)")
    return str(path)


def verify(program: str, archive: Path) -> str:
    """Every entry is read and compared with its checksum."""
    options = ["-tqq"] if program == "Info-ZIP" else ["t", "-bb0", "-bd"]
    return _output([command_of(program), *options, str(archive)])


def content_of(program: str, archive: Path, entry: str) -> str:
    options = ["-p"] if program == "Info-ZIP" else ["x", "-so"]
    return _output([command_of(program), *options, str(archive), entry])


def _output(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
