"""Are the programs built whole or not at all, and do they end with whoever started them?"""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.kubernetes import programs
from tests.kubernetes.client import until

# what `go` is to the build, as far as a build that is killed matters: a file that is there before it is whole
GO = """#!/bin/sh
case "$1" in
  env) echo go9.9.9;;
  build) while [ "$1" != -o ]; do shift; done; echo half > "$2"; {then}; echo whole > "$2";;
esac
"""
STARTS_ONE = """
import sys, time
from pathlib import Path
from tests.kubernetes.program import Program
program = Program(["/bin/sleep", "1000"], Path(sys.argv[1]))
program.start()
print(program.process.pid, flush=True)
time.sleep(1000)
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "bin").mkdir()
    return os.environ | {"XDG_CACHE_HOME": str(tmp_path / "cache"), "PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin"}


def pretend_go(tmp_path: Path, then: str) -> None:
    go = tmp_path / "bin" / "go"
    go.write_text(GO.replace("{then}", then))
    go.chmod(0o755)


def build(environment: dict[str, str]) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.kubernetes.programs"]
    return subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def test_a_build_that_is_killed_leaves_nothing_that_looks_complete(tmp_path: Path, environment: dict[str, str]) -> None:
    pretend_go(tmp_path, "sleep 1000")
    halfway = build(environment)
    until(lambda: list(tmp_path.glob("cache/*/.building-*/etcd")), "the build to be halfway")
    os.killpg(halfway.pid, signal.SIGKILL)
    halfway.wait(60)
    assert not list(tmp_path.glob("cache/*/control-plane-*"))
    pretend_go(tmp_path, "true")
    output, progress = build(environment).communicate(timeout=60)
    built = Path(output.strip())
    assert sorted(path.name for path in built.iterdir()) == sorted(programs.PACKAGES)
    assert {path.read_text() for path in built.iterdir()} == {"whole\n"}
    assert not list(tmp_path.glob("cache/*/.building-*"))
    assert "6 of 6: kwok" in progress


def test_a_build_that_fails_says_which(tmp_path: Path, environment: dict[str, str]) -> None:
    pretend_go(tmp_path, "exit 1")
    failing = build(environment)
    _, progress = failing.communicate(timeout=60)
    assert failing.returncode == 1
    assert "`go build go.etcd.io/etcd/server/v3` failed" in progress
    assert not list(tmp_path.glob("cache/*/*-*"))


def test_without_go_the_command_says_what_it_needs(environment: dict[str, str]) -> None:
    without = build(environment | {"PATH": "/usr/bin:/bin"})
    _, problem = without.communicate(timeout=60)
    assert without.returncode == 1
    assert problem.startswith("The tests against a real control plane need Go 1.")
    assert len(problem.splitlines()) == 1


def test_with_an_old_go_the_command_says_what_it_needs(tmp_path: Path, environment: dict[str, str]) -> None:
    go = tmp_path / "bin" / "go"
    go.write_text("#!/bin/sh\necho 'go: go.mod requires go >= 1.26.0 (running go 1.19)' >&2; exit 1\n")
    go.chmod(0o755)
    old = build(environment)
    _, problem = old.communicate(timeout=60)
    assert old.returncode == 1
    assert "need Go 1." in problem
    assert "running go 1.19" in problem


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends children with their parent")
def test_a_program_ends_with_who_started_it(tmp_path: Path) -> None:
    command = [sys.executable, "-c", STARTS_ONE, str(tmp_path / "sleep.log")]
    parent = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert parent.stdout
    program = psutil.Process(int(parent.stdout.readline()))
    assert program.is_running()
    parent.kill()
    parent.wait(60)
    program.wait(60)
