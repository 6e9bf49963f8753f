"""Starts and ends the process `crawlctl`, which is also `python -m crawler_lifecycle.cli`."""

import os
import signal
import sys
from contextlib import suppress
from typing import NoReturn

INTERRUPTED = 130  # exit status after Ctrl-C, as shells use it


def run() -> NoReturn:
    """Run the command, then end the process without the interpreter's own cleanup.

    Threads of Temporal's SDK outlive its client and sometimes crash in the cleanup, which loses the exit status
    (temporalio/sdk-python, issue 300).
    """
    status = _main()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):  # a stream may be closed by its reader, or None
            stream.flush()
    os._exit(status)


def _main() -> int:
    """Run the command and return its exit status."""
    _exit_on_interrupt()  # otherwise, Ctrl-C during an import prints a traceback
    from crawler_lifecycle.cli.failures import OK, WRONG
    from crawler_lifecycle.cli.program import main

    try:
        _raise_on_interrupt()
        main(prog_name="crawlctl")
    except SystemExit as end:
        if isinstance(end.code, int):
            return end.code
        return WRONG if end.code else OK  # here the code is None or an error message
    except KeyboardInterrupt:
        return INTERRUPTED
    return OK


def _exit_on_interrupt() -> None:
    """Let Ctrl-C end the process without a message, unless the signal is ignored."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # a script with `&` ignores it
        signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))


def _raise_on_interrupt() -> None:
    """Let Ctrl-C raise KeyboardInterrupt, as Python does by default, unless the signal is ignored."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


if __name__ == "__main__":
    run()
