from pathlib import Path

import pytest

from crawler_lifecycle.errors import TemporaryError
from tests.kit.data.databases import copy_of
from tests.kit.service.apis import problem, served

pytestmark = pytest.mark.regression(
    "No worker took up a start without a key, and its 503 said when to ask again: whoever obeyed made a run each time"
)

ACCEPTED = "workflow crawl-books-1 is accepted, but no worker has made a run of it in 20 s"


@pytest.mark.parametrize("key", [None, "order-4711"])
def test_only_what_cannot_be_made_twice_is_asked_for_again(
    sqlite_template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str | None
) -> None:
    async def accepted(*_: object) -> None:
        raise TemporaryError(ACCEPTED)

    with served(tmp_path, copy_of(sqlite_template, tmp_path)) as api, api.client() as http:
        monkeypatch.setattr(api.app.state.api.control.runs, "start", accepted)
        headers = {"Idempotency-Key": key} if key else {}
        answer = http.post("/v1/runs", json={"crawler": "books"}, headers=headers)
        assert problem(answer, 503).detail == ACCEPTED
        assert ("Retry-After" in answer.headers) == (key is not None)
