"""The page over an API whose database has runs as a test wants them: the fixtures `shelf` and `shelf_page`."""

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pytest
import pytest_asyncio

from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.http.tokens import Scope
from crawler_lifecycle.model.crawl_results import CrawlResult
from crawler_lifecycle.model.deployment import Crawler
from crawler_lifecycle.model.records import RunRecord
from crawler_lifecycle.model.requests import AcceptedRequest, RunRequest
from crawler_lifecycle.model.states import RunStatus, TaskStatus
from crawler_lifecycle.runs.ports import NewRun
from tests.browser.chromium import Page, chromium
from tests.browser.pages import IS_LIVE
from tests.kit.data.crawl_results import end_tasks
from tests.kit.data.databases import copy_of, ref_to
from tests.kit.service.apis import Api, served

TEMPORAL_UI = "http://127.0.0.1:1"
MARKS = [pytest.mark.timeout(240)]


@dataclass
class Shelf:
    """An API and its database with runs that are over."""

    api: Api
    database: Database

    def ended(self, results: list[CrawlResult | None], status: TaskStatus, reason: str | None = None) -> RunRecord:
        return self.end(self.begun(len(results)), results, status, reason)

    def end(
        self, run: RunRecord, results: list[CrawlResult | None], status: TaskStatus, reason: str | None = None
    ) -> RunRecord:
        runs = SqlStore(self.database).runs
        end_tasks(self.database, run, results, status, reason)
        is_completed = status is TaskStatus.SUCCEEDED
        run_status, run_reason = (
            (RunStatus.COMPLETED, "all_succeeded") if is_completed else (RunStatus.FAILED, "main_job_failed")
        )
        return runs.close(ref_to(run), run_status, run_reason)

    def stopped(self) -> RunRecord:
        run, store = self.begun(1), SqlStore(self.database)
        store.tasks.cancel_queued(ref_to(run), "stopped")
        return store.runs.close(ref_to(run), RunStatus.FAILED, "stopped")

    def begun(self, tasks: int, crawler: str = "books", request: AcceptedRequest | None = None) -> RunRecord:
        runs, entry = SqlStore(self.database).runs, Crawler(name=crawler, command=["true"])
        request = request or RunRequest(crawler=crawler)
        run = runs.create(NewRun(request, entry, tasks, f"crawl-{uuid4()}", str(uuid4())))
        return runs.mark_started(ref_to(run))


@pytest.fixture(scope="module")
def shelf(has_chromium: None, sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shelf]:
    folder = tmp_path_factory.mktemp("page")
    url = copy_of(sqlite_template, folder)
    database = Database(url)
    with served(folder, url, CRAWLER_API__REQUESTS_PER_SECOND="500", CRAWLER_API__TEMPORAL_UI=TEMPORAL_UI) as api:
        yield Shelf(api, database)
    database.close()


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def shelf_page(shelf: Shelf, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Page]:
    async with chromium(tmp_path_factory.mktemp("browser")) as page:
        await page.look_like(1280, 900)
        await page.open(f"{shelf.api.url}/#token={shelf.api.token(*Scope)}")
        await page.until(IS_LIVE)
        yield page
        assert page.errors == []
