"""How is a user told to call the program, and which ports does the stack take?"""

import socket
import sys
from pathlib import Path

import pytest

from crawler_lifecycle.console.common import crawlctl_command
from crawler_lifecycle.errors import NotReady
from crawler_lifecycle.stack.plan import LOOPBACK, SERVER_PORTS, free_ports
from crawler_lifecycle.stack.stack import owned


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / ".venv" / "bin"
    folder.mkdir(parents=True)
    (folder / "crawlctl").touch(0o755)
    monkeypatch.setattr(sys, "executable", str(folder / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    return folder


def test_a_program_that_no_shell_finds_is_called_by_its_path(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(programs.parents[1])
    assert crawlctl_command() == ".venv/bin/crawlctl"
    monkeypatch.chdir(programs)
    assert crawlctl_command() == str(programs / "crawlctl")


def test_a_program_on_the_path_is_called_by_its_name(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(programs))
    assert crawlctl_command() == "crawlctl"


def test_free_ports_are_none_that_a_client_may_be_given() -> None:
    ports = free_ports(20)
    assert len(set(ports)) == 20
    assert set(ports) <= set(SERVER_PORTS)
    with socket.create_server((LOOPBACK, ports[0])):
        assert ports[0] not in free_ports(len(SERVER_PORTS))


def test_a_second_stack_on_a_folder_is_told_how_a_further_module_gets_a_host(tmp_path: Path) -> None:
    with owned(tmp_path), pytest.raises(NotReady) as refused, owned(tmp_path):
        pytest.fail("two stacks own the folder")
    assert str(refused.value) == (
        f"a stack runs on {tmp_path} already: end it, or choose another folder with --state; a further module gets a "
        "host of its own beside it, with `crawlctl host FILE`"
    )
    with owned(tmp_path):
        """The folder is free again."""
