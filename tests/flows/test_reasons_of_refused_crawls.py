from datetime import UTC, datetime

import pytest

from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.flows import Workflow, crawl
from crawler_lifecycle.flows.model.requests import PushFlow
from crawler_lifecycle.flows.rules.ends import AttemptEnd
from crawler_lifecycle.model.flow_states import EndKind
from tests.client.conftest import Hand
from tests.kit.authors.work import plain
from tests.kit.service.commands import Crawlctl

pytestmark = pytest.mark.regression(
    "A refused crawl showed the code `start_refused` alone: the sentence was only in its attempts"
)

SENTENCE = "there is no crawler 'boookshop' in the catalogue"


@pytest.fixture
def refused(stored: SqlStore) -> Hand:
    workflow = Workflow(id="w").add("shop", crawl("boookshop")).add("load", plain, deps="shop")
    stored.flow_doors.push(PushFlow(definition=workflow.definition()))
    flow = Hand(stored, "w", stored.flow_records.uid_of("w"))
    flow.go_on()
    end = AttemptEnd(flow.row("shop").number, 1, EndKind.FAILED, datetime.now(UTC), "refused", "start_refused")
    flow.store.flow_ledger.end_attempts(flow.flow, [end], {end.number: SENTENCE})
    flow.go_on()
    return flow


def test_jobs_and_why_have_the_sentence(refused: Hand, crawlctl: Crawlctl) -> None:
    assert f"start_refused: {SENTENCE}" in crawlctl("flow", "jobs", "w").stdout
    assert f"start_refused: {SENTENCE}" in crawlctl("flow", "why", "w", "shop").stdout
    assert f"start_refused: {SENTENCE}" in crawlctl("flow", "why", "w", "load").stdout
    assert f"start_refused: {SENTENCE}" in crawlctl("flow", "show", "w").stdout
