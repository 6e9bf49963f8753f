"""Reaper: a small process that ends the stack's children when the stack itself was killed.

The reaper leads the process group of all children and holds a pipe to the stack. When the stack closes the pipe or
dies, the reaper ends every remaining process of the group. Jobs have their own sessions and continue. With
`--everything`, for a temporary stack such as the demo's, the reaper also ends the jobs and removes the state folder.
"""

import os
import shutil
import signal
import sys
from pathlib import Path

import click

from crawler_lifecycle.base.hiding import hide_process
from crawler_lifecycle.settings import stack_file, stack_processes
from crawler_lifecycle.stack import processes

GRACE = 5.0  # seconds between SIGTERM and SIGKILL


@click.command()
@click.argument("state", type=click.Path(path_type=Path))
@click.argument("stack_id")
@click.option("--everything", is_flag=True, help="The jobs too, and the state folder.")
def main(state: Path, stack_id: str, everything: bool) -> None:
    hide_process()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # signals to the group must not end the reaper
    os.write(sys.stdout.fileno(), b"ready\n")
    sys.stdin.buffer.read()  # returns when the pipe closes
    _end_children(state, stack_id)
    if everything:
        _end_jobs(state)
        shutil.rmtree(state, ignore_errors=True)


def _end_children(state: Path, stack_id: str) -> None:
    """End the group, and the recorded children of an earlier, killed reaper, in another group."""
    while alive := processes.members(os.getpgrp()):  # without the reaper itself
        processes.end(alive, GRACE)
    recorded = stack_file.read(state)
    if recorded and recorded.stack == stack_id:  # the record of a newer stack stays untouched
        others = [process for process in recorded.processes if process.pid != os.getpid()]
        processes.end(filter(None, map(stack_processes.find, others)), GRACE)


def _end_jobs(state: Path) -> None:
    from crawler_lifecycle.assembly.control import Control
    from crawler_lifecycle.errors import LifecycleError
    from crawler_lifecycle.stack.jobs import end_jobs

    try:
        end_jobs(Control.open(state), GRACE)
    except LifecycleError as error:  # for example if the stack was killed before its database was made
        click.echo(error.message, err=True)


if __name__ == "__main__":
    main()
