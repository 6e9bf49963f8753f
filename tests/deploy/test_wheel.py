"""The wheel alone, without a checkout, is enough for authors, who may have a package `workers` of their own."""

import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.deploy.dockerfile import CHECKOUT

pytestmark = [pytest.mark.process, pytest.mark.timeout(400)]
GRAPH = """
from crawler_lifecycle.flows import Workflow
from workers.steps import double

workflow = Workflow("own").add("double", double)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=CHECKOUT, check=True, capture_output=True, timeout=60)
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def program(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return `crawlctl` in a new environment with the wheel, and with the libraries that the tests have."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, symlinks=True)
    python = folder / "bin" / "python"
    install = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        str(python),
        "install",
        "--quiet",
        "--no-deps",
        "--no-index",
        str(wheel),
    ]
    subprocess.run(install, check=True, timeout=120)
    (packages,) = folder.glob("lib/*/site-packages")
    # a folder named in this file is searched, but its own such files are not read: the checkout stays unknown
    (packages / "libraries.pth").write_text(sysconfig.get_path("purelib"))
    return folder / "bin" / "crawlctl"


def called(program: Path, folder: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    """Call the program in an author's folder with a package `workers`."""
    (folder / "workers").mkdir()
    (folder / "workers" / "__init__.py").write_text("NAME = 'own'")
    (folder / "workers" / "steps.py").write_text("def double() -> int:\n    return 2\n")
    (folder / "graph.py").write_text(GRAPH)
    own = {
        name: value for name, value in os.environ.items() if not name.startswith(("CRAWLER_", "TEMPORAL_", "PYTHON"))
    }
    path = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "HOME": str(folder), "TMPDIR": str(folder)}
    return subprocess.run(
        [str(program), *words], cwd=folder, env=own | path, capture_output=True, text=True, timeout=300, check=False
    )


def test_it_has_the_package_and_nothing_beside_it(wheel: Path) -> None:
    with ZipFile(wheel) as archive:
        names = archive.namelist()
    assert {name.partition("/")[0] for name in names if ".dist-info/" not in name} == {"crawler_lifecycle"}
    assert {"crawler_lifecycle/py.typed", "crawler_lifecycle/web/page/index.html"} <= set(names)


@pytest.mark.long
def test_the_demo_runs(program: Path, tmp_path: Path) -> None:
    ended = called(program, tmp_path, "demo")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "60 items collected." in ended.stdout


@pytest.mark.long
def test_steps_in_an_authors_package_workers_run(program: Path, tmp_path: Path) -> None:
    """The host was a module of a package `workers`, which was the author's."""
    ended = called(program, tmp_path, "flow", "run", "graph.py", "--host", "workers.steps")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "completed" in ended.stdout
