"""A stop was on record and its signal was lost, because Temporal was away. The run waited for its permit, where its
workflow looks at the database every quarter of an hour, so the run was stopped that much later."""

from datetime import UTC, datetime

import pytest

from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.model.requests import StopRequest
from tests.kit.service.rig import Rig
from tests.runs.watching import deploy

pytestmark = pytest.mark.regression(
    "A stop whose signal was lost reached a run in line up to a quarter of an hour late"
)


@pytest.mark.parametrize("forces", [(False,), (False, True)])
def test_a_stop_on_record_leaves_one_nudge_for_the_watcher(rig: Rig, forces: tuple[bool, ...]) -> None:
    plan, store = deploy(rig), SqlStore(rig.database)
    for force in forces:
        store.runs.request_stop(plan.run.run_id, StopRequest(force=force), datetime.now(UTC))
    nudges = [(nudge.run_uid, nudge.number) for nudge in store.claims.unanswered_nudges()]
    assert nudges == [(plan.run.run_uid, len(forces))]


def test_a_stop_on_record_during_a_look_outlives_the_answer_to_the_former_nudge(rig: Rig) -> None:
    """The look has read the intent before the stop, and answers the nudge that caused the look."""
    plan, store = deploy(rig), SqlStore(rig.database)
    store.claims.claim_nudges([plan.run.run_uid])
    seen = store.runs.state(plan.run)
    store.runs.request_stop(plan.run.run_id, StopRequest(), datetime.now(UTC))
    store.runs.mark_look(plan.run, seen.nudge_sent, known=True, problem=None, next_look_at=None)
    assert [nudge.run_uid for nudge in store.claims.unanswered_nudges()] == [plan.run.run_uid]
