"""Which programs is the control plane made of, and where are they?

They are built from the Go modules that programs/go.mod pins, once, into a cache outside the repository:
`python -m tests.kubernetes.programs` prints the folder. A build that was killed leaves nothing that looks complete.
The stages that kwok's module has for pods are kept with the programs: Go's own cache may be cleaned by then.
"""

import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PINS = Path(__file__).with_name("programs")
PACKAGES = {
    "etcd": "go.etcd.io/etcd/server/v3",
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
    "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
    "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
    "kubectl": "k8s.io/kubernetes/cmd/kubectl",
    "kwok": "sigs.k8s.io/kwok/cmd/kwok",
}
KWOK = "sigs.k8s.io/kwok"
STAGES = Path("kustomize", "stage", "pod", "general")  # in that module
GO = {"GOFLAGS": "-mod=readonly -buildvcs=false", "GOWORK": "off", "CGO_ENABLED": "0"}


class Unbuildable(Exception):
    """The programs are not there and cannot be built; the message says what is needed."""


def folder() -> Path:
    """Where the programs of these pins are or will be."""
    pins = "\n".join([*((PINS / name).read_text() for name in ("go.mod", "go.sum")), *_flags(), *PACKAGES.values()])
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "crawler-lifecycle" / f"control-plane-{hashlib.sha256(pins.encode()).hexdigest()[:16]}"


def built() -> Path:
    """The folder with the programs in it."""
    found = folder()
    if general_stages(found).is_dir():
        return found
    found.parent.mkdir(parents=True, exist_ok=True)
    with _alone(found.parent):
        if not found.is_dir():
            _build_into(found)
        if not general_stages(found).is_dir():  # also when the programs are older than the wish for stages
            _copy_stages_into(general_stages(found))
    return found


def general_stages(programs: Path) -> Path:
    """Where the general stages of kwok are, beside these programs."""
    return programs / "general-stages"


def version(module: str) -> str:
    found = re.search(rf"^\s{re.escape(module)} v(\S+)$", (PINS / "go.mod").read_text(), re.MULTILINE)
    assert found, module
    return found[1]


def _flags() -> list[str]:
    name, kubernetes = "k8s.io/component-base/version", version("k8s.io/kubernetes")
    major, minor, _ = kubernetes.split(".")
    values = {"gitVersion": f"v{kubernetes}", "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
    stamps = " ".join(f"-X {name}.{key}={value}" for key, value in values.items())
    return ["-trimpath", "-p", "2", "-ldflags", f"-s -w {stamps}"]


@contextmanager
def _alone(cache: Path) -> Iterator[None]:
    """One build at a time; what an earlier one left behind is removed."""
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for leftover in cache.glob(".building-*"):
            shutil.rmtree(leftover)
        yield


def _build_into(target: Path) -> None:
    _check_go()
    _say(f"Building the control plane for tests, once, into {target}; this takes many minutes.")
    began = time.monotonic()
    with _unfinished(target.parent) as work:
        for number, (name, package) in enumerate(PACKAGES.items(), 1):
            _say(f"  {number} of {len(PACKAGES)}: {name} ...")
            _go_build(package, work / name)
        work.rename(target)
    _say(f"Built in {time.monotonic() - began:.0f} s.")


def _copy_stages_into(target: Path) -> None:
    _check_go()
    asked = _go("mod", "download", "-json", KWOK)
    if asked.returncode:
        raise Unbuildable(f"`go mod download {KWOK}` failed. {asked.stdout.strip()} {asked.stderr.strip()}")
    with _unfinished(target.parent.parent) as work:
        for stage in (Path(json.loads(asked.stdout)["Dir"]) / STAGES).glob("pod-*.yaml"):
            shutil.copyfile(stage, work / stage.name)
        work.rename(target)


@contextmanager
def _unfinished(cache: Path) -> Iterator[Path]:
    """A folder for what is not whole yet."""
    work = Path(tempfile.mkdtemp(prefix=".building-", dir=cache))
    try:
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _check_go() -> None:
    needed = re.search(r"^go (\S+)$", (PINS / "go.mod").read_text(), re.MULTILINE)
    assert needed
    advice = f"The tests against a real control plane need Go {needed[1]} or later (https://go.dev/dl/) on PATH"
    if not shutil.which("go"):
        raise Unbuildable(f"{advice}; there is none.")
    asked = _go("env", "GOVERSION")
    if asked.returncode:
        raise Unbuildable(f"{advice}. {asked.stderr.strip()}")


def _go(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["go", *words], cwd=PINS, env=os.environ | GO, capture_output=True, text=True, timeout=600)


def _go_build(package: str, target: Path) -> None:
    command = ["nice", "-n", "10", "go", "build", *_flags(), "-o", str(target), package]
    if subprocess.run(command, cwd=PINS, env=os.environ | GO, stdout=sys.stderr).returncode:
        raise Unbuildable(f"`go build {package}` failed; what it said is above.")


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    try:
        print(built())
    except Unbuildable as error:
        sys.exit(str(error))
