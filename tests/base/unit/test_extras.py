"""What an author installs without extras is enough for flows and managers, and a missing extra is one line."""

import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from click.testing import CliRunner

from crawler_lifecycle.cli.program import main
from crawler_lifecycle.extras import EXTRAS
from tests.kit.samples import few

PROJECT = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
LEFT_OUT = {library for libraries in EXTRAS.values() for library in libraries}
OF_AUTHORS = [
    *("flows", "managers", "client", "cli.program"),
    *("compat.shub", "compat.chancy", "compat.oban", "compat.oban_pro"),
]
WITHOUT_EXTRAS = f"""
import sys

class Installed:
    finders = list(sys.meta_path)

    @classmethod
    def find_spec(cls, name, path, target=None):
        if name.partition(".")[0] not in {sorted(LEFT_OUT)!r}:
            return next(filter(None, (each.find_spec(name, path, target) for each in cls.finders)), None)

sys.meta_path[:] = [Installed]
"""


def without_extras(code: str, *arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-c", WITHOUT_EXTRAS + code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env=os.environ | environment)


@pytest.mark.long
def test_every_library_belongs_to_its_extra() -> None:
    distributions = packages_distributions()
    for extra, libraries in EXTRAS.items():
        named = {name.lower().replace("_", "-") for library in libraries for name in distributions[library]}
        required = {re.split(r"[>\[]", name)[0] for name in PROJECT["optional-dependencies"][extra]}
        assert required <= named, extra
        assert named - required <= {"botocore", "starlette"}, "libraries of our libraries"


@pytest.mark.parametrize("module", few(OF_AUTHORS, ["flows", "managers", "cli.program"], pytest.mark.long))
def test_authors_need_no_extra(module: str) -> None:
    done = without_extras(f"import crawler_lifecycle.{module}")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("command", ["doctor", "up", "demo", "db upgrade", "host my_flows"])
@pytest.mark.long
def test_a_command_names_the_missing_extra(command: str, tmp_path: Path) -> None:
    code = "from crawler_lifecycle.cli.__main__ import run\nsys.exit(run())"
    done = without_extras(code, *command.split(), CRAWLER_STATE=str(tmp_path))
    assert done.returncode == 4, done.stderr
    (line,) = done.stderr.splitlines()
    assert "is not installed: pip install 'crawler-lifecycle[server]'" in line


def test_the_demo_names_the_extra_with_its_crawl(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(EXTRAS, "examples", ("no_such_library",))
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    done = CliRunner().invoke(main, ["demo"])
    assert done.exit_code == 4
    assert done.stderr == "Error: no_such_library is not installed: pip install 'crawler-lifecycle[examples]'\n"


@pytest.mark.parametrize("module", ["workers.lifecycle", "crawler_lifecycle.testing"])
def test_a_module_names_the_missing_extra_in_one_line(module: str) -> None:
    done = without_extras(f"import {module}")
    assert done.returncode == 1
    assert re.fullmatch(r"Error: \w+ is not installed: pip install 'crawler-lifecycle\[server\]'\n", done.stderr)


def test_only_a_missing_extra_ends_without_a_traceback() -> None:
    attempt = "try:\n    import crawler_lifecycle.testing\nexcept ImportError as error:\n    print(error.name)\n"
    done = without_extras(attempt + "raise ImportError('another')")
    assert done.stdout == "alembic\n"
    assert done.stderr.startswith("Traceback")
    assert done.stderr.endswith("ImportError: another\n")


@pytest.mark.parametrize(
    "test", ["from crawler_lifecycle.testing import Play\n", "def test_on_a_stack(flows):\n    pass\n"]
)
@pytest.mark.long
def test_tests_of_flows_name_the_missing_extra_in_one_line(test: str, tmp_path: Path) -> None:
    """pytest showed a traceback through the service's modules."""
    (tmp_path / "test_flows.py").write_text(test)
    plugins = ["-p", "crawler_lifecycle.pytest_flows", "-p", "no:cacheprovider"]
    arguments = ["-q", "-c", "/dev/null", "--rootdir", str(tmp_path), *plugins, str(tmp_path)]
    done = without_extras(f"import pytest\nsys.exit(pytest.main({arguments!r}))")
    (line, *_) = [line for line in done.stdout.splitlines() if "crawler-lifecycle" in line]
    assert re.fullmatch(r"\w+ is not installed: pip install 'crawler-lifecycle\[server\]'", line)
    assert "extras.py" not in done.stdout
