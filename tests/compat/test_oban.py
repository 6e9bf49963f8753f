"""Programs from oban-py and Oban Pro with other import lines: their client, their marks, and workers' results."""

from datetime import timedelta
from typing import Any

import pytest

from crawler_lifecycle import client
from crawler_lifecycle.compat.oban import Oban, Snooze, job, worker
from crawler_lifecycle.compat.oban_pro import Workflow
from crawler_lifecycle.errors import BadInput
from crawler_lifecycle.testing import MemoryFlows, run_inline
from crawler_lifecycle.testing.memory import NOW
from tests.compat import graphs

program: Any = graphs


@pytest.fixture(autouse=True)
def _in_memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setattr(client, "Flows", MemoryFlows, raising=False)
    monkeypatch.setenv("CRAWLER_STATE", str(tmp_path))
    graphs.SEEN.clear()
    monkeypatch.setattr(Oban, "_instances", {})


async def test_a_program_runs_with_other_imports(caplog: pytest.LogCaptureFixture) -> None:
    jobs, single, mailed, reported = await program.enqueue()
    assert [(mail.path, mail.max_attempts, mail.meta["workflow_id"]) for mail in jobs] == [("mails", 20, "mails-1")]
    assert (single.args, single.queue) == ({"day": "monday", "pages": 2}, "reports")
    assert (mailed.args, mailed.priority, mailed.max_attempts) == ({"to": "eve"}, 2, 3)
    assert reported.args == {"day": "sunday", "pages": 1}
    (line,) = caplog.messages
    assert line.startswith("Oban: postgresql://localhost/shop?sslmode=disable names no installation of this service")
    assert line.endswith("and hosts of steps run the queues (mail): crawlctl host MODULE")
    assert sorted(seen for seen in graphs.SEEN if isinstance(seen, list)) == [["mails/ann", "mails/bob"]]


async def test_start_and_stop() -> None:
    oban = Oban(pool="postgresql://localhost/x", name="other")
    assert Oban.get_instance("other") is oban is await oban.start()
    assert (await oban.enqueue(graphs.report.new("today"))).state == "available"
    await oban.stop()


def test_a_workflow_has_obans_positions() -> None:
    workflow = Workflow("an-id", "a name", False, True, True)
    assert (workflow.id, workflow.name, workflow.check_deps) == ("an-id", "a name", False)
    assert (workflow.ignore_cancelled, workflow.ignore_discarded) == (True, True)


def test_a_job_knows_about_itself() -> None:
    workflow = Workflow("w").add("mail", program.Mail.new({"to": "ann", "fails": 2}))
    result = run_inline(workflow).assert_completed()
    (seen,) = graphs.SEEN
    identifier, name, queue, tags, max_attempts, errors, cancelled = seen
    assert identifier.endswith(":mail:1")
    assert (name, queue, tags) == ("tests.compat.graphs:Mail", "mail", ("mail", "news"))
    assert (max_attempts, cancelled) == (3, False)
    assert [(error["attempt"], error["error"]) for error in errors] == [
        (1, "ValueError: attempt 1"),
        (2, "ValueError: attempt 2"),
    ]
    assert result.recorded("mail") == {"to": "ann"}


def test_a_job_knows_from_when_on_it_may_start() -> None:
    evening = NOW + timedelta(hours=9)
    workflow = Workflow("w").add("late", program.Timed.new({"snoozes": 0}, scheduled_at=evening))
    result = run_inline(workflow.add("again", program.Timed.new({"snoozes": 2})))
    assert result.recorded("late") == evening
    assert result.recorded("again") == NOW + timedelta(minutes=2)


def test_a_job_cancels_itself() -> None:
    result = run_inline(Workflow("w").add("mail", program.Mail.new({"to": "ann", "nobody": True})))
    assert result.states == {"mail": "cancelled"}


@pytest.mark.parametrize("mark", [worker, job])
def test_a_clock_is_refused_by_name(mark: Any) -> None:
    with pytest.raises(BadInput, match="cron: is no option of a job; `crawlctl schedule` starts a workflow"):
        mark(cron="@daily")


def test_an_own_backoff_is_refused_and_not_ignored() -> None:
    class Custom:
        async def process(self, job: Any) -> None: ...

        def backoff(self, job: Any) -> int:
            return 2 * int(job.attempt)

    with pytest.raises(BadInput, match="backoff: is not called"):
        worker()(Custom)


def test_an_unknown_instance_is_the_innermost_client() -> None:
    assert Oban.get_instance("elsewhere") is Oban.get_instance("elsewhere")


def test_a_snoozed_job_runs_again_later_as_the_same_try() -> None:
    result = run_inline(Workflow("w").add("mail", program.Mail.new({"to": "ann", "late": 60}, max_attempts=1)))
    assert result.assert_completed().recorded("mail") == {"to": "ann"}
    assert (result.states, graphs.SEEN[0]) == ({"mail": "completed"}, "snoozed")
    assert (result.play.row("mail").attempt, result.play.now - result.play.created_at >= timedelta(seconds=60)) == (
        2,
        True,
    )


@pytest.mark.parametrize("seconds", [-1, 0, 0.5, float("nan"), float("inf"), True, "60"])
def test_a_snooze_without_a_length_is_refused(seconds: Any) -> None:
    with pytest.raises(BadInput, match="Snooze: expected a number of seconds from 1 to a year"):
        Snooze(seconds)
    assert Snooze(timedelta(minutes=1)) == Snooze(60)
