"""A flow had ended, and a run of a crawl was reopened. A cancel asked the crawl to end, but the flow stayed discarded
on record. If its nudge was lost, too, no audit looked for a supervisor, and the crawl went on until its own end."""

from datetime import UTC, datetime

import pytest

from crawler_lifecycle.flows import Workflow, crawl
from crawler_lifecycle.model.audits import AuditPart, FindingKind
from crawler_lifecycle.model.flow_states import FlowState, MemberState
from crawler_lifecycle.model.records import RunRecord
from crawler_lifecycle.model.states import RunStatus
from crawler_lifecycle.runs.ports import SupervisorExecution
from tests.audits.auditing import audit
from tests.kit.data.flows import Flow, pushed
from tests.kit.service.rig import Rig

pytestmark = pytest.mark.regression(
    "A cancel of a reopened crawl left its ended flow discarded, and the crawl continued"
)


def reopened(rig: Rig) -> tuple[Flow, RunRecord]:
    """Return a flow that has ended, and its crawl's run, which was reopened since."""
    flow = pushed(rig.database, Workflow(id="w").add("shop", crawl("books")))
    flow.go_on()
    (start,) = flow.start_crawls(flow.last("shop")).crawls
    run = flow.run(start)
    flow.close(run, RunStatus.FAILED, "all_failed")
    flow.go_on()
    assert flow.ledger.flow.state is FlowState.DISCARDED
    flow.store.runs.reopen(run.run_id, SupervisorExecution(run.workflow_id, "again", datetime.now(UTC)))
    return flow, run


def test_a_cancel_of_a_reopened_crawl_opens_the_flow(rig: Rig) -> None:
    flow, run = reopened(rig)
    assert flow.cancel("shop").count == 1
    assert (flow.ledger.flow.state, flow.row("shop").state) == (FlowState.EXECUTING, MemberState.CANCELLED)
    assert flow.row("shop").in_flight
    assert audit(rig, AuditPart.FLOWS).found == {FindingKind.FLOW_UNSUPERVISED: 1}
    assert rig.supervisors.nudged_flows == [(flow.uid, "w")]
    assert len(flow.go_on().stops) == 1
    flow.close(run, RunStatus.FAILED, "stopped")
    flow.go_on()
    assert (flow.ledger.flow.state, flow.row("shop").in_flight) == (FlowState.CANCELLED, False)


def test_a_cancel_of_the_whole_flow_takes_no_further_members(rig: Rig) -> None:
    flow, _ = reopened(rig)
    assert flow.cancel().count == 1
    assert (flow.ledger.flow.state, flow.ledger.flow.accepts_members) == (FlowState.EXECUTING, False)


def test_a_cancel_without_an_open_member_leaves_the_end(rig: Rig) -> None:
    flow, run = reopened(rig)
    flow.close(run)
    assert flow.cancel().count == 0
    assert (flow.ledger.flow.state, flow.ledger.flow.accepts_members) == (FlowState.DISCARDED, True)
