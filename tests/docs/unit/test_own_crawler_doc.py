"""The crawlers in docs/howto/own-crawler.md are whole: they crawl as they stand there, and their catalogue is valid."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from crawler_lifecycle.clusters.adapters.catalogue import Catalogue, problems_of
from tests.docs.pages import DOCS

PAGE = (DOCS / "howto" / "own-crawler.md").read_text()
sys.path.append(str(DOCS.parent / "examples"))


@pytest.fixture
def site() -> Iterator[str]:
    from bookshop_site import make_server  # type: ignore[import-not-found]

    with make_server() as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The files of the page, by the names in their first lines."""
    for code in re.findall(
        r"^```(?:python|sh|toml)\n(# [\w-]+\.(?:py|sh|toml)\n.*?)^```", PAGE, re.DOTALL | re.MULTILINE
    ):
        (tmp_path / code[2:].partition("\n")[0]).write_text(code)
    (tmp_path / "files").mkdir()
    return tmp_path


def crawl(folder: Path, crawler: str, **more: str) -> None:
    entry = Catalogue.load(folder / "my-crawlers.toml").entry(crawler)
    files = {"CRAWL_FILES": str(folder / "files"), "CRAWL_RESULT": str(folder / "result.json")}
    variables = {"CRAWL_TASK": "0", "CRAWL_TASKS": "1", **files, **entry.environment, **more}
    done = subprocess.run(
        entry.command, env={**os.environ, **variables}, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr


def test_the_catalogue_is_valid(folder: Path) -> None:
    assert problems_of(folder / "my-crawlers.toml") == []


@pytest.mark.long
def test_the_spider_of_twelve_lines_crawls(folder: Path, site: str) -> None:
    crawl(folder, "quotes", CRAWL_ARGUMENTS=json.dumps({"site": site}))
    items = (folder / "files" / "items-0.jsonl").read_text().splitlines()
    assert {"link": "/list/1"} in [json.loads(item) for item in items]
    code = [line for line in (folder / "quotes.py").read_text().splitlines()[1:] if line]
    assert len(code) == 12


def test_the_crawler_of_five_lines_crawls(folder: Path, site: str) -> None:
    crawl(folder, "front-page", SITE=site)
    assert "<h1>Bookshop</h1>" in (folder / "files" / "page-0.html").read_text()
    assert json.loads((folder / "result.json").read_text())["stats"] == {"pages": 1}
    assert len((folder / "front_page.sh").read_text().splitlines()) == 5


def test_the_fields_of_the_catalogue_are_those_of_an_entry() -> None:
    """The fields stood in own-scheduler.md alone."""
    table = PAGE[PAGE.index("| field | meaning |") : PAGE.index("crawlctl crawlers --check")]
    fields = {
        name for row in re.findall(r"^\| (`[^|]*) \|", table, re.MULTILINE) for name in re.findall(r"`(\w+)`", row)
    }
    from crawler_lifecycle.model.deployment import Crawler

    assert fields == set(Crawler.model_fields) - {"name"}
