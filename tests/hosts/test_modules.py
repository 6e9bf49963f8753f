"""Modules of a host: how they are imported, which functions are found, and the line about a module that does not."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from crawler_lifecycle.database.database import Database
from crawler_lifecycle.errors import NotReady
from crawler_lifecycle.flows import Workflow
from crawler_lifecycle.flows.authors.modules import load
from crawler_lifecycle.hosts.host import code_version
from crawler_lifecycle.stack.plan import StepModules
from tests.hosts import authors
from tests.hosts.supervised import hosted
from tests.kit.service.embedded import CRAWLCTL

MODULE = authors.__name__


def test_functions_and_classes_of_a_module_are_found() -> None:
    modules = load([MODULE])
    assert modules.names == [MODULE]
    assert modules.function(f"{MODULE}:extract") is authors.extract
    assert modules.function(f"{MODULE}:Mailer") is authors.Mailer


@pytest.mark.parametrize("reference", [f"{MODULE}:gone", f"{MODULE}:Path", f"{MODULE}:not_a_function", "os:remove"])
def test_further_names_are_not_found(reference: str) -> None:
    assert load([MODULE]).function(reference) is None


def test_a_file_has_its_own_name_and_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "beside_the_flow.py").write_text("WORD = 'beside'")
    file = tmp_path / "flow_in_a_file.py"
    file.write_text(
        "from beside_the_flow import WORD\ndef say(): return WORD\nif __name__ == '__main__': raise SystemExit(9)"
    )
    say = load([str(file)]).function("flow_in_a_file:say")
    assert say is not None
    assert say() == "beside"


FILE = """
import os
def leave(context): os.chdir("/")
def where(context): return os.getcwd()
"""


@pytest.mark.long
async def test_a_changed_working_directory_reaches_no_isolated_step(
    flows_database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host that was started with a relative file starts its processes where it was started itself."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "flow_that_leaves.py").write_text(FILE)
    monkeypatch.chdir(tmp_path)
    modules = load(["flow_that_leaves.py"])
    leave: Any
    where: Any
    leave, where = (modules.function(f"flow_that_leaves:{name}") for name in ("leave", "where"))
    workflow = Workflow("leaves").add_cascade("leave", leave).add_cascade("where", where, deps="leave", isolate=True)
    async with hosted(flows_database, modules=modules) as host:
        flow = await host.play(workflow)
        assert await host.result(flow, "where") == str(tmp_path)
        (tmp_path / "flow_that_leaves.py").unlink()
        gone = await host.play(Workflow("gone").add_cascade("where", where, isolate=True))
    assert gone.row("where").state == "discarded"
    assert (gone.row("where").reason or "").endswith("flow_that_leaves.py: no such file"), "people learn the reason"


def test_a_version_tells_changed_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    beside, file = tmp_path / "beside_the_version.py", tmp_path / "flow_with_a_version.py"
    beside.write_text("WORD = 'one'")
    file.write_text("import beside_the_version, json")
    modules = load([str(file)])
    first = code_version(modules)
    assert len(first) == 12
    (tmp_path / "not_imported.py").write_text("")
    assert code_version(modules) == first
    beside.write_text("WORD = 'two'")
    second = code_version(modules)
    file.write_text("import beside_the_version")
    assert len({first, second, code_version(modules), code_version(load([MODULE]))}) == 4


def test_a_file_with_the_name_of_a_known_module_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "json.py"
    file.write_text("")
    with pytest.raises(NotReady, match="another module has the name json already; rename the file"):
        load([str(file)])


@pytest.mark.parametrize("target", ["my-flows", "a/b", "", "a..b"])
def test_a_target_that_is_no_name_is_refused(target: str) -> None:
    with pytest.raises(NotReady):
        load([target])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "no such file"),
        ("import no_such_module", "cannot be imported: ModuleNotFoundError: No module named 'no_such_module'"),
        ("def broken(:\n", "cannot be imported: SyntaxError"),
        ("raise SystemExit(0)", "cannot be imported: SystemExit: 0"),
        ("x = 1\n\nraise ValueError('two\\nlines')", "ValueError: two lines"),
    ],
)
def test_the_cause_of_a_failed_import_is_one_line(tmp_path: Path, text: str | None, words: str) -> None:
    path = tmp_path / "broken_module.py"
    if text is not None:
        path.write_text(text)
    with pytest.raises(NotReady) as raised:
        load([str(path)])
    assert words in raised.value.message
    assert len(raised.value.message.splitlines()) == 1
    assert "broken_module" not in sys.modules


@pytest.mark.long
def test_a_broken_module_beside_another_is_kept_with_its_problem_until_it_is_mended(tmp_path: Path) -> None:
    path = tmp_path / "broken_beside_another.py"
    path.write_text("x = (\n")
    modules = load([MODULE, str(path)])
    assert modules.names == [MODULE, "broken_beside_another"]
    assert "SyntaxError: '(' was never closed (broken_beside_another.py, line 1)" in modules.broken[path.stem]
    assert modules.mended() is None
    path.write_text("x = 1\n")
    assert modules.mended() == str(path)


@pytest.mark.long
def test_a_repair_of_an_imported_file_mends_its_importer(tmp_path: Path) -> None:
    path, imported = tmp_path / "importer.py", tmp_path / "imported_by_importer.py"
    path.write_text("from imported_by_importer import late\n")
    imported.write_text("early = 1\n")
    modules = load([MODULE, str(path)])
    assert "cannot import name 'late'" in modules.broken[path.stem]
    imported.write_text("early = late = 1\n")
    assert modules.mended() == str(path)
    assert path.stem not in sys.modules, "the host keeps its modules"
    del sys.modules[imported.stem]


def test_a_refused_graph_names_the_line_in_the_authors_file(tmp_path: Path) -> None:
    path = tmp_path / "broken_graph.py"
    path.write_text("from crawler_lifecycle.flows import Workflow\n\nWorkflow().add('a', lambda context: 1)\n")
    with pytest.raises(NotReady) as raised:
        load([str(path)])
    assert raised.value.message == (
        f"{path} cannot be imported: job of 'a': <lambda> has no name: a step is a function at the top level of a "
        f"module ({path}, line 3)"
    )


def test_a_push_at_the_top_level_is_told_with_its_line(tmp_path: Path) -> None:
    """Programs that came from elsewhere often push without `if __name__ == "__main__"`."""
    path = tmp_path / "pushing_graph.py"
    path.write_text("from crawler_lifecycle.client import flows\n\nflows.enqueue_many(None)\n")
    with pytest.raises(NotReady) as raised:
        load([str(path)])
    assert raised.value.message.startswith(f"{path} cannot be imported: no client for flows is open here")
    assert raised.value.message.endswith(f"({path}, line 3)")


def test_a_host_with_a_broken_module_ends_with_one_line(tmp_path: Path) -> None:
    path = tmp_path / "broken_module.py"
    path.write_text("x = 1\nraise ValueError('no shop')")
    ended = subprocess.run([*CRAWLCTL, "host", str(path)], capture_output=True, text=True, timeout=60)
    assert ended.returncode == 4
    assert ended.stderr == f"Error: {path} cannot be imported: ValueError: no shop ({path}, line 2)\n"


def test_the_stacks_host_gets_absolute_paths_and_the_folder_for_modules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert StepModules(("flow.py",)).options == [str(tmp_path / "flow.py"), "--queue", "default"]
    module = StepModules(("my.flows", "dir/flow.py"), ("a", "b"))
    assert module.options == [
        *("my.flows", str(tmp_path / "dir" / "flow.py"), "--queue", "a", "--queue", "b", "--folder", str(tmp_path))
    ]
    assert module.routes == ["a|my.flows|", "a|flow|", "b|my.flows|", "b|flow|"]
