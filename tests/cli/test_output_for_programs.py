"""With --json, stdout had log lines of Temporal's SDK before the answer, and an error was text.

Temporal answers Unavailable while its disk is full: the Rust library of its SDK then told of every try on stdout, with
colour codes, and `jq` could not read the answer.
"""

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from crawler_lifecycle.model.records import RunRecord
from tests.kit.service.commands import Crawlctl
from tests.kit.service.embedded import CRAWLCTL, environment

pytestmark = pytest.mark.regression(
    "With --json, stdout had log lines of Temporal's SDK before the answer, and an error was text"
)

PREFACE = len(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
DATA, HEADERS, SETTINGS, PING = 0, 1, 4, 6
END_STREAM, END_HEADERS, ACK = 1, 4, 1
UNAVAILABLE = b"14"
EMPTY_MESSAGE = bytes(5)
SHAPE = {"error", "exit_status", "message", "option"}


@pytest.fixture
def full_temporal() -> Iterator[str]:
    """A Temporal server that lets a client in and then answers Unavailable, as one whose disk is full."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=_accept, args=[listener], daemon=True).start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)


def _accept(listener: socket.socket) -> None:
    with suppress(OSError):
        while True:
            threading.Thread(target=_answer, args=[listener.accept()[0]], daemon=True).start()


def _answer(connection: socket.socket) -> None:
    """Speak some HTTP/2: answer the first call, about what the server can do, and refuse every other one."""
    status = b"0"
    with suppress(OSError), connection, connection.makefile("rb") as asked:
        asked.read(PREFACE)
        connection.sendall(_frame(SETTINGS, 0, 0))
        while head := asked.read(9):
            size, kind, flags, stream = int.from_bytes(head[:3]), head[3], head[4], int.from_bytes(head[5:])
            body = asked.read(size)
            if kind in (SETTINGS, PING) and not flags & ACK:
                connection.sendall(_frame(kind, ACK, 0, body if kind == PING else b""))
            if kind == HEADERS:
                # :status 200 is entry 8 of the static table; the others are literals without an index
                begin = b"\x88" + _literal(b"content-type", b"application/grpc")
                connection.sendall(_frame(HEADERS, END_HEADERS, stream, begin))
                if status == b"0":
                    connection.sendall(_frame(DATA, 0, stream, EMPTY_MESSAGE))
                connection.sendall(_frame(HEADERS, END_STREAM | END_HEADERS, stream, _literal(b"grpc-status", status)))
                status = UNAVAILABLE


def _frame(kind: int, flags: int, stream: int, body: bytes = b"") -> bytes:
    return len(body).to_bytes(3) + bytes((kind, flags)) + stream.to_bytes(4) + body


def _literal(name: bytes, value: bytes) -> bytes:
    return b"\x00" + bytes([len(name)]) + name + bytes([len(value)]) + value


@pytest.mark.long
def test_nothing_is_on_stdout_beside_the_answer(
    crawlctl: Crawlctl, run: RunRecord, tmp_path: Path, full_temporal: str
) -> None:
    del crawlctl
    words = ["stop", str(run.run_id), "--direct", "--json", "--state", str(tmp_path / "state")]
    variables = environment(tmp_path, {"TEMPORAL_ADDRESS": full_temporal})
    done = subprocess.run([*CRAWLCTL, *words], env=variables, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["told"].startswith("later: ")


@pytest.mark.parametrize(
    ("words", "status", "error", "option"),
    [
        (["list", "--limit", "0"], 2, "bad_input", "--limit"),
        (["run", "bookshop", "--tasks", "0"], 2, "bad_input", "--tasks"),
        (["run", "bookshop", "--grace", "0s"], 2, "bad_input", "--grace"),
        (["schedule", "create", "a b", "bookshop", "--every", "1h"], 2, "bad_input", "SCHEDULE"),
        (["shwo"], 2, "bad_input", None),
        (["show", "999"], 3, "not_found", None),
        (["crawlers"], 4, "not_ready", None),
        (["export", "1"], 6, "refused", None),
    ],
)
def test_an_error_is_one_object_on_stderr(
    crawlctl: Crawlctl, run: RunRecord, words: list[str], status: int, error: str, option: str | None
) -> None:
    assert run.run_id == 1
    ended, as_text = crawlctl(*words, "--json"), crawlctl(*words)
    assert (ended.exit_code, as_text.exit_code, ended.stdout) == (status, status, "")
    failure = json.loads(ended.stderr)
    assert set(failure) == SHAPE
    assert (failure["exit_status"], failure["error"], failure["option"]) == (status, error, option)
    assert as_text.stderr.startswith(f"Error: {failure['message']}")


@pytest.mark.parametrize("module", ["click", "crawler_lifecycle.runs.cli.reading", "crawler_lifecycle.runs.client"])
def test_ctrl_c_among_the_imports_is_no_traceback(tmp_path: Path, module: str) -> None:
    """Ctrl-C was a traceback in the first moments, in which the modules of the command are imported."""
    program = (
        "import os, signal, sys\n"
        "class Interrupting:\n"
        "    def find_spec(self, name, *_):\n"
        f"        if name == {module!r}: os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Interrupting())\n"
        f"sys.argv = ['crawlctl', 'list', '--state', {str(tmp_path)!r}]\n"
        "from crawler_lifecycle.cli.__main__ import run; run()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr.strip()) == (130, "", "")


def test_nothing_is_imported_before_ctrl_c_has_its_handler() -> None:
    """Ctrl-C during the imports of the entry module itself was a traceback, too."""
    program = (
        "import sys\nbefore = set(sys.modules)\n"
        "from crawler_lifecycle.cli.__main__ import run\nprint(*sorted(sys.modules.keys() - before))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == ["crawler_lifecycle", "crawler_lifecycle.cli", "crawler_lifecycle.cli.__main__"]


@pytest.mark.long
def test_no_colours_where_none_are_wanted(crawlctl: Crawlctl, run: RunRecord, tmp_path: Path) -> None:
    """https://no-color.org"""
    assert crawlctl("show", str(run.run_id)).exit_code == 0  # with this, there is an API
    words = [*CRAWLCTL, "list", "--state", str(tmp_path / "state")]
    coloured, plain = (_on_a_terminal(words, environment(tmp_path, no)) for no in ({}, {"NO_COLOR": "1"}))
    assert "\x1b[" in coloured
    assert "\x1b" not in plain
    assert "INITIALIZING" in plain


def _on_a_terminal(words: list[str], variables: dict[str, str]) -> str:
    ours, theirs = os.openpty()
    with subprocess.Popen(words, stdin=theirs, stdout=theirs, stderr=theirs, env=variables) as process:
        os.close(theirs)
        shown = b""
        with suppress(OSError):  # how Linux tells that the other side is closed
            while part := os.read(ours, 4096):
                shown += part
        assert process.wait(60) == 0, shown
    os.close(ours)
    return shown.decode()
