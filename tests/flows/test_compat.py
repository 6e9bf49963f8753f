"""Programs from Chancy and Oban with other import lines, on a real server."""

from typing import Any

import pytest

from crawler_lifecycle.compat.oban import Oban
from crawler_lifecycle.compat.oban_pro import Workflow
from tests.compat import graphs
from tests.flows.conftest import PATIENCE, Service

pytestmark = pytest.mark.process
program: Any = graphs


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch) -> None:
    graphs.SEEN.clear()
    monkeypatch.setattr(Oban, "_instances", {})


async def test_chancys_program(service: Service, capfd: pytest.CaptureFixture[str]) -> None:
    ended = await program.main()
    assert ended.state is Workflow.State.COMPLETED
    assert capfd.readouterr().out.split("\n")[:3] == ["fetch", "parse 1", "store"]


async def test_obans_program(service: Service) -> None:
    jobs, single, mailed, reported = await program.enqueue()
    assert [job.path for job in jobs] == ["mails"]
    async with Oban() as oban:
        flows = ["mails-1", *(job.flow_id for job in (single, mailed, reported))]
        recorded: dict[str, Any] = {}
        for flow in flows:
            await oban.wait(flow, timeout=PATIENCE)
            recorded |= await Workflow(flow).all_recorded()
            assert (await Workflow(flow).status()).state == "completed"
    assert recorded == {"mails": {"ann": {"to": "ann"}, "bob": {"to": "bob"}}, "0": "sunday: 1"}
    assert ["mails/ann", "mails/bob"] in graphs.SEEN


@pytest.mark.long
async def test_a_snoozed_job_that_may_run_once_and_a_job_with_its_errors(service: Service) -> None:
    workflow = Workflow("snoozed").add("late", program.Mail.new({"to": "ann", "late": 1}, max_attempts=1))
    workflow.add("failing", program.Mail.new({"to": "bob", "fails": 1}), deps="late")
    async with Oban() as oban:
        await oban.enqueue_many(workflow)
        assert (await oban.wait(workflow.id, timeout=PATIENCE)).state is Workflow.State.COMPLETED
        ends = [(end.attempt, end.kind, end.reason) for end in await oban.attempts(workflow.id, "late")]
        assert await workflow.all_recorded() == {"late": {"to": "ann"}, "failing": {"to": "bob"}}
    assert ends == [(1, "snoozed", "snoozed:1"), (2, "completed", None)]
    *_, (_, _, queue, tags, max_attempts, errors, cancelled) = graphs.SEEN
    assert (queue, tags, max_attempts, cancelled) == ("mail", ("mail", "news"), 3, False)
    assert [(error["attempt"], error["error"]) for error in errors] == [(1, "ValueError: attempt 1")]
