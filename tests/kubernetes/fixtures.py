"""The bed, once a session, and a namespace for each test; used here and by the contract suites."""

from collections.abc import AsyncIterator, Generator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
from temporalio.testing import WorkflowEnvironment

from tests.kubernetes.bed import Bed, running
from tests.kubernetes.bench import KubernetesBench
from tests.kubernetes.faulty import Faulty, faulty_service
from tests.kubernetes.proxy import Proxy, proxy_to


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A test that failed on the bed shows what its programs said last."""
    report = yield
    bed = getattr(item, "funcargs", {}).get("bed")
    if report.failed and isinstance(bed, Bed):
        report.sections.append(("Control plane", bed.logs()))
    return report


@pytest.fixture(scope="session")
def bed() -> Iterator[Bed]:
    with running() as bed:
        yield bed


@pytest.fixture
def namespace(bed: Bed) -> Iterator[str]:
    name = bed.namespace()
    yield name
    bed.remove_namespace(name)


@pytest.fixture
def proxy(bed: Bed) -> Iterator[Proxy]:
    with proxy_to(bed) as proxy:
        yield proxy


@pytest.fixture
def kubernetes(bed: Bed, namespace: str, tmp_path: Path) -> KubernetesBench:
    return KubernetesBench(bed, namespace, tmp_path)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def faulty(
    bed: Bed, tmp_path_factory: pytest.TempPathFactory, real_time: WorkflowEnvironment, mariadb_server: int
) -> AsyncIterator[Faulty]:
    """One for several modules: until the last job of a run leaves the cluster, it takes more than a minute."""
    temporal = real_time.client.service_client.config.target_host
    async with faulty_service(bed, tmp_path_factory.mktemp("faulty"), temporal, mariadb_server) as faulty:
        yield faulty
