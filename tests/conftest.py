"""What every test may use."""

import signal
from pathlib import Path

import pytest
from hypothesis import settings

pytest_plugins = [
    "tests.kit.service.apis",
    "tests.kit.clusters.clusters",
    "tests.kit.data.databases",
    "tests.kit.service.commands",
    "tests.kit.temporal.flow_stage",
    "tests.kit.service.rig",
    "tests.kubernetes.fixtures",
    "tests.kit.temporal.plays",
    "tests.kit.temporal.servers",
    "tests.kit.outside.stores",
    "tests.browser.pages",
    "tests.browser.shelf",
    "tests.ci.shards",
]

HERE = Path(__file__).parent
# every test of these folders has this mark, and a run without the mark does not read the folder
MARKS = {"browser": "system", "chaos": "outage", "crash": "crash", "kubernetes": "cluster", "restore": "system"}
# by folder; the tests in `unit` take least
LONGEST_FIRST = ("deploy", "browser", "process", "contracts", "replay")

# Hypothesis fails an example that takes more than 0.2 s of the clock. On a busy machine that is no fault of ours, and
# examples here open databases; a test that hangs is ended by pytest-timeout.
settings.register_profile("busy", deadline=None)
settings.load_profile("busy")


def pytest_configure() -> None:
    """A shell starts what it puts into the background with SIGINT ignored, and what we start would inherit that."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    if collection_path.parent != HERE or " or " in (chosen := config.option.markexpr):
        return None
    mark = MARKS.get(collection_path.name)
    return True if mark and f"not {mark}" in chosen.split(" and ") else None


def pytest_itemcollected(item: pytest.Item) -> None:
    if mark := MARKS.get(item.path.parent.name):
        item.add_marker(mark)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes longest begins first, so that at the end no worker is left alone with it."""
    items.sort(key=lambda item: _rank(item.path.parent.name))


def _rank(folder: str) -> int:
    if folder in LONGEST_FIRST:
        return LONGEST_FIRST.index(folder)
    return len(LONGEST_FIRST) + (folder == "unit")
