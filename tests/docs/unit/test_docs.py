"""The code in the documents runs as it stands there, and the commands, files and modules that they name exist.

On the pages for authors a block names its file in its first line; blocks with the same name are parts of one file, in
their order. A block of Python that cannot run here stands behind a comment `<!-- not run: REASON -->`. `NOT_RUN` has
the reasons for commands of other programs.
"""

import argparse
import ast
import json
import re
import runpy
import shlex
import subprocess
import sys
import textwrap
import tomllib
from collections.abc import Callable
from contextlib import nullcontext
from importlib import import_module
from importlib.util import find_spec
from itertools import takewhile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest
import yaml

from crawler_lifecycle.cli.program import main
from crawler_lifecycle.client import WorkflowPlugin
from crawler_lifecycle.flows import Workflow
from crawler_lifecycle.testing import MemoryFlows, completed, failed, killed_by_oom, run_inline
from tests.docs.pages import DOCS, files_of
from tests.kit.authors import steps

PAGES = [
    "tutorial/first-graph.md",
    "howto/flows.md",
    "howto/host-steps.md",
    "howto/test-flows.md",
    "howto/test-managers.md",
    "howto/manager-rules.md",
]
RUN_AS_FILES = [*PAGES, "howto/flows-from-chancy-and-oban.md", "howto/own-crawler.md"]  # test_own_crawler_doc.py
ALL_PAGES = sorted([*DOCS.parent.glob("*.md"), *DOCS.rglob("*.md")])
FENCE = re.compile(r"^ *```(\w*)\n(.*?)^ *```$", re.M | re.S)
PYTHON = re.compile(r"^(?: *<!-- not run: (.+) -->\n)? *```python\n(.*?)^ *```$", re.M | re.S)
NOT_RUN = {
    "aws": "needs an account of Amazon; tests/triggers has the queues by moto",
    "curl": "needs a running API; tests/*/test_api_*.py have the requests",
    "docker": "builds images; tests/deploy reads the Dockerfile",
    "kubectl": "needs a cluster; tests/kubernetes/test_howto.py types the page about it",
    "temporal": "needs a server; tests/process/test_control_example.py and tests/kubernetes/test_howto.py call it",
    **dict.fromkeys(["cd", "echo", "eval", "export", "kill", "pgrep", "sed", "set", "tail"], "the shell's own work"),
}
TRIED = {"crawlctl", "make", "python", "pytest"}  # the words after them are compared with the code
ROOT = DOCS.parent
MAKEFILE = (ROOT / "Makefile").read_text()
ABOUT_CODE = [
    path for path in ALL_PAGES if path.parent.name in ("decisions", "internals") or path.parent in (ROOT, DOCS)
]
READ: dict[str, Callable[[str], Any]] = {
    "python": ast.parse,
    "json": json.loads,
    "toml": tomllib.loads,
    "yaml": lambda code: list(yaml.safe_load_all(code)),
}
DOORS = DOCS / "howto" / "flows.md"
PORTS = DOCS / "howto" / "flows-from-chancy-and-oban.md"
INSIDE_OF_CHANCY = ["process_workflow", "get_scope", "migrate_key", "migrate_package", "api_plugin", "run"]


@pytest.mark.timeout(360)
@pytest.mark.parametrize("page", PAGES)
@pytest.mark.long
def test_the_code_of_a_page_runs(page: str, tmp_path: Path) -> None:
    files = files_of(DOCS / page)
    files.pop("test_on_a_stack.py", None)  # tests/process/test_flows_fixture.py
    modules = [Path(name).stem for name in files if not name.startswith("test_")]
    files["test_imports.py"] = "".join(f"def test_{name}():\n    import {name}\n\n\n" for name in modules)
    for name, code in files.items():
        (tmp_path / name).write_text(code)
    expected = sum(len(re.findall(r"^def test_", code, re.M)) for code in files.values())
    assert expected
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout
    assert f"{expected} passed" in done.stdout


