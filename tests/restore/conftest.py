"""A folder for a test's own stacks."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.process.crawls import end_all_of


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder for stacks; a failed test leaves no process in the folder."""
    yield tmp_path
    end_all_of(tmp_path)
