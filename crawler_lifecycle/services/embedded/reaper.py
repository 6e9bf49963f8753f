"""Who ends the stack when the stack itself was killed?

A small process that leads the process group of all the stack's children and holds a pipe to its parent. When
the pipe closes, on purpose or because the parent is no more, whatever still runs in the group is ended. Jobs
have sessions of their own: they go on, unless the stack was a passing one that takes everything with it.
"""

import os
import shutil
import signal
import sys
from pathlib import Path

import click

from crawler_lifecycle.control import stack_file
from crawler_lifecycle.services.embedded import processes

GRACE = 5.0


@click.command()
@click.argument("state", type=click.Path(path_type=Path))
@click.argument("stack")
@click.option("--everything", is_flag=True, help="The jobs too, and the state folder.")
def main(state: Path, stack: str, everything: bool) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # what ends the others must not end the one that ends them
    os.write(sys.stdout.fileno(), b"ready\n")
    sys.stdin.buffer.read()
    _end_children(state, stack)
    if everything:
        _end_jobs(state)
        shutil.rmtree(state, ignore_errors=True)


def _end_children(state: Path, stack: str) -> None:
    while left := processes.members(os.getpgrp()):
        processes.end(left, GRACE)
    recorded = stack_file.read(state)
    if recorded and recorded.stack == stack:  # the next stack may have been started meanwhile
        others = (processes.find(each) for each in recorded.processes if each.pid != os.getpid())
        processes.end([each for each in others if each], GRACE)


def _end_jobs(state: Path) -> None:
    from crawler_lifecycle.control.control import Control
    from crawler_lifecycle.errors import LifecycleError
    from crawler_lifecycle.services.embedded.jobs import end_jobs

    try:
        end_jobs(Control.open(state), GRACE)
    except LifecycleError as error:  # no database yet: then there is no job either
        click.echo(error.message, err=True)


if __name__ == "__main__":
    main()
