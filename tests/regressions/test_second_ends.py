"""A run that was reopened counted as exported because its first end was."""

from datetime import UTC, datetime

from crawler_lifecycle.model.requests import StopRequest
from crawler_lifecycle.model.run_plan import CloseRun, ExportedEnd
from crawler_lifecycle.model.states import ExportState
from crawler_lifecycle.runs.model import LogCancellation, TakeOver
from tests.house import House


def test_the_exports_of_an_earlier_end_do_not_count(house: House) -> None:
    house.bench.cluster.deploy(house.bench.request("true"))  # there is a cluster
    plan = house.begin()
    stop = LogCancellation(run=plan.run, stop=StopRequest(), asked_at=datetime.now(UTC))

    def end() -> None:
        house.do(house.stopping.add_cancellation_log_to_db, stop.model_copy(update={"run": run}))
        house.do(house.stopping.cancel_queued_tasks, CloseRun(run=run))
        house.do(house.histories.update_run_status, CloseRun(run=run))

    run = plan.run
    end()
    house.do(house.exports.initiate_export_signal, ExportedEnd(run=run))
    assert house.details(plan).run.export_state is ExportState.PENDING
    house.do(house.exports.export_supporting_files, ExportedEnd(run=run))
    assert house.details(plan).run.export_state is ExportState.DONE
    assert house.details(plan).is_handed_over

    again = TakeOver(run_id=run.run_id, crawler="books", reopen=True,
                     workflow_id=house.details(plan).run.workflow_id, temporal_run_id="second")  # fmt: skip
    taken = house.do(house.supervision.take_over_run, again)
    assert taken.plan is not None
    run = taken.plan.run
    end()
    house.do(house.exports.initiate_export_signal, ExportedEnd(run=run, end=taken.plan.end))
    assert house.details(plan).run.export_state is ExportState.PENDING
    assert not house.details(plan).is_handed_over
    house.do(house.exports.export_supporting_files, ExportedEnd(run=run, end=taken.plan.end))
    assert house.details(plan).is_handed_over
    assert len({export.event_id for export in house.details(plan).exports}) == 4
