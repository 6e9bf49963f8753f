"""A flow stopped a crawl of its manager twice, by its supervisor and by the manager's host: the run's timeline told of
a stop after the run's end."""

from datetime import UTC, datetime, timedelta

import pytest

from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.model.requests import StopRequest
from tests.kit.service.rig import Rig
from tests.runs.watching import deploy

pytestmark = pytest.mark.regression(
    "A flow stopped a crawl of its manager twice: the run's timeline had a stop after the run's end"
)


def test_a_run_tells_of_one_stop_by_its_flow(rig: Rig) -> None:
    plan, store, now = deploy(rig), SqlStore(rig.database), datetime.now(UTC)
    for later, force in enumerate((False, False, True, True)):
        stop = StopRequest(actor="flow f", door="flow", force=force)
        store.runs.request_stop(plan.run.run_id, stop, now + timedelta(seconds=later))
    events = [line.event for line in store.records.details(plan.run.run_id).log]
    assert (events.count("stop"), events.count("force stop")) == (1, 1)
