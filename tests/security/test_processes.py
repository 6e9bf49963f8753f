"""Secrets of service processes against other processes of the same user: crawls, isolated steps, managers' children."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from crawler_lifecycle.hosts.children import Channel
from crawler_lifecycle.hosts.functions import MAIN
from crawler_lifecycle.settings.configuration import forget_secrets
from crawler_lifecycle.settings.installation import Kept, environment_for_child, keep_installation, locate
from tests.kit.service import embedded
from tests.kit.service.embedded import CRAWLCTL, stack_processes, up
from tests.kit.waiting import until

READ = "import sys; sys.stdout.write(open(f'/proc/{sys.argv[1]}/environ').read())"
# Tests may run as root, who reads everything by a capability. Root without capabilities is a user like others.
AS_A_USER = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"] if os.geteuid() == 0 else []
SECRETS = {"CRAWLER_NOTICES__PUSHER_SECRET": "c0nf1dent1al"}
linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has /proc and prctl")


def environment_of(pid: int) -> str | None:
    """Return what a crawl of the same user reads of the process's environment; None: the kernel refuses."""
    read = subprocess.run([*AS_A_USER, sys.executable, "-c", READ, str(pid)], capture_output=True, text=True)
    assert read.returncode == 0 or "Permission denied" in read.stderr, read.stderr
    return read.stdout if read.returncode == 0 else None


@linux
@pytest.mark.process
@pytest.mark.system
async def test_a_crawl_reads_no_secret_of_the_stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "CRAWLCTL", [*AS_A_USER, *embedded.CRAWLCTL])
    state, module = tmp_path / "state", tmp_path / "functions.py"
    module.write_text("async def step() -> int:\n    return 1\n")
    async with up(state, "--flows", str(module), settings=SECRETS) as command:
        pids = stack_processes(state) | {"crawlctl": command.process.pid}
        seen = {name: environment_of(pid) for name, pid in pids.items()}
        assert seen.pop("temporal"), "the reader works: Temporal is a program of others, and cannot be closed"
        assert seen == dict.fromkeys(set(pids) - {"temporal"}), "each part is closed"
        visible = environment_of(pids["temporal"]) or ""
        shown = [word.partition("=")[0] for word in visible.split("\0") if word.startswith("CRAWLER_")]
        assert shown == ["CRAWLER_CLUSTER__INSTALLATION"]
        tokens = [(state / name).read_text() for name in ("scheduler.token", "scheduler-read.token", "api.token")]
        assert not [token for token in tokens if token in visible]
        recorded = (state / "stack.json").read_text()
        assert tokens[0] not in recorded, "the token that permits deployments is for worker and dispatcher"


@linux
@pytest.mark.long
def test_a_crawl_reads_no_secret_of_an_isolated_step(tmp_path: Path) -> None:
    """The step's process gets its host's secrets, since the step's clients connect by themselves."""
    module, imported = starts_a_program(tmp_path)
    ours, theirs = socket.socketpair()
    process = subprocess.Popen(
        [*AS_A_USER, sys.executable, "-P", "-m", MAIN, str(theirs.fileno())],
        pass_fds=[theirs.fileno()],
        env=os.environ | SECRETS | {"INNOCENT": "kept"},
    )
    other = subprocess.Popen([*AS_A_USER, "sleep", "60"], env=os.environ | SECRETS)
    try:
        Channel(ours).send({"targets": [str(module)], "folder": None})
        until(lambda: imported.exists() or None, "the process has imported the module")
        assert environment_of(process.pid) is None
        assert "c0nf1dent1al" not in imported.read_text(), "a program that the module starts inherits no secret"
        assert "INNOCENT=kept" in imported.read_text()
        until(lambda: "c0nf1dent1al" in (environment_of(other.pid) or "") or None, "the reader works")
    finally:
        for child in (process, other):
            child.kill()
            child.wait()
        ours.close()
        theirs.close()


def starts_a_program(folder: Path) -> tuple[Path, Path]:
    """Return a module whose import starts a program, and the file with the program's environment."""
    module, seen = folder / "functions.py", folder / "seen"
    module.write_text(
        "import os, pathlib, subprocess\n"
        "inherited = subprocess.run(['env'], capture_output=True, text=True, check=True).stdout\n"
        f"pathlib.Path('{seen}.part').write_text(inherited)\n"
        f"os.replace('{seen}.part', '{seen}')\n"
        "async def step() -> int:\n    return 1\n"
    )
    return module, seen


@pytest.mark.long
def test_a_program_of_a_host_of_steps_inherits_no_secret(tmp_path: Path) -> None:
    module, seen = starts_a_program(tmp_path)
    settings = {"CRAWLER_STATE": str(tmp_path), "CRAWLER_DATABASE__URL": "sqlite:////secret", "INNOCENT": "kept"}
    host = subprocess.Popen([*CRAWLCTL, "host", str(module)], env=os.environ | SECRETS | settings)
    try:
        until(lambda: seen.exists() or None, "the host has imported the module")
    finally:
        host.kill()
        host.wait()
    inherited = seen.read_text().splitlines()
    assert {"INNOCENT=kept", f"CRAWLER_STATE={tmp_path}"} <= set(inherited)
    assert not [line for line in inherited if line.startswith(("CRAWLER_DATABASE__URL", *SECRETS))]


def test_a_kept_installation_has_its_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients in authors' functions and isolated processes have the installation without the variables."""
    for name in ("installation", "secrets"):
        monkeypatch.setattr(Kept, name, getattr(Kept, name))
    monkeypatch.setenv("CRAWLER_STATE", str(tmp_path))
    monkeypatch.setenv("CRAWLER_DATABASE__URL", "sqlite:////elsewhere")
    keep_installation()
    assert "CRAWLER_DATABASE__URL" not in os.environ
    assert locate().settings.database_url == locate(tmp_path).settings.database_url == "sqlite:////elsewhere"
    assert environment_for_child()["CRAWLER_DATABASE__URL"] == "sqlite:////elsewhere"


def test_a_child_inherits_no_secret() -> None:
    variables = {
        "CRAWLER_DATABASE__URL": "mysql://crawler:secret@db/crawler",
        "crawler_scheduler__token": "secret",
        "CRAWLER_SCHEDULER__READ_TOKEN": "secret",
        "CRAWLER_NOTICES__WEBHOOKS": "https://x whsec_secret",
        "CRAWLER_NOTICES__PUSHER_SECRET": "secret",
        "CRAWLER_REMOTE__TOKEN": "secret",
        "CRAWLER_SCHEDULER__METRICS_TOKEN_FILE": "/secrets/token",
    }
    kept = {"CRAWLER_STATE": "/state", "PATH": "/bin"}
    environment = variables | kept
    assert forget_secrets(environment) == variables
    assert environment == kept
