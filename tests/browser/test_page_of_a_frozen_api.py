"""The page says since when a frozen API process gives no answer, and keeps what it showed."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import httpx
import pytest
import pytest_asyncio

from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.http.tokens import Scope, Tokens
from crawler_lifecycle.model.deployment import Crawler
from crawler_lifecycle.model.requests import RunRequest
from crawler_lifecycle.runs.ports import NewRun
from crawler_lifecycle.stack.plan import free_ports
from tests.browser.chromium import Page, chromium
from tests.browser.pages import IS_LIVE
from tests.browser.shelf import MARKS
from tests.kit.data.databases import copy_of
from tests.kit.waiting import eventually

pytestmark = MARKS
BANNER = "document.querySelector('#banner').textContent"
SINCE = r"No answer since (\d\d):(\d\d):(\d\d): the API is silent\. What is shown may be old\. Trying again \.\.\."


@dataclass(frozen=True)
class Served:
    process: subprocess.Popen[bytes]
    url: str
    token: str
    run_id: int


@pytest.fixture
def served(has_chromium: None, sqlite_template: Path, tmp_path: Path) -> Iterator[Served]:
    """An API process of its own, whose database has one run."""
    url, database_url = f"http://127.0.0.1:{free_ports(1)[0]}", copy_of(sqlite_template, tmp_path)
    database = Database(database_url)
    new = NewRun(RunRequest(crawler="books"), Crawler(name="books"), 1, f"crawl-{uuid4()}", str(uuid4()))
    run = SqlStore(database).runs.create(new)
    database.close()
    token = Tokens(tmp_path / "api-tokens.json").make("reader", (Scope.READ,))
    variables = {"CRAWLER_STATE": str(tmp_path), "CRAWLER_DATABASE__URL": database_url, "CRAWLER_API__URL": url}
    process = subprocess.Popen([sys.executable, "-m", "workers.api"], env=os.environ | variables)
    try:
        yield Served(process, url, token, run.run_id)
    finally:
        process.send_signal(signal.SIGCONT)
        process.terminate()
        process.wait(60)


@pytest_asyncio.fixture(loop_scope="session")
async def page(served: Served, tmp_path: Path) -> AsyncIterator[Page]:
    async with chromium(tmp_path) as browser:
        await eventually(lambda: _answers(served.url), patience=60)
        await browser.open(f"{served.url}/#token={served.token}")
        await browser.until(IS_LIVE)
        yield browser


def _answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/healthz", trust_env=False).status_code == 200
    except httpx.TransportError:
        return False


async def test_a_frozen_api_is_told_with_the_time_of_its_last_answer(page: Page, served: Served) -> None:
    await page.until(f"document.querySelector('.runs tbody a').textContent === '{served.run_id}'")
    served.process.send_signal(signal.SIGSTOP)
    await page.until("document.querySelector('#live').dataset.state === 'away'", 8)
    banner = re.fullmatch(SINCE, await page.evaluate(BANNER))
    assert banner, await page.evaluate(BANNER)
    silent = _seconds_since(*map(int, banner.groups()))
    assert 3 <= silent <= 60, "the time of the last sign of life, before the silence was noticed"
    assert await page.evaluate("document.querySelector('#live').textContent") == "not live"
    assert await page.evaluate("document.querySelector('.runs tbody a').textContent") == str(served.run_id)
    served.process.send_signal(signal.SIGCONT)
    await page.until(IS_LIVE)
    assert not await page.evaluate("document.querySelector('#banner').checkVisibility()")


def _seconds_since(hours: int, minutes: int, seconds: int) -> float:
    now = datetime.now(UTC)
    seconds_of_day = now.hour * 3600 + now.minute * 60 + now.second
    return (seconds_of_day - (hours * 3600 + minutes * 60 + seconds)) % 86_400
