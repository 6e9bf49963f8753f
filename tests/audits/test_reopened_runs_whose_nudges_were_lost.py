"""A flow had ended, and a crawl's run was reopened. The nudge was lost, and no audit looked for a supervisor: the flow
stayed discarded for ever, and its dependents never started, although the run completed. The flow could even be pruned
meanwhile."""

from datetime import UTC, datetime

import pytest

from crawler_lifecycle.flows import Workflow, crawl
from crawler_lifecycle.flows.ports.ledger import Delivery
from crawler_lifecycle.model.audits import AuditPart, FindingKind
from crawler_lifecycle.model.flow_states import FlowState
from crawler_lifecycle.model.states import RunStatus
from crawler_lifecycle.retention.store import RetentionStore
from crawler_lifecycle.runs.ports import SupervisorExecution
from tests.audits.auditing import audit, findings
from tests.kit.authors.work import plain
from tests.kit.data.flows import pushed
from tests.kit.service.rig import Rig

pytestmark = pytest.mark.regression(
    "If the nudge of a reopened crawl was lost, no audit gave its ended flow a supervisor"
)


@pytest.mark.parametrize("has_ended", [False, True], ids=["open", "ended again"])
def test_the_audit_gives_the_flow_a_supervisor(rig: Rig, has_ended: bool) -> None:
    flow = pushed(rig.database, Workflow(id="w").add("shop", crawl("books")).add("load", plain, deps="shop"))
    flow.go_on()
    run = flow.run(flow.start_crawls(flow.last("shop")).crawls[0])
    flow.close(run, RunStatus.FAILED, "all_failed")
    flow.go_on()
    flow.store.flow_ends.settle(flow.uid, 1, list(Delivery), {})
    flow.store.runs.reopen(run.run_id, SupervisorExecution(run.workflow_id, "again", datetime.now(UTC)))
    if has_ended:
        flow.close(run, RunStatus.COMPLETED, "all_succeeded")
    assert RetentionStore(rig.database).old_flows(datetime.now(UTC), limit=9) == [flow.uid]
    assert flow.store.flow_doors.prune([flow.uid], ended_before=datetime.now(UTC)) == 0, "retention keeps the flow"
    page = audit(rig, AuditPart.FLOWS)
    assert (page.found, page.acted) == ({FindingKind.FLOW_UNSUPERVISED: 1}, 1)
    assert rig.supervisors.nudged_flows == [(flow.uid, "w")]
    (finding,) = findings(rig)
    assert finding.message == "flow w is discarded, one of its runs was reopened, and its workflow is not there"
    flow.go_on()
    assert flow.ledger.flow.state is FlowState.EXECUTING
    assert flow.states == {
        "shop": "completed" if has_ended else "executing",
        "load": "executing" if has_ended else "suspended",
    }
