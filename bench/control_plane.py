"""Control plane for the Kubernetes benchmarks, the same as in `make test-cluster`. Every benchmark starts a new control
plane.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psutil

from bench.measuring import cpu_seconds
from bench.table import Scale, Table
from tests.kubernetes.bed import ORDER, Bed, running
from tests.kubernetes.programs import Unbuildable

SKIPPED = ("not measured",)


def on_control_plane(
    columns: tuple[str, ...], rows: Callable[[Bed, Scale], list[tuple[object, ...]]], scale: Scale
) -> Table:
    """Start a control plane. Where the programs cannot be built, the table says which program is missing."""
    try:
        with running() as bed:
            return Table(columns, rows(bed, scale))
    except Unbuildable as error:
        return Table(SKIPPED, [(str(error),)])


class Spent:
    """Return the CPU seconds of the control plane's programs since their start."""

    def __init__(self, bed: Bed) -> None:
        running = {name: bed.programs[name].process for name in ORDER}
        self._processes = {name: psutil.Process(process.pid) for name, process in running.items() if process}
        self._before = self._now()

    def by_program(self) -> dict[str, float]:
        return {name: seconds - self._before[name] for name, seconds in self._now().items()}

    def _now(self) -> dict[str, float]:
        return {name: cpu_seconds(process) for name, process in self._processes.items()}


@contextmanager
def standing_still(bed: Bed, *names: str) -> Iterator[None]:
    """Pause the given programs, so that their work is not measured."""
    for name in names:
        bed.programs[name].freeze()
    try:
        yield
    finally:
        for name in names:
            bed.programs[name].thaw()
