"""Do the example crawlers do what they are there to show?"""

import json
import os
import runpy
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from crawler_lifecycle.model.crawl_results import read_result, summed

EXAMPLES = Path(__file__).parents[2] / "examples"
pytestmark = [pytest.mark.process, pytest.mark.system]


def start(script: str, *arguments: str, **environment: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, str(EXAMPLES / script), *arguments],
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def first_line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout
    return process.stdout.readline().strip()


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    process = start("bookshop_site.py")
    try:
        yield first_line(process)
    finally:
        process.kill()
        process.communicate(timeout=20)


def crawl(folder: Path, site: str, task: int = 0, tasks: int = 1, **environment: str) -> "subprocess.Popen[str]":
    return start(
        "bookshop_spider.py",
        CRAWL_TASK=str(task),
        CRAWL_TASKS=str(tasks),
        CRAWL_FILES=str(folder),
        CRAWL_ARGUMENTS=json.dumps({"site": site}),
        **environment,
    )


def result(process: "subprocess.Popen[str]") -> tuple[int, str]:
    try:
        told, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    return process.returncode, told


def test_four_tasks_together_collect_every_book_once(tmp_path: Path, site: str) -> None:
    folder = tmp_path / "run 100% #1"
    folder.mkdir()
    crawls = [crawl(folder, site, task, 4) for task in range(4)]
    results = [result(process) for process in crawls]
    assert [code for code, _ in results] == [0] * 4, results
    assert all("15 items collected" in told for _, told in results)
    items = [json.loads(line) for file in folder.glob("items-*.jsonl") for line in file.read_text().splitlines()]
    assert len(items) == 60
    assert {item["url"] for item in items} == {f"{site}/book/{number}" for number in range(1, 61)}
    assert all(item["title"] and item["price"] > 0 for item in items)


def test_the_scrapy_extension_writes_how_the_crawl_went(tmp_path: Path, site: str) -> None:
    account = tmp_path / "result.json"
    code, output = result(crawl(tmp_path, site, CRAWL_RESULT=str(account)))
    assert code == 0, output
    assert "Deprecat" not in output
    content, problem = read_result(account.read_text())
    assert content, problem
    assert content.outcome == "finished"
    assert {"items": 60, "pages": 73, "errors": 0}.items() <= content.stats.items()
    assert summed([content])["bytes"] > 10_000
    assert content.stats["downloader/request_count"] == 73, "the other numbers keep their names"


@pytest.mark.parametrize(
    ("reason", "stats", "account"),
    [
        ("x" * 200, {}, None),
        ("two\nlines", {}, None),
        ("\n", {}, None),
        ("finished", {"a": float("nan"), "b": float("inf"), "c": 10**400}, None),
        ("finished", {}, "x" * 5000),
        ("finished", {}, {1, 2}),
        ("finished", {}, float("nan")),
    ],
)
def test_a_small_fault_costs_no_account(reason: str, stats: dict[str, float], account: object) -> None:
    extension = runpy.run_path(str(EXAMPLES / "crawl_result.py"))
    content, problem = read_result(extension["fitting"](reason, stats | {"item_scraped_count": 7}, account))
    assert content, problem
    assert content.stats["items"] == 7


def test_stats_that_are_too_many_are_left_out() -> None:
    extension = runpy.run_path(str(EXAMPLES / "crawl_result.py"))
    many = {f"downloader/status/{number}": number for number in range(1000)} | {"item_scraped_count": 7}
    content, problem = read_result(extension["fitting"]("finished", many, None))
    assert content, problem
    assert content.stats["items"] == 7
    assert 50 < len(content.stats) < 1000


def test_a_task_without_a_share_succeeds(tmp_path: Path, site: str) -> None:
    code, told = result(crawl(tmp_path, site, task=12, tasks=13))
    assert code == 0
    assert "0 items collected" in told


@pytest.mark.parametrize("site_or_not", ["http://127.0.0.1:9", "{site}/book/1", "{site}/nowhere"])
def test_a_crawl_that_collects_nothing_fails(tmp_path: Path, site: str, site_or_not: str) -> None:
    code, told = result(crawl(tmp_path, site_or_not.replace("{site}", site)))
    assert code == 1
    assert "0 items collected" in told


def test_without_a_site_the_crawl_brings_the_shop_along(tmp_path: Path) -> None:
    """`crawlctl run bookshop`, the first command that the help names, failed for want of a site."""
    code, told = result(start("bookshop_spider.py", CRAWL_FILES=str(tmp_path), CRAWL_ARGUMENTS="{}"))
    assert (code, "60 items collected" in told) == (0, True), told
    assert len((tmp_path / "items-0.jsonl").read_text().splitlines()) == 60


def test_the_tiny_jobs_sleep_fail_and_resist() -> None:
    assert result(start("tiny_jobs.py", "sleeper", CRAWL_ARGUMENTS='{"seconds": "1"}')) == (0, "slept 1 s\n")
    assert result(start("tiny_jobs.py", "failing"))[0] == 3
    stubborn = start("tiny_jobs.py", "stubborn", CRAWL_ARGUMENTS='{"seconds": "3"}')
    first_line(stubborn)
    stubborn.send_signal(signal.SIGTERM)
    code, told = result(stubborn)
    assert code == 0
    assert "asked to end, going on" in told


@pytest.mark.parametrize(
    ("arguments", "outcome"),
    [
        ({"fragile": "yes"}, "banned"),
        ({"fragile": "yes", "retry_num": "1"}, "finished"),
        ({"fragile": "always", "retry_num": "1"}, "banned"),
        ({"fragile": "always", "slow": "yes"}, "finished"),
    ],
)
def test_a_fragile_shop_bans_some_crawls(tmp_path: Path, arguments: dict[str, str], outcome: str) -> None:
    file = tmp_path / "result"
    words = json.dumps(arguments | {"seconds": "0"})
    assert result(start("tiny_jobs.py", "shop", CRAWL_ARGUMENTS=words, CRAWL_RESULT=str(file))) == (0, "")
    assert json.loads(file.read_text())["outcome"] == outcome
