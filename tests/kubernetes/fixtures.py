"""The bed, once a session, and a namespace for each test; used here and by the contract suites.

Every test session loads this module. The Kubernetes client is imported with the first bed.
"""

from collections.abc import AsyncIterator, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio
from temporalio.testing import WorkflowEnvironment

if TYPE_CHECKING:
    from tests.kubernetes.bed import Bed
    from tests.kubernetes.bench import KubernetesBench
    from tests.kubernetes.faulty import Faulty
    from tests.kubernetes.proxy import Proxy


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A test that failed on the bed shows what its programs said last."""
    report = yield
    bed = getattr(item, "funcargs", {}).get("bed")
    if report.failed and bed is not None:
        report.sections.append(("Control plane", bed.logs()))
    return report


@pytest.fixture(scope="session")
def bed() -> "Iterator[Bed]":
    from tests.kubernetes.bed import running

    with running() as bed:
        yield bed


@pytest.fixture
def namespace(bed: "Bed") -> Iterator[str]:
    name = bed.namespace()
    yield name
    bed.remove_namespace(name)


@pytest.fixture
def proxy(bed: "Bed") -> "Iterator[Proxy]":
    from tests.kubernetes.proxy import proxy_to

    with proxy_to(bed) as proxy:
        yield proxy


@pytest.fixture
def kubernetes(bed: "Bed", namespace: str, tmp_path: Path) -> "KubernetesBench":
    from tests.kubernetes.bench import KubernetesBench

    return KubernetesBench(bed, namespace, tmp_path)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def faulty(
    bed: "Bed", tmp_path_factory: pytest.TempPathFactory, real_time: WorkflowEnvironment, mariadb_server: int
) -> "AsyncIterator[Faulty]":
    """One for several modules: until the last job of a run leaves the cluster, it takes more than a minute."""
    from tests.kubernetes.faulty import faulty_service

    temporal = real_time.client.service_client.config.target_host
    async with faulty_service(bed, tmp_path_factory.mktemp("faulty"), temporal, mariadb_server) as faulty:
        yield faulty
