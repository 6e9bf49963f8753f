import json
from typing import Any

import pytest

from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.flows import Workflow
from crawler_lifecycle.flows.model.requests import PushFlow
from tests.kit.authors.work import plain
from tests.kit.data.flows import Flow
from tests.kit.service.commands import Crawlctl

pytestmark = pytest.mark.regression(
    "After a stop, `flow why` said only `cancel_requested` about a step whose host was away, and the flow did not end"
)


def test_why_names_the_host_that_has_to_end_a_stopped_step(stored: SqlStore, crawlctl: Crawlctl) -> None:
    answer = stored.flow_doors.push(PushFlow(definition=Workflow(id="w").add("a", plain).definition()))
    flow = Flow(stored, answer.flow_id, answer.flow_uid)
    flow.go_on()
    flow.cancel("a")

    def why(*job: str) -> Any:
        return json.loads(crawlctl("flow", "why", flow.id, *job, "--json").stdout)

    assert why("a")["cause"] == (
        "cancel_requested, settling: a host has to end its attempt (crawlctl host tests.kit.authors.work)"
    )
    assert why()["because"][0]["cause"] == why("a")["cause"]
    flow.end(flow.last("a"))
    assert why("a")["cause"] == "cancel_requested"
