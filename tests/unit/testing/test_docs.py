"""The Python code in the documents about flows runs as it stands there.

A block names its file in its first line. Blocks with the same name are parts of one file, in their order.
"""

import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[3] / "docs"
PAGES = ["tutorial/first-graph.md", "howto/test-flows.md"]


def files_of(page: Path) -> dict[str, str]:
    files: dict[str, str] = {}
    for block in re.findall(r"^```python\n(.*?)^```", page.read_text(), re.M | re.S):
        name, _, code = block.partition("\n")
        assert re.fullmatch(r"# \w+\.py", name), f"a block without the name of its file: {block[:100]}"
        files[name[2:]] = files.get(name[2:], "") + code + "\n"
    return files


@pytest.mark.parametrize("page", PAGES)
def test_the_code_of_a_page_runs(page: str, tmp_path: Path) -> None:
    files = files_of(DOCS / page)
    for name, code in files.items():
        (tmp_path / name).write_text(code)
    expected = sum(len(re.findall(r"^def test_", code, re.M)) for code in files.values())
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stdout
    assert f"{expected} passed" in done.stdout


def test_the_pictures_text_is_the_graphs(tmp_path: Path) -> None:
    page = DOCS / "tutorial" / "first-graph.md"
    (tmp_path / "my_graph.py").write_text(files_of(page)["my_graph.py"])
    code = "from my_graph import workflow; print(workflow().to_mermaid())"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout in page.read_text()
