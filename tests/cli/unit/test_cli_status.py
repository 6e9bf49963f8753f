"""How `crawlctl status` looks as text."""

from crawler_lifecycle.cli.status import status_lines
from crawler_lifecycle.model.answers import ClusterPlaces, InstallationView
from crawler_lifecycle.model.limits import LimitRecord
from crawler_lifecycle.model.states import RunStatus, TaskStatus
from crawler_lifecycle.runs.model import Attention, FlowsInNeed, RequestsInNeed
from tests.kit.data.shown import a_run


def test_the_status_names_what_needs_attention_and_the_command_for_more() -> None:
    stuck = a_run(RunStatus.PROCESSING, TaskStatus.PENDING, waiting_cause="quota").run
    view = InstallationView(
        installation="i", limits=LimitRecord(scope="installation", runs=20, runs_begun=8), open_runs=9, runs_in_line=1,
        places=ClusterPlaces(taken=3, total=4, waiting=0), saturated_runs=8, saturated=[stuck] * 7,
    )  # fmt: skip
    one = FlowsInNeed(total=1, flows=["f"])
    attention = Attention(
        failed_runs=2, with_failed_items=one, saturated_runs=8, awaiting_approval=one, without_host=one,
        without_run=RequestsInNeed(total=2, workflows=["w1", "w2"]), open_findings=3,
        pauses=0, audit_problem="no audit for 3 h",
    )  # fmt: skip
    lines = list(status_lines(view, attention))
    assert len(lines) == 10
    named = ", ".join([str(stuck.run_id)] * 5)
    assert lines == [
        "installation i",
        "  open       9 runs  (crawlctl list --flows)",
        "  running    8 of 20, tasks: 0 in the cluster, 3 of 4 places taken",
        "  waiting    1 run for a permit  (crawlctl limits)",
        f"  stuck      8 runs without capacity for over 5 min: {named}  (crawlctl show RUN)",
        "  failed     2 runs in 24 hours, 1 flow with failed items"
        "  (crawlctl list --status failed --flows; crawlctl flow list --attention)",
        "  approvals  1 flow awaiting a decision  (crawlctl flow list --attention)",
        "  not begun  1 flow without a host, 2 requests without a run: w1, w2"
        "  (crawlctl flow list --attention; crawlctl doctor)",
        "  findings   3 open findings, no audit for 3 h  (crawlctl audit)",
        "  paused     -",
    ]
    away = status_lines(view, attention.model_copy(update={"without_run": None}))
    assert any("without a host, Temporal does not answer, so requests" in line for line in away)
