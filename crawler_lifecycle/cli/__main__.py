"""Starts and ends the process `crawlctl`, which is also `python -m crawler_lifecycle.cli`."""

import _signal  # type: ignore[import-not-found]  # the module `signal` takes long to import
import os
import sys

INTERRUPTED = 130  # exit status after Ctrl-C, as shells use it


def run() -> None:
    """Run the command, then end the process without the interpreter's own cleanup.

    Threads of Temporal's SDK outlive its client and sometimes crash in the cleanup, which loses the exit status
    (temporalio/sdk-python, issue 300).
    """
    _exit_on_interrupt()
    from contextlib import suppress

    status = _main()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):  # a stream may be closed by its reader, or None
            stream.flush()
    os._exit(status)


def _main() -> int:
    """Run the command and return its exit status."""
    from crawler_lifecycle.base.hiding import hide_process
    from crawler_lifecycle.cli.program import main
    from crawler_lifecycle.console.failures import OK, WRONG

    hide_process()
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
    """Let Ctrl-C end the process without a message, unless the signal is ignored. All later imports are slow."""
    if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:  # a script with `&` ignores it
        _signal.signal(_signal.SIGINT, lambda *_: os._exit(INTERRUPTED))


def _raise_on_interrupt() -> None:
    """Let Ctrl-C raise KeyboardInterrupt, as Python does by default, unless the signal is ignored."""
    if _signal.getsignal(_signal.SIGINT) is not _signal.SIG_IGN:
        _signal.signal(_signal.SIGINT, _signal.default_int_handler)


if __name__ == "__main__":
    run()