def test_the_pictures_text_is_the_graphs(tmp_path: Path) -> None:
    page = DOCS / "tutorial" / "first-graph.md"
    (tmp_path / "my_graph.py").write_text(files_of(page)["my_graph.py"])
    code = "from my_graph import workflow; print(workflow().to_mermaid())"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.rstrip() in page.read_text()


def commands() -> set[str]:
    """Return the commands in code blocks and sentences of all pages but decisions, and the verbs of doors."""
    lines = verbs_of_doors()
    for page in (path for path in ALL_PAGES if "decisions" not in path.parts):
        blocks, sentences = FENCE.findall(page.read_text()), FENCE.sub("", page.read_text())
        shell = "\n".join(code for kind, code in blocks if kind in ("", "sh")).replace("\\\n", " ")
        codes = re.findall(r"^(?:.*[ /])?(crawlctl [a-z-].*)", shell, re.M) + re.findall(
            r"`(crawlctl\s[^`]+)`", sentences
        )
        lines |= {" ".join(re.split(r"[#|>&;]", code)[0].split()) for code in codes}
    return lines


def verbs_of_doors() -> set[str]:
    """Return the commands in the tables of doors, without brackets. The tables leave `crawlctl flow` out."""
    rows = [line.split("|") for line in DOORS.read_text().splitlines() if line.startswith("| ")]
    verbs = [code for row in rows for code in re.findall(r"`([a-z]+(?: [^`]+)?)`", row[3])]
    flow = main.get_command(click.Context(main), "flow")
    assert isinstance(flow, click.Group)
    return {
        "crawlctl flow " + re.sub(r"\.\.\.|[\[\],]", " ", verb) for verb in verbs if verb.split()[0] in flow.commands
    }


