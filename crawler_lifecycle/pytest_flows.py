"""Plugin for pytest with the fixture `flows`: a client for a real stack, with SQLite and Temporal, for a test session.

The module imports the service at the first use of a fixture, since pytest loads the plugin in every session. A missing
extra is named in a line without a traceback.
"""

from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from crawler_lifecycle.extras import require

if TYPE_CHECKING:
    from crawler_lifecycle.client import SyncFlows


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("flow_modules", "modules or .py files with steps, for the fixture `flows`", type="args", default=[])
    parser.addini("flow_queues", "queues for steps, for the fixture `flows`", type="args", default=["default"])
    parser.addini("flow_catalogue", "file with crawlers, for the fixture `flows`; default: the examples", default="")


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Shorten a test module's report if its import of `crawler_lifecycle.testing` misses an extra."""
    report = yield
    problem = _missing_extra() if report.failed else None
    if problem and problem in str(report.longrepr):
        report.longrepr = problem
    return report


def _missing_extra() -> str | None:
    try:
        require("server")
    except ImportError as error:
        return str(error)
    return None


@pytest.fixture(scope="session")
def flow_modules(pytestconfig: pytest.Config) -> Sequence[str]:
    """Modules or .py files with the steps; by default from the setting `flow_modules`."""
    return tuple(pytestconfig.getini("flow_modules"))


@pytest.fixture(scope="session")
def flow_queues(pytestconfig: pytest.Config) -> Sequence[str]:
    """Queues for steps; by default from the setting `flow_queues`."""
    return tuple(pytestconfig.getini("flow_queues"))


@pytest.fixture(scope="session")
def flow_catalogue(pytestconfig: pytest.Config) -> Path | None:
    """File with the crawlers; by default from the setting `flow_catalogue`."""
    name = pytestconfig.getini("flow_catalogue")
    return pytestconfig.rootpath / name if name else None


@pytest.fixture(scope="session")
def flow_stack(flow_modules: Sequence[str], flow_queues: Sequence[str], flow_catalogue: Path | None) -> Iterator[Path]:
    """Run the stack, and yield the folder with the state, for `Flows.open(state)` and `crawlctl --state`."""
    if problem := _missing_extra():
        pytest.fail(problem, pytrace=False)
    from crawler_lifecycle.testing.stack import temporary_stack

    with temporary_stack(flow_modules, flow_catalogue, flow_queues) as state:
        yield state


@pytest.fixture
def flows(flow_stack: Path) -> "Iterator[SyncFlows]":
    """Open a client on the stack."""
    from crawler_lifecycle.client import Flows

    with Flows.open_sync(flow_stack) as client:
        yield client
