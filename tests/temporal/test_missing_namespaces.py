import pytest
from temporalio.testing import WorkflowEnvironment

from crawler_lifecycle.errors import NotFound, NotReady
from crawler_lifecycle.temporal.boundary import FINAL
from crawler_lifecycle.temporal.engine import Engine

pytestmark = pytest.mark.regression(
    "A busy Temporal server that did not find its namespace was taken at its word: an activity failed for good"
)


async def test_a_namespace_that_is_not_found_is_asked_for_again(real_time: WorkflowEnvironment) -> None:
    address = real_time.client.service_client.config.target_host
    elsewhere = Engine({"TEMPORAL_ADDRESS": address, "TEMPORAL_NAMESPACE": "elsewhere"}, "crawls")
    with pytest.raises(NotReady, match="elsewhere") as refused:
        await elsewhere.cancel("crawl-books", "")
    assert not isinstance(refused.value, FINAL)
    here = Engine({"TEMPORAL_ADDRESS": address, "TEMPORAL_NAMESPACE": real_time.client.namespace}, "crawls")
    with pytest.raises(NotFound):
        await here.cancel("crawl-books", "")
