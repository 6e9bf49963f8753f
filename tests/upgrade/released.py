"""The code of the version before, taken out of the history of the repository.

No version has been released yet: a commit that knows the present schema stands for it. Whoever changes the first schema
pins a later commit.
"""

import subprocess
from pathlib import Path

import pytest

from tests.kit.data.databases import missing

COMMIT = "db44faa883b1312a4dda859bd8363cb424d2e44e"
HERE = Path(__file__).parents[2]
NEEDED = ("crawler_lifecycle", "workers")


def released(folder: Path) -> Path:
    """What goes before the present code on Python's path: the same interpreter and packages run it."""
    if _git("cat-file", "-e", f"{COMMIT}^{{commit}}").returncode:
        lacks = (
            f"the version before is commit {COMMIT[:7]}, and this copy of the repository does not have it:"
            " `git fetch --unshallow` in a clone brings it"
        )
        if _git("rev-parse", "--is-shallow-repository").stdout.strip() == b"true":
            pytest.skip(lacks)  # whoever made such a clone has chosen to have no history
        missing(lacks)
    folder.mkdir()
    archive = _git("archive", "--format=tar", COMMIT, "--", *NEEDED)
    assert archive.returncode == 0, archive.stderr.decode()
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive.stdout, check=True, timeout=30)
    return folder


def _git(*words: str) -> "subprocess.CompletedProcess[bytes]":
    try:
        return subprocess.run(["git", "-C", str(HERE), *words], capture_output=True, timeout=30)
    except FileNotFoundError:
        missing("there is no program `git`, which the version before is taken out of the history with")
        raise
