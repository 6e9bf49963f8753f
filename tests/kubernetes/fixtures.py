"""The bed, once a session, and a namespace for each test; used here and by the contract suites."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kubernetes.bed import Bed, running
from tests.kubernetes.bench import KubernetesBench
from tests.kubernetes.proxy import Proxy, proxy_to


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
