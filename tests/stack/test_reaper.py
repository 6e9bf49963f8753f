"""The reaper ends a temporary stack that was killed at any moment."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.process


def test_jobs_that_cannot_be_read_are_reported_and_the_state_folder_is_removed(tmp_path: Path) -> None:
    """The stack was killed before its database was made."""
    state = tmp_path / "state"
    (state / "logs").mkdir(parents=True)
    command = [sys.executable, "-m", "crawler_lifecycle.stack.reaper", "--everything", str(state), "stack"]
    reaper = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, start_new_session=True
    )
    assert (reaper.returncode, reaper.stdout) == (0, "ready\n")
    [line] = reaper.stderr.splitlines()
    assert "crawlctl db upgrade" in line
    assert not state.exists()
