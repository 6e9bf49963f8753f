"""Refusals named an option that nobody had typed: --name for a positional name, --arg for a manager's arguments.

They named --flow beside --manager, and --manager for a list of attempts.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from crawler_lifecycle.cli.program import main
from tests.kit.service.commands import Crawlctl

pytestmark = pytest.mark.regression(
    "Refusals named an option that nobody had typed: --name for a positional name, --arg for a manager's arguments"
)

FILE = """
from crawler_lifecycle.managers import CrawlManager


class One(CrawlManager):
    pass
"""


@pytest.fixture
def file(state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An author's file, whose module is forgotten after the test."""
    monkeypatch.setenv("CRAWLER_STATE", str(state))
    path, before = tmp_path / "manager_without_a_name.py", list(sys.path)
    path.write_text(FILE)
    yield path
    sys.path[:] = before
    sys.modules.pop(path.stem, None)


def refusal(*words: str) -> str:
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 2
    return result.stderr


def test_a_wrong_name_in_the_arguments(file: Path) -> None:
    assert refusal("flow", "start", str(file), "--", "bad/na me", "shop").startswith(
        "Error: the manager's name: must not contain '/'"
    )


def test_options_of_runs_beside_a_manager(file: Path) -> None:
    create = ("schedule", "create", "s", "--every", "1h", "--manager", str(file))
    assert refusal(*create, "--", "one", "shop", "--colour", "x") == (
        "Error: MANAGER_ARGUMENTS: unrecognized arguments: --colour x\n"
    )
    assert refusal(*create, "--tasks", "3", "--", "one", "shop") == (
        "Error: --tasks: is for a run; the crawls of a manager have their own options\n"
    )


@pytest.mark.usefixtures("state_url")
def test_attempts_are_no_csv(file: Path, typed: Crawlctl, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEMPORAL_ADDRESS", "127.0.0.1:1")
    assert typed("flow", "start", str(file), "--id", "w", "--", "one", "shop").exit_code == 0
    refused = typed("flow", "jobs", "w/one", "--csv", "--attempts")
    assert (refused.exit_code, refused.stderr.startswith("Error: attempts are listed without --csv ")) == (2, True)
