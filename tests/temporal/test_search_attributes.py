"""Which search attributes a real Temporal server has, by the right to list workflows alone."""

import pytest
from temporalio.common import SearchAttributeKey
from temporalio.testing import WorkflowEnvironment

from crawler_lifecycle.temporal import connection
from crawler_lifecycle.temporal.engine import Engine
from crawler_lifecycle.temporal.visibility import SEARCH_ATTRIBUTES


@pytest.fixture
def engine(real_time: WorkflowEnvironment) -> Engine:
    service = real_time.client.service_client
    variables = {"TEMPORAL_ADDRESS": service.config.target_host, "TEMPORAL_NAMESPACE": real_time.client.namespace}
    return Engine(variables, "nobody")


async def test_only_unregistered_attributes_are_missing(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    assert await engine.missing_search_attributes() == {}
    missing = (SearchAttributeKey.for_keyword("Unheard"), SearchAttributeKey.for_int("Unseen"))
    monkeypatch.setattr(connection, "SEARCH_ATTRIBUTES", (*SEARCH_ATTRIBUTES, *missing))
    assert await engine.missing_search_attributes() == {"Unheard": "Keyword", "Unseen": "Int"}
