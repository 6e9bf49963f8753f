"""One process of the control plane: started, frozen, killed, ended, always by its own id.

It dies with whoever started it, also when that is killed, and what it printed is in a file.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

PATIENCE = 30.0
# the kernel's promise to kill the child when the thread that started it is gone (Linux only), unless it is already
BOUND = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(1, 9)
if os.getppid() == int(sys.argv[1]):
    os.execv(sys.argv[2], sys.argv[2:])
"""


class Died(Exception):
    """A program ended that should run; the message has the end of its log."""


class Program:
    def __init__(self, command: Sequence[str | Path], log: Path, environment: Mapping[str, str] | None = None) -> None:
        self.command = [str(word) for word in command]
        self.log = log
        self.environment = dict(environment or {})
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def name(self) -> str:
        return self.log.stem

    def start(self) -> None:
        """To be called in the main thread: the program dies with the thread that started it."""
        assert not self.running, f"{self.name} runs already"
        bound = [sys.executable, "-I", "-S", "-c", BOUND, str(os.getpid())] if sys.platform == "linux" else []
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*bound, *self.command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=os.environ | self.environment,
                start_new_session=True,  # Ctrl-C is for pytest, which ends us in order
            )

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def check(self) -> None:
        if not self.running:
            raise Died(f"{self.name} is not running. The end of its log:\n{self.log_tail()}")

    def freeze(self) -> None:
        self._send(signal.SIGSTOP)

    def thaw(self) -> None:
        self._send(signal.SIGCONT)

    def kill(self) -> None:
        """One that has ended is left alone."""
        if self.running:
            self._send(signal.SIGKILL)
            self._wait()

    def stop(self) -> None:
        """Ask it to end; make it, if it does not. One that has ended is left alone."""
        if not self.running:
            return
        self.thaw()
        self._send(signal.SIGTERM)
        try:
            self._wait()
        except subprocess.TimeoutExpired:
            self.kill()

    def log_tail(self, lines: int = 40) -> str:
        if not self.log.exists():
            return "(nothing)"
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def _send(self, number: signal.Signals) -> None:
        assert self.process
        self.process.send_signal(number)

    def _wait(self) -> None:
        assert self.process
        self.process.wait(PATIENCE)
