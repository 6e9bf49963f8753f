"""`crawlctl` as a process, also `python -m crawler_lifecycle.cli`."""

import os
import sys
from contextlib import suppress
from typing import NoReturn

from crawler_lifecycle.cli import main
from crawler_lifecycle.cli.common import OK, WRONG


def run() -> NoReturn:
    """Ends without taking the interpreter apart: threads of Temporal's SDK outlive its client, and then crash now and
    then what was done and said already, and with it the exit status (temporalio/sdk-python, issue 300)."""
    status = OK
    try:
        main(prog_name="crawlctl")
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else WRONG if end.code else OK
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):  # closed by whoever read it, or never there
            stream.flush()
    os._exit(status)


if __name__ == "__main__":
    run()
