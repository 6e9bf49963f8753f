from collections.abc import Callable
from typing import Any

import pytest

from crawler_lifecycle.database.database import Database
from crawler_lifecycle.errors import Conflict
from crawler_lifecycle.flows import Workflow, crawl
from crawler_lifecycle.runs.store import creation as run_creation
from tests.kit.data.flows import pushed

pytestmark = pytest.mark.regression(
    "A second run for an attempt was refused for its workflow id, if the first run was committed between two checks"
)


def test_the_attempt_is_named_as_the_reason(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    flow = pushed(database, Workflow(id="w").add("shop", crawl("books")))
    (start,) = flow.start_crawls(flow.start("shop")).crawls
    run = flow.run(start, "first")
    check: Callable[..., None] = run_creation._refuse_second_run_of_attempt
    calls = []

    def see_the_run_from_the_second_check_on(*given: Any) -> None:
        calls.append(given)
        if len(calls) > 1:
            check(*given)

    monkeypatch.setattr(run_creation, "_refuse_second_run_of_attempt", see_the_run_from_the_second_check_on)
    with pytest.raises(Conflict, match=f"attempt 1 of 'shop' in flow 'w' has run {run.run_id} already"):
        flow.run(start, "second")
