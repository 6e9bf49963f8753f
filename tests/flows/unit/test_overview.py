"""Overviews: `why` of a flow or a sub-workflow names the nearest causes, failures first."""

import pytest

from crawler_lifecycle.flows import Workflow
from crawler_lifecycle.flows.commands.members import explained_at
from crawler_lifecycle.flows.model.manager_records import ManagerProblem, ManagerStatus
from crawler_lifecycle.flows.model.records import Why
from crawler_lifecycle.flows.model.turns import Counts
from crawler_lifecycle.flows.rules.explanation import MOST_BLOCKERS
from crawler_lifecycle.flows.rules.managers import manager_explained
from crawler_lifecycle.model.flow_states import FlowIntent
from tests.flows.plays import FAILED, NOW, Play
from tests.kit.authors.work import UserNotifier, plain


def explain(play: Play, path: str = "") -> Why:
    return explained_at(play.ledger, path, play.now)


def causes(explanation: Why) -> list[tuple[str, str]]:
    return [(inner.path, inner.state) for inner in explanation.because]


def played() -> Play:
    """A flow with an executing, a failed, two suspended, and a job that is cancelled by its dependency."""
    workflow = Workflow(id="w").add("slow", plain).add("wrong", plain).add("after", plain, deps="wrong")
    workflow.add_workflow("sites", Workflow().add("de", plain).add("fr", plain, deps="de"), deps="slow")
    play = Play(workflow)
    play.advance()
    play.end("wrong", FAILED, reason="ValueError: no price")
    play.advance()
    return play


def test_a_flow_names_its_failures_and_then_its_jobs_under_way() -> None:
    explanation = explain(played())
    assert (explanation.path, explanation.state) == ("w", "executing")
    assert explanation.cause == "2 suspended, 1 executing, 1 cancelled, 1 discarded"
    assert causes(explanation) == [("wrong", "discarded"), ("slow", "executing")], "the rest follows from these"
    assert explanation.because[0].cause == "ValueError: no price"


def test_a_held_flow_says_so() -> None:
    play = played()
    play.hold(FlowIntent.PAUSE)
    assert (explain(play).state, (explain(play).cause or "").split(":")[0]) == ("paused", "paused")
    play.hold(FlowIntent.DRAIN)
    assert (explain(play).cause or "").startswith("draining: 2 suspended")


def test_a_sub_workflow_names_its_jobs_and_their_blockers() -> None:
    play = played()
    explanation = explain(play, "sites")
    assert (explanation.path, explanation.state, explanation.cause) == ("sites", "executing", "2 suspended")
    assert causes(explanation) == [("sites/de", "suspended"), ("sites/fr", "suspended")]
    assert [inner.path for inner in explanation.because[0].because] == ["slow"]
    play.end("slow")
    play.advance()
    assert causes(explain(play, "sites")) == [("sites/de", "executing"), ("sites/fr", "suspended")]


def test_an_ended_flow_names_its_failures_alone() -> None:
    play = played()
    for path in ("slow", "sites/de", "sites/fr"):
        play.end(path)
        play.advance()
    assert (explain(play).state, causes(explain(play))) == ("discarded", [("wrong", "discarded")])
    assert (explain(play, "sites").cause, explain(play, "sites").because) == ("2 completed", ())


def test_a_flow_without_a_supervisor_names_its_first_jobs() -> None:
    play = Play(Workflow(id="w").add("a", plain).add("b", plain, deps="a"))
    assert causes(explain(play)) == [("a", "available")]
    gated = Play(Workflow(id="w").add_graft("g", UserNotifier.new({"account_id": 1})).add("z", plain, deps="g"))
    assert causes(explain(gated)) == [("g", "available")]
    assert explain(gated, "g").cause is not None, "a graft without jobs is explained by its grafter"


@pytest.mark.long
def test_an_overview_stays_short() -> None:
    play = Play(Workflow(id="w").add_many("m", [plain] * 1_000))
    play.advance()
    explanation = explain(play, "m")
    assert (len(explanation.because), explanation.more) == (MOST_BLOCKERS, 1_000 - MOST_BLOCKERS)
    assert explain(Play(Workflow(id="w").add("a", plain).add_many("none", [])), "none").cause == "no jobs"


def cause_of(
    status: ManagerStatus, state: str = "executing", intent: FlowIntent = FlowIntent.RUN, cause: str | None = None
) -> str:
    """Return the manager's wait, without an explanation behind the word. `cause`: the member's own."""
    member = Why(path="m", state=state, cause=cause, since=NOW)
    return (manager_explained(status, member, intent).cause or "").split(": ")[0]


def counting(**numbers: int) -> ManagerStatus:
    return ManagerStatus(path="m", function="shops:Shops", incarnation=1, counts=Counts(**numbers))


def test_a_manager_says_what_the_manager_itself_waits_for() -> None:
    busy = counting(running=8, waiting=100, delayed=3)
    assert cause_of(busy) == "room"
    assert cause_of(busy, intent=FlowIntent.PAUSE) == "paused"
    assert cause_of(busy, intent=FlowIntent.DRAIN) == "draining"
    assert cause_of(busy, state="available") == "no_host"
    assert cause_of(ManagerStatus(path="m", function="shops:Shops")) == "no_host"
    assert cause_of(counting(waiting=2)) == "turn"
    assert cause_of(counting(running=2, retrying=1)) == "ends"
    assert cause_of(counting(delayed=4)) == "delayed"
    assert cause_of(counting(retrying=1)) == "pause"
    assert cause_of(counting(completed=9)) == "generator"
    assert cause_of(counting(completed=9).model_copy(update={"is_exhausted": True})) == "closing"
    problem = ManagerProblem(phase="schedule_job", error="Traceback\nKeyError: 'shop'")
    paused = busy.model_copy(update={"problem": problem})
    explanation = manager_explained(paused, Why(path="m", state="executing"), FlowIntent.PAUSE)
    assert explanation.cause == (
        "manager_paused: schedule_job failed (KeyError: 'shop'), and the manager waits for a resume of the flow"
    )
    closed = paused.model_copy(update={"closed_at": NOW, "close_reason": "finished"})
    for state in ("completed", "executing"):
        member = Why(path="m", state=state, since=NOW)
        assert manager_explained(closed, member, FlowIntent.RUN).cause == "closed: finished"


def test_a_manager_before_its_host_has_the_cause_of_its_member() -> None:
    busy = counting(waiting=2)
    for cause in (None, "no_host", "host:shops"):
        assert cause_of(busy, "available", cause=cause) == "no_host"
    for cause in ("unknown_step", "parallel_limit", "parallel_limit:sites", "settling"):
        assert cause_of(busy, "available", cause=cause) == cause
    assert cause_of(busy, "available", FlowIntent.PAUSE, cause="paused") == "paused"


def test_a_flow_under_way_is_so_since_its_start() -> None:
    play = Play(Workflow(id="w").add("a", plain).add("b", plain, deps="a"))
    play.advance()
    play.later(minutes=1)
    play.end("a")
    play.advance()
    assert explain(play).since == NOW
    play.later(minutes=2)
    play.end("b")
    play.advance()
    assert (explain(play).state, explain(play).since) == ("completed", play.now)
