"""One whole service for all tests of single faults: behind a proxy, impatient, in a cluster that changes its pods."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crawler_lifecycle.stack.plan import free_ports
from tests.kit.data.databases import create_database
from tests.kubernetes import fates
from tests.kubernetes.admission import Change, changing
from tests.kubernetes.bed import Bed
from tests.kubernetes.jobs import UNPRIVILEGED
from tests.kubernetes.proxy import Proxy, proxy_to
from tests.kubernetes.service import Service, served

GIVE_UP_SECONDS = 25
OVERDUE_SECONDS = 5
IMAGES = {
    "books": fates.after(fates.SUCCEEDS, "1s"),
    "slow-books": fates.after(fates.SUCCEEDS, "15s"),
    "long-books": fates.after(fates.SUCCEEDS, "30s"),
    "obeys": fates.RUNS,
    "breaks": fates.after(fates.exits(3), "2s"),
    "no-image": fates.NO_IMAGE,
    "no-config": fates.BAD_CONFIG,
    "no-volume": fates.NO_VOLUME,
    "no-sandbox": fates.NO_SANDBOX,
    "gated": fates.after(fates.GATED, "1s"),
    "suspended": fates.after(fates.SUSPENDED, "1s"),
    "unprepared": fates.UNPREPARED,
    "memory-beside": fates.after(fates.MEMORY_BESIDE, "1s"),
    "out-of-time": fates.after(fates.OUT_OF_TIME, "1s"),
    "denied": "denied/books",
    "unacceptable": fates.UNACCEPTABLE,
    "misspelt": " fate/succeeds",  # which a Job may say, and a pod may not
}
SIZED = {
    "huge": (fates.SUCCEEDS, 'memory = "100Ti"'),
    "small": (fates.RUNS, 'cpu = "1"'),
    # of which a node takes one
    "alone": (fates.RUNS, 'cpu = "40"'),
    "lasting": (fates.LASTING, 'cpu = "40"'),
    "done-unseen": (fates.DONE_UNSEEN, 'cpu = "40"'),
}

UNRANKED = f"""
[crawlers.unranked]
image = "{fates.SUCCEEDS}"
pod = {{ priority_class = "nowhere" }}
"""


def _sized() -> str:
    entry = '[crawlers.{}]\ncommand = ["crawl"]\nimage = "{}"\nresources = {{ {} }}\n'
    return "\n".join(entry.format(name, *each) for name, each in SIZED.items())


def _container(name: str, **more: str) -> dict[str, Any]:
    return {"name": name, "image": fates.RUNS, "securityContext": UNPRIVILEGED, **more}


def _tolerated(taint: str) -> dict[str, str]:
    return {"key": f"node.kubernetes.io/{taint}", "operator": "Exists", "effect": "NoExecute"}


CHANGES = (
    Change(fates.GATED, "schedulingGates", [{"name": "example.org/queue"}]),
    Change(fates.SUSPENDED, "suspend", True, of_jobs=True),
    Change(fates.UNPREPARED, "initContainers", [_container("prepare")]),
    Change(fates.MEMORY_BESIDE, "initContainers", [_container("proxy", restartPolicy="Always")]),
    Change(fates.OUT_OF_TIME, "activeDeadlineSeconds", 1),
    # with the other rules of our Jobs the API server takes no other policy than ours
    Change(fates.UNACCEPTABLE, "podReplacementPolicy", "TerminatingOrFailed", of_jobs=True),
    Change(fates.LASTING, "tolerations", [_tolerated("unreachable"), _tolerated("not-ready")]),
)


@dataclass(frozen=True)
class Faulty:
    service: Service
    proxy: Proxy
    metrics: str


@asynccontextmanager
async def faulty_service(bed: Bed, folder: Path, temporal: str, mariadb: int) -> AsyncIterator[Faulty]:
    """In the end nothing of any run may be left in the cluster."""
    namespace, (port,) = bed.namespace(), free_ports(1)
    settings = {
        "CRAWLER_KUBERNETES__GIVE_UP_SECONDS": str(GIVE_UP_SECONDS),
        "CRAWLER_KUBERNETES__OVERDUE_SECONDS": str(OVERDUE_SECONDS),
        "CRAWLER_METRICS__PORT": str(port),
        # whoever asks the scheduler service waits longer than the service for the API server
        "CRAWLER_SCHEDULER__TIMEOUT_SECONDS": "20",
        "CRAWLER_DISPATCHER__CLAIM_SECONDS": "40",
        # removes the jobs whose evidence could not be had, long before the last look at what is left gives up
        "CRAWLER_AUDIT__EVERY_SECONDS": "30",
        "CRAWLER_AUDIT__JOB_SECONDS": "60",
    }
    with proxy_to(bed) as proxy, changing(bed, namespace, *CHANGES):
        url = create_database(mariadb, "faulty")
        service = Service(bed, namespace, folder, temporal, url, server=proxy.url, more=settings)
        service.crawlers(IMAGES, _sized() + UNRANKED)
        async with served(service):
            yield Faulty(service, proxy, f"http://127.0.0.1:{port}/metrics")
            await service.assert_clean()
    bed.remove_namespace(namespace)
