import asyncio
from pathlib import Path
from uuid import uuid4

import pytest

from crawler_lifecycle.database.database import Database
from crawler_lifecycle.http.tokens import Scope
from tests.browser.chromium import chromium
from tests.browser.pages import IS_LIVE
from tests.kit.data.databases import MakeRun, copy_of
from tests.kit.data.run_archives import CONTENT, exported, over
from tests.kit.outside.stores import BUCKET, ENDED_AT, S3Store
from tests.kit.service.apis import served

pytestmark = [
    pytest.mark.regression(
        "The page's policy forbids fetches from other servers, so that the redirect to a bucket failed"
    ),
    pytest.mark.system,
    pytest.mark.timeout(240),
]


@pytest.fixture
def database_url(sqlite_template: Path, tmp_path: Path) -> str:
    return copy_of(sqlite_template, tmp_path)


async def test_the_page_downloads_an_archive_from_a_bucket(
    has_chromium: None,
    credentials: None,
    moto: str,
    database_url: str,
    database: Database,
    make_run: MakeRun,
    tmp_path: Path,
) -> None:
    store = S3Store(moto, f"crawls/{uuid4()}/")
    run = over(database, make_run())
    (tmp_path / "files" / run.run_uid).mkdir(parents=True)
    (tmp_path / "files" / run.run_uid / "items.jsonl").write_bytes(CONTENT)
    exported(database, run, store.archiver(tmp_path / "files").archive(run.run_uid, 1, ENDED_AT, lambda *_: None))
    names = {"BUCKET": BUCKET, "PREFIX": store.prefix, "S3_ENDPOINT_URL": moto, "PATH_STYLE": "true"}
    variables = {f"CRAWLER_EXPORT__{name}": value for name, value in names.items()} | {
        "CRAWLER_EXPORT__REGION": "eu-central-1"
    }
    saved = tmp_path / "saved"
    with served(tmp_path, database_url, **variables) as api:
        async with chromium(tmp_path) as page:
            await page.ask("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(saved))
            await page.open(f"{api.url}/#token={api.token(*Scope)}")
            await page.until(IS_LIVE)
            await page.evaluate(f"location.hash = '#/runs/{run.run_id}'")
            await page.click(".head button", "Download")
            async with asyncio.timeout(30):
                while not (archives := [path for path in saved.glob("*") if path.suffix == ".zip"]):
                    await asyncio.sleep(0.05)
            assert page.errors == []
    assert archives[0].stat().st_size > 0
