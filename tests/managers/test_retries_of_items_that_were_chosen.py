"""People retried a waiting item with changed arguments while the manager's object had chosen the item: the crawl ran
with the former arguments."""

import pytest

from crawler_lifecycle.database.database import Database
from crawler_lifecycle.flows.model.requests import RetryItems
from tests.kit.data.managers import managed

pytestmark = pytest.mark.regression(
    "An item that people retried with changed arguments, once chosen, ran with the previous arguments"
)


def test_the_chosen_item_does_not_start_with_its_former_arguments(database: Database) -> None:
    flow = managed(database)
    flow.offer("a")
    chosen = flow.waiting()
    flow.store.manager_doors.retry_items(flow.id, RetryItems(numbers=(1,), arguments={"depth": "3"}))
    refused = flow.start_items(*chosen)
    assert (refused.started, refused.stale) == ([], [1])
    (start,) = flow.start_items(*flow.waiting()).started
    assert start.request.arguments["depth"] == "3"
