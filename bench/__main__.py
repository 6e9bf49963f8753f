"""`python -m bench [NAME ...]` runs all benchmarks, or the named benchmarks, and prints Markdown tables."""

import os
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import click

from bench import (
    archives,
    auditing,
    command,
    crawlers,
    flow_crowds,
    flow_planning,
    flows,
    kubernetes_delay,
    kubernetes_deployments,
    kubernetes_runs,
    kubernetes_server,
    lifecycles,
    line,
    lists,
    local_look,
    long_run,
    looks,
    managers,
    noticed,
    page,
    permits,
    readers,
    retention,
    starts,
    stop_to_proof,
    worker_start,
)
from bench.measuring import like_a_fresh_shell
from bench.table import QUICK, Scale, Table, written_into

BENCHMARKS: dict[str, Callable[[Scale], Table]] = {
    "long-run": long_run.measure,
    "looks": looks.measure,
    "local-look": local_look.measure,
    "kubernetes-server": kubernetes_server.measure,
    "kubernetes-deployments": kubernetes_deployments.measure,
    "kubernetes-delay": kubernetes_delay.measure,
    "kubernetes-runs": kubernetes_runs.measure,
    "lifecycles": lifecycles.measure,
    "noticed": noticed.measure,
    "stop-to-proof": stop_to_proof.measure,
    "list": command.measure,
    "crawlers": crawlers.measure,
    "page": page.measure,
    "worker-start": worker_start.measure,
    "archives": archives.measure,
    "huge-archive": archives.measure_huge,
    "audit": auditing.measure,
    "permits": permits.measure,
    "line": line.measure,
    "starts": starts.measure,
    "lists": lists.measure,
    "readers": readers.measure,
    "retention": retention.measure,
    "flow-planning": flow_planning.measure,
    "flows": flows.measure,
    "flow-crowds": flow_crowds.measure,
    "managers": managers.measure,
}


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME]...", type=click.Choice(list(BENCHMARKS)))
@click.option("--quick", is_flag=True, help="Small sizes: does every benchmark work?")
@click.option("--row", default="", help="Of managers: only rows with this text, such as `no cursor`.")
@click.option("--write", type=click.Path(path_type=Path, dir_okay=False, exists=True), metavar="FILE",
              help="Put the tables between the markers of this document.")  # fmt: skip
def main(names: tuple[str, ...], quick: bool, row: str, write: Path | None) -> None:
    """Measure the figures of docs/internals/benchmarks.md: all, or the named benchmarks."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell lets its background jobs ignore SIGINT
    for ending in (signal.SIGTERM, signal.SIGHUP):
        # otherwise SIGTERM would leave the servers running
        signal.signal(ending, lambda *_: signal.raise_signal(signal.SIGINT))
    like_a_fresh_shell()
    for name in names or BENCHMARKS:
        circumstances, began = _circumstances(), time.monotonic()
        click.echo(f"{name} ...", err=True)
        table = BENCHMARKS[name](replace(QUICK if quick else Scale(), row=row))
        click.echo(f"{name}: {time.monotonic() - began:.0f} s", err=True)
        text = f"{table.markdown}\n\n{circumstances}"
        click.echo(f"\n## {name}\n\n{text}\n")
        if write:
            write.write_text(written_into(write.read_text(), name, text))


def _circumstances() -> str:
    """Say how busy the machine was beside the benchmark."""
    return f"{datetime.now(UTC):%Y-%m-%d}, load {os.getloadavg()[0]:.1f}."


if __name__ == "__main__":
    main()
