"""Starts and ends the process `crawlctl`, which is also `python -m crawler_lifecycle.cli`."""

import os
import signal
import sys
from contextlib import suppress
from typing import NoReturn

INTERRUPTED = 130


def run() -> NoReturn:
    """Run the command, then end without the interpreter's own cleanup. Threads of Temporal's SDK outlive its client and
    sometimes crash in the cleanup, which loses the exit status (temporalio/sdk-python, issue 300)."""
    status = _main()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):  # closed by its reader, or missing from the start
            stream.flush()
    os._exit(status)


def _main() -> int:
    _end_at_once_on_interrupt()  # Ctrl-C during an import would print a traceback
    from crawler_lifecycle.cli.failures import OK, WRONG
    from crawler_lifecycle.cli.program import main

    try:
        _interrupt_as_usual()
        main(prog_name="crawlctl")
    except SystemExit as end:
        if isinstance(end.code, int):
            return end.code
        return WRONG if end.code else OK  # a text is an error message
    except KeyboardInterrupt:
        return INTERRUPTED
    return OK


def _end_at_once_on_interrupt() -> None:
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # a script with `&` sets the signal to be ignored
        signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))


def _interrupt_as_usual() -> None:
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


if __name__ == "__main__":
    run()
