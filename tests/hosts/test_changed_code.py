"""The author's code changes between a push and a retry: another host has another version of the same module."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from crawler_lifecycle.database.database import Database
from crawler_lifecycle.flows import Workflow
from crawler_lifecycle.flows.authors.modules import Modules, load
from tests.hosts.supervised import hosted

FIRST = """
def book(context):
    return {"title": "Dune"}

def sign(book):
    raise LookupError("no pen")
"""
SECOND = """
from pydantic import BaseModel

class Book(BaseModel):
    title: str
    year: int{default}

def book(context):
    raise AssertionError("runs once")

def sign(book: Book):
    return f"{{book.title}}, {{book.year}}"
"""
Load = Callable[[str], Modules]


@pytest.fixture
def version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Load:
    """Load a version of the module, as a process of its own does."""
    path = tmp_path / "book_steps.py"
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def loaded(text: str) -> Modules:
        path.write_text(text)
        monkeypatch.delitem(sys.modules, "book_steps", raising=False)
        return load([str(path)])

    return loaded


async def test_a_retry_calls_the_changed_function_with_results_of_the_former_code(
    flows_database: Database, version: Load
) -> None:
    async with hosted(flows_database, modules=version(FIRST)) as host:
        steps = sys.modules["book_steps"]
        flow = await host.play(Workflow("w").add_cascade("book", steps.book).add("sign", steps.sign, deps="book"))
        assert flow.states == {"book": "completed", "sign": "discarded"}
    flow.retry("sign")
    async with hosted(flows_database, modules=version(SECOND.format(default=" = 1965"))) as host:
        await host.go_on(flow)
        assert await host.result(flow, "sign") == "Dune, 1965"
    attempts = flow.store.flow_records.attempts(flow.id, flow.row("sign").number)
    assert len({attempt.code_version for attempt in attempts}) == 2


async def test_a_result_that_the_changed_code_does_not_accept_fails_its_reader(
    flows_database: Database, version: Load
) -> None:
    async with hosted(flows_database, modules=version(FIRST)) as host:
        steps = sys.modules["book_steps"]
        flow = await host.play(Workflow("w").add_cascade("book", steps.book).add("sign", steps.sign, deps="book"))
    flow.retry("sign")
    async with hosted(flows_database, modules=version(SECOND.format(default=""))) as host:
        await host.go_on(flow)
    assert flow.states == {"book": "completed", "sign": "discarded"}
    last = flow.store.flow_records.attempts(flow.id, flow.row("sign").number)[-1]
    assert "1 validation error for Book\nyear\n  Field required" in (last.error or "")
