import json

import pytest

from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.flows import Workflow
from crawler_lifecycle.flows.model.requests import PushFlow
from tests.client.conftest import Hand
from tests.kit.authors.work import plain
from tests.kit.service.commands import Crawlctl

pytestmark = pytest.mark.regression(
    "A result with half a surrogate pair made all results of its flow unreadable by the command line and over HTTP"
)


def test_the_command_shows_a_replacement(stored: SqlStore, crawlctl: Crawlctl) -> None:
    workflow = Workflow(id="w").add("files", plain).add("count", plain)
    stored.flow_doors.push(PushFlow(definition=workflow.definition()))
    flow = Hand(stored, "w", stored.flow_records.uid_of("w"))
    flow.play({"files": {"caf\udce9.txt": "/data/caf\udce9.txt", "half": "\ud800"}, "count": 2})
    shown = {"files": {"caf\ufffd.txt": "/data/caf\ufffd.txt", "half": "\ufffd"}, "count": 2}
    for options in ((), ("--json",)):
        result = crawlctl("flow", "results", "w", *options)
        assert (result.exit_code, json.loads(result.stdout.encode())) == (0, shown)
    assert json.loads(crawlctl("flow", "results", "w", "count").stdout) == {"count": 2}
