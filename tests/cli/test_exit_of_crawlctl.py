"""Once its work was done, `crawlctl` crashed at times: Python took itself apart under the threads of Temporal's SDK.

On a busy machine that were 11 of 40 calls of `crawlctl schedule list`. So it leaves that out and keeps its exit status.
"""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.regression(
    "`crawlctl` crashed at its exit: Python took itself apart under the threads of Temporal's SDK"
)

PROGRAM = "import atexit, sys; atexit.register(print, 'taken apart'); sys.argv[1:] = {words!r}; " + (
    "from crawler_lifecycle.cli.__main__ import run; run()"
)


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [(["--version"], 0, "version"), (["list", "--limit", "0"], 2, "--limit"), (["nothing"], 2, "No such command")],
)
@pytest.mark.long
def test_the_interpreter_is_not_taken_apart(words: list[str], status: int, said: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(words=words)], capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.returncode == status, ended.stderr
    assert said in ended.stdout + ended.stderr
    assert "taken apart" not in ended.stdout