@pytest.mark.parametrize("line", sorted(commands()))
def test_a_command_of_a_page_has_its_options(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files need not exist. `crawlctl resume --reopen` and the like in a sentence name an option without its value."""
    monkeypatch.setattr(click.Path, "convert", lambda self, value, param, ctx: value)
    _, *words = shlex.split(line)
    command: click.Command = main
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        name, *words = words
        inner = command.get_command(click.Context(command), name)
        assert inner is not None, name
        command = inner
    context = click.Context(command)
    if len(words) == 1 and words[0].startswith("-"):
        assert words[0] in {name for option in command.get_params(context) for name in option.opts}
    elif words:  # a command alone is a name in a sentence
        assert command.make_context(command.name, words).args == []


@pytest.mark.parametrize("page", ALL_PAGES, ids=lambda path: str(path.relative_to(DOCS.parent)))
def test_the_blocks_of_a_page_can_be_read_and_name_modules_that_exist(page: Path) -> None:
    blocks = [(kind, textwrap.dedent(code)) for kind, code in FENCE.findall(page.read_text())]
    own = {name for _, code in blocks for name in re.findall(r"^# (\w+)\.py\n", code)}
    for kind, code in blocks:
        READ.get(kind, str)(code)
        for node in ast.walk(ast.parse(code if kind == "python" else "")):
            if isinstance(node, ast.ImportFrom) and node.module not in own:
                module = import_module(str(node.module))
                missing = [name.name for name in node.names if not hasattr(module, name.name)]
                assert [name for name in missing if find_spec(f"{node.module}.{name}") is None] == []
            elif isinstance(node, ast.Import):
                assert [name.name for name in node.names if name.name not in own and not find_spec(name.name)] == []


def in_words(text: str) -> list[list[str]]:
    """Return the words of the commands in the blocks of a page. A block that begins with another word is output."""
    commands = []
    for kind, code in FENCE.findall(text):
        lines = textwrap.dedent(code).replace("\\\n", " ").splitlines()
        typed = [line[2:] for line in lines if line.startswith("$ ")] or lines
        if kind == "sh" or (kind == "" and (typed is not lines or program_of(lines[0].split()) in {*NOT_RUN, *TRIED})):
            commands += words_of(typed)
    return commands


def words_of(lines: list[str]) -> list[list[str]]:
    """Split lines into words, without comments. A quoted text may go over several lines."""
    commands, open_line = [], ""
    for line in lines:
        try:
            words = shlex.split(open_line + line, comments=True)
        except ValueError:
            open_line += line + "\n"
        else:
            open_line = ""
            commands += [words] if words else []
    assert not open_line, f"a quote is not closed: {open_line}"
    return commands


def program_of(words: list[str]) -> str:
    """Return the program in the words of a command: the first that assigns no variable; none of an assignment."""
    return next((Path(word).name for word in words if not re.match(r"\w+=", word)), "")


def named(page: Path) -> str:
    return str(page.relative_to(ROOT))


def own_programs() -> set[tuple[str, ...]]:
    """Return the words after `python -m` in code blocks and sentences of all pages, of programs in this repository."""
    found = set[tuple[str, ...]]()
    for text in (page.read_text() for page in ALL_PAGES):
        sentences = re.findall(r"`((?:[A-Z_]+=\S+ )*python\s-m\s[^`]+)`", FENCE.sub("", text))
        for words in [*in_words(text), *map(shlex.split, sentences)]:
            if program_of(words) == "python" and "-m" in words:
                own = words[words.index("-m") + 1 :]
                found.add(tuple(takewhile(lambda word: word not in ("|", ">", "&"), own)))
    return {own for own in found if (ROOT / own[0].partition(".")[0]).is_dir()}


class Parsed(Exception):
    """A program has accepted its words."""


@pytest.mark.parametrize("line", sorted(own_programs()), ids=" ".join)
def test_a_program_of_a_page_has_its_options(line: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """The program parses its words, and does not run. A program alone is a name in a sentence."""
    module, *words = line
    assert find_spec(module)
    if not words:
        return
    parse = argparse.ArgumentParser.parse_args

    def parse_only(parser: argparse.ArgumentParser, args: list[str] | None = None, *_: Any) -> None:
        parse(parser, args)
        raise Parsed

    def read_only(command: click.Command, *_: Any, **__: Any) -> None:
        command.make_context(module, words)
        raise Parsed

    monkeypatch.setattr(sys, "argv", [module, *words])
    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", parse_only)
    monkeypatch.setattr(click.Command, "main", read_only)
    monkeypatch.setattr(click.Command, "__call__", read_only)
    with pytest.raises(Parsed):
        runpy.run_module(module, run_name="__main__")


@pytest.mark.parametrize("page", ALL_PAGES, ids=named)
def test_the_commands_of_a_page_exist(page: Path) -> None:
    text = page.read_text()
    for words in in_words(text):
        program = program_of(words)
        assert program in {"", *NOT_RUN, *TRIED}, f"{program}: a program without a reason why it is not run"
        arguments = [word for word in words if Path(word).name != program]
        if program == "python" and arguments[:1] == ["-m"]:
            assert find_spec(arguments[1]), words
        places = [word for word in arguments if re.match(r"(bench|deploy|docs|examples|tests)/", word)]
        assert [place for place in places if not (ROOT / place).exists()] == [], words
    goals = [words for words in in_words(text) if program_of(words) == "make"]
    goals += [code.split() for code in re.findall(r"`(make [^`]+)`", text)]
    for goal in (word for words in goals for word in words[words.index("make") + 1 :]):
        known = rf"\b{goal.partition('=')[0]}\)" if "=" in goal else rf"^{goal}:"
        assert re.search(known, MAKEFILE, re.M), f"make {goal}"


@pytest.mark.parametrize("page", [page for page in ALL_PAGES if PYTHON.search(page.read_text())], ids=named)
def test_a_block_of_python_runs_or_says_why_not(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = [] if named(page).removeprefix("docs/") in RUN_AS_FILES else PYTHON.findall(page.read_text())
    for reason, code in blocks:
        if not reason:
            exec(compile(textwrap.dedent(code), str(page), "exec"), {"__name__": "block"})


@pytest.mark.parametrize("page", ABOUT_CODE, ids=named)
def test_the_files_that_a_page_names_exist(page: Path) -> None:
    """A path begins in the repository or in the package. Capital letters stand for any name."""
    text = FENCE.sub("", page.read_text())
    folders = [ROOT, ROOT / "crawler_lifecycle"]
    firsts = {path.name for folder in folders for path in folder.iterdir() if path.is_dir() and path.name[0].isalpha()}
    paths = re.findall(rf"`((?:{'|'.join(firsts - {'build'})})/[a-z_./-]+[a-z/])`", text)
    assert [path for path in paths if not any((folder / path).exists() for folder in folders)] == []


def test_083_the_page_says_who_does_what_chancys_plugin_does_elsewhere() -> None:
    (line,) = [line for line in PORTS.read_text().splitlines() if "`process_workflow`" in line]
    assert [name for name in INSIDE_OF_CHANCY if f"`{name}`" not in line] == []
    assert [name for name in INSIDE_OF_CHANCY if not hasattr(WorkflowPlugin, name)] == []


async def test_the_ports_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("crawler_lifecycle.client.Flows", MemoryFlows)
    for name, code in files_of(PORTS).items():
        (tmp_path / name).write_text(code)
    await import_module("ported").main()
    assert capsys.readouterr().out.split() == ["Top", "Bottom"]
    result = run_inline(import_module("ported_too").workflow()).assert_completed()
    assert result.recorded("notify") == {"users": {"0": 1, "1": 2}}


async def test_the_code_of_the_page_of_doors_does_what_the_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    for name, code in files_of(DOORS).items():
        (tmp_path / name).write_text(code)
    update, arguments, banned_shop = map(import_module, ("update", "arguments", "banned_shop"))
    async with MemoryFlows.open() as flows:
        await flows.push(Workflow(id="nightly-2026-11-22").add("merge", steps.note))
        monkeypatch.setattr(update, "Flows", SimpleNamespace(open=lambda: nullcontext(flows)))
        await update.main()
    assert capsys.readouterr().out == "completed\n"
    merged = run_inline(arguments.workflow).assert_completed().recorded("merge")
    assert merged == "2 pages of 2026-11-22 for ann in en"
    ends = [failed("banned")] * 4 + [killed_by_oom(), completed()]
    shop = run_inline(banned_shop.workflow, crawls={"shop": ends}).assert_completed()
    requests = shop.requests["shop"]
    assert [request.get("arguments") for request in requests] == [None] + [{"slow": "yes"}] * 5
    assert [request.get("memory_factor") for request in requests] == [None] * 5 + [2]


def test_the_steps_of_the_page_of_hosts_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    for name, code in files_of(DOCS / "howto" / "host-steps.md").items():
        (tmp_path / name).write_text(code)
    workflow = import_module("words").workflow
    assert run_inline(workflow).assert_completed().recorded("load") == "4 words of 2026-11-22"
    assert run_inline(workflow, results={"count": 0}).states["load"] == "cancelled"


def test_the_pictures_of_the_layers_are_those_of_the_contracts() -> None:
    contracts = tomllib.loads((DOCS.parent / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    capabilities, layers = [[re.sub("[() ]", "", line) for line in contract["layers"]] for contract in contracts[:2]]
    pictures = re.findall(r"^```\n(.*?)\n```$", (DOCS.parent / "CONTRIBUTING.md").read_text(), re.MULTILINE | re.DOTALL)
    capabilities_shown, layers_shown = [picture.replace(" ", "").split("\n") for picture in pictures[:2]]
    assert (capabilities_shown, layers_shown) == (capabilities, layers)
