"""An error in an author's file gave the whole traceback of crawlctl, through the command line's library.

A wrong id of a flow gave 45 lines of pydantic.
"""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from crawler_lifecycle.flows.authors.modules import authors_traceback
from tests.kit.service.commands import Crawlctl

pytestmark = pytest.mark.regression(
    "An error in an author's file gave the whole traceback of crawlctl, through the command line's library"
)

FUNCTION = """
def workflow():
    numbers = {}
    return numbers["absent"]
"""
GRAPH = """
from crawler_lifecycle.flows import Workflow

nightly = Workflow("nightly", id="nightly").add("load", print)
"""
MANAGER = """
from crawler_lifecycle.managers import GeneratorCrawlManager


class Shops(GeneratorCrawlManager):
    name = "shops"
    spider = "books"
    PROGRAMS = {"all": {"command_line": ["--spider-args", '{"a": 1}']}}

    def set_parameters_gen(self):
        yield {"shop": "one"}
        raise ValueError("no second shop")
"""
CONSTRUCTOR = """
from crawler_lifecycle.managers import CrawlManager


class Shops(CrawlManager):
    name = "shops"
    spider = "books"

    def __init__(self):
        super().__init__()
        self.fill()

    def fill(self):
        raise ValueError("no shops")
"""
WITHOUT_GENERATOR = """
from crawler_lifecycle.managers import GeneratorCrawlManager


class Shops(GeneratorCrawlManager):
    name = "shops"
    spider = "books"
"""


@pytest.fixture
def write(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """Write an author's file, whose module is forgotten after the test."""
    before, path = list(sys.path), tmp_path / "errors_of_an_author.py"

    def written(text: str) -> Path:
        path.write_text(text)
        return path

    yield written
    sys.path[:] = before
    sys.modules.pop(path.stem, None)


@pytest.mark.parametrize("command", ["push", "graph", "run"])
def test_a_function_that_raises_is_a_line(crawlctl: Crawlctl, write: Callable[[str], Path], command: str) -> None:
    file = write(FUNCTION)
    result = crawlctl("flow", command, str(file))
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == f"Error: workflow(): KeyError: 'absent' ({file}, line 4)\n"


@pytest.mark.parametrize("command", ["check", "start", "run"])
def test_a_constructor_that_raises_names_its_place(
    crawlctl: Crawlctl, write: Callable[[str], Path], command: str
) -> None:
    file = write(CONSTRUCTOR)
    result = crawlctl("flow", command, str(file))
    assert (result.exit_code, result.stdout) == (2, "")
    first, *frames = result.stderr.splitlines()
    assert first == f"Error: Shops: ValueError: no shops ({file}, line 14)"
    assert [line for line in frames if "File" in line] == [
        f'  File "{file}", line 11, in __init__',
        f'  File "{file}", line 14, in fill',
    ]


def test_a_generator_that_raises_ends_the_preview(crawlctl: Crawlctl, write: Callable[[str], Path]) -> None:
    file = write(MANAGER)
    result = crawlctl("flow", "check", str(file))
    assert result.exit_code == 2
    first, second, *_ = result.stdout.splitlines()
    assert first == "manager shops: 1 input read, 1 job, 0 duplicates skipped, 0 refused before an error"
    assert second == "  1  books  shop=one"
    lines = result.stderr.splitlines()
    assert lines[0] == f"Error: Shops: ValueError: no second shop ({file}, line 12)"
    assert len(lines) == 3, "the author's frame alone"
    answer = crawlctl("flow", "check", str(file), "--json")
    assert json.loads(answer.stdout)["preview"]["problem"].startswith("Shops: ValueError: no second shop")


def test_a_missing_generator_names_the_class(crawlctl: Crawlctl, write: Callable[[str], Path]) -> None:
    file = write(WITHOUT_GENERATOR)
    result = crawlctl("flow", "check", str(file))
    assert (result.exit_code, result.stderr) == (
        2,
        f"Error: Shops: NotImplementedError: Shops has to define set_parameters_gen ({file}, line 5)\n",
    )


@pytest.mark.parametrize("braces", ['{"a": 1}', "{", "{}", "{a.b}"])
def test_braces_in_a_program_are_a_line(crawlctl: Crawlctl, write: Callable[[str], Path], braces: str) -> None:
    file = str(write(MANAGER.replace('{"a": 1}', braces)))
    for command in ("check", "start", "run"):
        result = crawlctl("flow", command, file, "--", "-g", "all", "-v", "a:1")
        assert (result.exit_code, len(result.stderr.splitlines())) == (2, 1), command
        assert "program 'all': write braces that stand for themselves twice, {{ and }}: " in result.stderr


def test_a_wrong_id_is_a_line(crawlctl: Crawlctl, write: Callable[[str], Path]) -> None:
    graph = str(write(GRAPH))
    for command in ("push", "run"):
        for flow_id in ("", "x" * 300):
            result = crawlctl("flow", command, graph, "--id", flow_id)
            assert (result.exit_code, len(result.stderr.splitlines())) == (2, 1), command
            assert result.stderr.startswith("Error: --id: ")


@pytest.mark.parametrize("flow_id", ["", "x" * 126, "x" * 300])
def test_a_wrong_id_of_a_manager_is_a_line(crawlctl: Crawlctl, write: Callable[[str], Path], flow_id: str) -> None:
    file = str(write(MANAGER))
    for words in (
        ("start", file),
        ("run", file),
        ("push", file),
        ("start", "nobody.has_this:Shops", "--name", "shops"),
    ):
        result = crawlctl("flow", *words, "--id", flow_id)
        assert (result.exit_code, len(result.stderr.splitlines())) == (2, 1), words
        assert result.stderr.startswith("Error: --id: ")


def test_a_traceback_for_an_author_has_the_own_frames(write: Callable[[str], Path]) -> None:
    from crawler_lifecycle.flows.authors.modules import load

    (module,) = load([str(write(FUNCTION))]).modules.values()
    with pytest.raises(KeyError) as failure:
        module.workflow()
    text = authors_traceback(failure.value)
    assert "line 4, in workflow" in text
    assert text.startswith("Traceback")


def test_the_help_of_a_manager_has_its_programs(crawlctl: Crawlctl, write: Callable[[str], Path]) -> None:
    result = crawlctl("flow", "check", str(write(MANAGER)), "--", "--help")
    assert result.exit_code == 0
    words = " ".join(result.stdout.split())
    assert words.startswith("usage: shops [-h]")
    assert "-g PROGRAM, --program PROGRAM: begin with the arguments of a program: all. -v NAME:VALUE" in words
