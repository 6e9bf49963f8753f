"""Are the programs built whole or not at all, and do they end with whoever started them?"""

import os
import shutil
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
  mod) {copy}; echo '{"Path": "sigs.k8s.io/kwok", "Dir": "{module}"}';;
  build) while [ "$1" != -o ]; do shift; done; echo half > "$2"; {then}; echo whole > "$2";;
esac
"""
STAGES = ["pod-create.yaml", "pod-delete.yaml"]
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


@pytest.fixture
def module(tmp_path: Path) -> Path:
    """Of kwok, as far as the stages matter."""
    general = tmp_path / "module" / programs.STAGES
    general.mkdir(parents=True)
    for name in (*STAGES, "kustomization.yaml"):
        (general / name).write_text("a stage\n")
    return tmp_path / "module"


def pretend_go(tmp_path: Path, then: str = "true", copy: str = "true") -> None:
    go = tmp_path / "bin" / "go"
    text = GO.replace("{then}", then).replace("{copy}", copy)
    go.write_text(text.replace("{module}", str(tmp_path / "module")))
    go.chmod(0o755)


def build(environment: dict[str, str]) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.kubernetes.programs"]
    return subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


@pytest.mark.usefixtures("module")
def test_a_build_that_is_killed_leaves_nothing_that_looks_complete(tmp_path: Path, environment: dict[str, str]) -> None:
    pretend_go(tmp_path, "sleep 1000")
    halfway = build(environment)
    until(lambda: list(tmp_path.glob("cache/*/.building-*/etcd")), "the build to be halfway")
    os.killpg(halfway.pid, signal.SIGKILL)
    halfway.wait(60)
    assert not list(tmp_path.glob("cache/*/control-plane-*"))
    pretend_go(tmp_path)
    output, progress = build(environment).communicate(timeout=60)
    assert_whole(Path(output.strip()))
    assert not list(tmp_path.glob("cache/*/.building-*"))
    assert "6 of 6: kwok" in progress


def test_programs_from_before_there_were_stages_get_them_and_are_not_built_again(
    tmp_path: Path, environment: dict[str, str], module: Path
) -> None:
    pretend_go(tmp_path)
    output, _ = build(environment).communicate(timeout=60)
    built = Path(output.strip())
    shutil.rmtree(built / "general-stages")
    pretend_go(tmp_path, "exit 1", copy="echo it is not to be had >&2; exit 1")
    _, problem = build(environment).communicate(timeout=60)
    assert "`go mod download sigs.k8s.io/kwok` failed. it is not to be had" in " ".join(problem.split())
    pretend_go(tmp_path, "exit 1")
    unreadable = module / programs.STAGES / "pod-unreadable.yaml"
    unreadable.symlink_to("nowhere")
    assert build(environment).wait(60) == 1
    assert not (built / "general-stages").exists()
    unreadable.unlink()
    output, progress = build(environment).communicate(timeout=60)
    assert (Path(output.strip()), progress) == (built, "")
    assert_whole(built)
    pretend_go(tmp_path, "exit 1", copy="exit 1")
    assert build(environment).communicate(timeout=60) == (output, ""), "it was asked for again"


def assert_whole(built: Path) -> None:
    stages = built / "general-stages"
    assert sorted(path.name for path in built.iterdir()) == sorted([*programs.PACKAGES, stages.name])
    assert {(built / name).read_text() for name in programs.PACKAGES} == {"whole\n"}
    assert sorted(path.name for path in stages.iterdir()) == STAGES
    assert not list(built.parent.glob(".building-*"))


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
