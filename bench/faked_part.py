"""A service's part with faked jobs: `python -m bench.faked_part NAME` runs the part on the `EndedCluster`."""

import runpy
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from bench.ended_cluster import ended_cluster
from crawler_lifecycle.assembly import clusters
from crawler_lifecycle.stack import plan

FAKED = ("lifecycle", "scheduler")  # these parts make jobs or look at jobs
real_command = plan._command


def faked_command(name: str) -> list[str]:
    return [sys.executable, "-P", "-m", "bench.faked_part", name] if name in FAKED else real_command(name)


@contextmanager
def faked_jobs() -> Iterator[None]:
    """Let an embedded stack start its parts with faked jobs."""
    with patch.object(plan, "_command", faked_command):
        yield


def main() -> None:
    (part,) = sys.argv[1:]
    with patch.object(clusters, "cluster_of", ended_cluster):
        runpy.run_module(f"crawler_lifecycle.processes.{part}", run_name="__main__")


if __name__ == "__main__":
    main()
