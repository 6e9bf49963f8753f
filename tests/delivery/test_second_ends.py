from datetime import UTC, datetime

import pytest

from crawler_lifecycle.model.requests import StopRequest
from crawler_lifecycle.model.run_plan import CloseRun, ExportedEnd
from crawler_lifecycle.model.states import ExportState
from crawler_lifecycle.runs.model import LogCancellation, TakeOver
from tests.kit.service.rig import Rig

pytestmark = pytest.mark.regression("A run that was reopened counted as exported because its first end was")


def test_the_exports_of_an_earlier_end_do_not_count(rig: Rig) -> None:
    rig.bench.cluster.deploy(rig.bench.request("true"))  # there is a cluster
    plan = rig.begin()
    stop = LogCancellation(run=plan.run, stop=StopRequest(), asked_at=datetime.now(UTC))

    def end() -> None:
        rig.do(rig.stopping.add_cancellation_log_to_db, stop.model_copy(update={"run": run}))
        rig.do(rig.stopping.cancel_queued_tasks, CloseRun(run=run))
        rig.do(rig.histories.update_run_status, CloseRun(run=run))

    run = plan.run
    end()
    rig.do(rig.exports.initiate_export_signal, ExportedEnd(run=run))
    assert rig.details(plan).run.export_state is ExportState.PENDING
    rig.do(rig.exports.export_supporting_files, ExportedEnd(run=run))
    assert rig.details(plan).run.export_state is ExportState.DONE
    assert rig.details(plan).is_handed_over

    again = TakeOver(run_id=run.run_id, crawler="books", reopen=True,
                     workflow_id=rig.details(plan).run.workflow_id, temporal_run_id="second")  # fmt: skip
    taken = rig.do(rig.supervision.take_over_run, again)
    assert taken.plan is not None
    run = taken.plan.run
    end()
    rig.do(rig.exports.initiate_export_signal, ExportedEnd(run=run, end=taken.plan.end))
    assert rig.details(plan).run.export_state is ExportState.PENDING
    assert not rig.details(plan).is_handed_over
    rig.do(rig.exports.export_supporting_files, ExportedEnd(run=run, end=taken.plan.end))
    assert rig.details(plan).is_handed_over
    assert len({export.event_id for export in rig.details(plan).exports}) == 4
