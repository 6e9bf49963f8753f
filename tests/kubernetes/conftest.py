"""The bed, once a session, and a namespace for each test. All of it runs only when asked for: `make test-cluster`."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kubernetes.bed import Bed, running
from tests.kubernetes.proxy import Proxy, proxy_to

HERE = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.cluster)


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
