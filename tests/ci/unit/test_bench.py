"""The benchmarks: do their tables find their way into the document?"""

import re
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import pytest
from click.testing import CliRunner
from temporalio.client import WorkflowHistory

from bench import kubernetes_server
from bench.__main__ import BENCHMARKS, main
from bench.ended_cluster import EndedCluster
from bench.faked_part import FAKED, faked_command, real_command
from bench.floor.bare import Step
from bench.floor.shape import activities_in, shape_of
from bench.permits import check_completed, check_seconds, tasks_within_limit
from bench.table import QUICK, Table, written_into
from crawler_lifecycle.model.deployment import Crawler, DeploymentRequest
from crawler_lifecycle.model.limits import INSTALLATION, LimitRecord
from crawler_lifecycle.model.looks import TaskRow
from crawler_lifecycle.model.states import Intent, TaskStatus
from crawler_lifecycle.runs.rules.verdict import verdicts
from tests.kit.temporal.activity_events import begun_in
from tests.kubernetes.programs import Unbuildable

PLAIN_RUN = Path(__file__).parents[2] / "replay" / "histories" / "plain.json"
DOCUMENT = Path(__file__).parents[3] / "docs" / "internals" / "benchmarks.md"


def test_a_table_shows_three_digits() -> None:
    table = Table(("what", "events", "ms"), [("a look", 1802, 1234.5), ("none", 24, 0.04567)])
    assert table.markdown.splitlines() == [
        "| what | events | ms |",
        "| --- | ---: | ---: |",
        "| a look | 1,802 | 1,234 |",
        "| none | 24 | 0.0457 |",
    ]


def test_the_document_has_a_place_for_every_benchmark() -> None:
    assert re.findall(r"<!-- bench:(.+) -->", DOCUMENT.read_text()) == list(BENCHMARKS)
    assert re.findall(r"<!-- end:(.+) -->", DOCUMENT.read_text()) == list(BENCHMARKS)


def test_only_what_is_between_the_markers_is_replaced() -> None:
    document = "before\n<!-- bench:a -->\nold\n<!-- end:a -->\n<!-- bench:b -->\n<!-- end:b -->\nafter\n"
    once = written_into(document, "a", "new \\1")
    assert once == document.replace("old", "new \\1")
    assert written_into(once, "a", "new \\1") == once
    with pytest.raises(ValueError, match="bench:c"):
        written_into(document, "c", "new")


@pytest.mark.system
def test_a_stand_in_of_a_benchmark_fulfils_its_port() -> None:
    """The stand-in fell behind its port, which the type checker cannot see through a cast."""
    assert BENCHMARKS["looks"](replace(QUICK, jobs=(10,), tasks=(10,))).rows


@pytest.mark.system
def test_a_benchmark_measures_and_writes(tmp_path: Path) -> None:
    copy = tmp_path / "benchmarks.md"
    copy.write_text(DOCUMENT.read_text())
    command = [sys.executable, "-m", "bench", "--quick", "--write", str(copy), "local-look"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=DOCUMENT.parents[2])
    assert result.returncode == 0, result.stderr
    assert re.search(r"<!-- bench:local-look -->\n\| jobs .*\n.*\n\| 10 \| none \| [0-9.]+ \|\n", copy.read_text())


def test_an_unknown_name_is_an_error_that_lists_the_known() -> None:
    result = CliRunner().invoke(main, ["speed"])
    assert result.exit_code == 2
    assert "long-run" in result.output


def test_without_a_control_plane_the_table_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def unbuildable() -> None:
        raise Unbuildable("Go is needed")

    monkeypatch.setattr("tests.kubernetes.bed.programs.built", unbuildable)
    assert "| Go is needed |" in kubernetes_server.measure(QUICK).markdown


def test_a_floor_has_the_activities_and_waits_of_a_run() -> None:
    history = WorkflowHistory.from_json("plain", PLAIN_RUN.read_text())
    steps = shape_of(history.events)
    assert activities_in(steps) == len(begun_in(history.events))
    assert [step.activities for step in steps[:6]] == [1] * 6, "of which some were inside of workflow tasks"
    assert steps[5].seconds > 0, "the start notice is sent during the gap between two looks"
    assert any(step.seconds and not step.activities for step in steps), "later gaps stand alone"
    assert steps[-2:] == [Step(activities=2)] * 2, "notice and removal, then event and archive are side by side"


def test_a_stack_with_faked_jobs_fakes_the_parts_that_see_jobs() -> None:
    assert {name for name in ("api", "dispatcher", *FAKED) if faked_command(name) != real_command(name)} == set(FAKED)


def test_a_faked_job_has_ended_as_the_job_of_its_deployment(tmp_path: Path) -> None:
    run_uid = str(uuid4())
    request = DeploymentRequest(
        installation=str(uuid4()),
        run_id=1,
        run_uid=run_uid,
        task=0,
        tasks=1,
        attempt=1,
        crawler=Crawler(name="nothing", command=["true"]),
    )
    scheduler, worker = (EndedCluster(tmp_path / "jobs", tmp_path / "files", None, 1) for _ in range(2))
    deployment = scheduler.deploy(request)
    look = worker.look(run_uid, [(0, 1)])
    rows = [TaskRow(0, TaskStatus.PENDING, attempt=1, version=1, job_uid=deployment.job_uid)]
    changes, doubt = verdicts(rows, look, Intent.RUN, datetime.now(UTC), None)
    assert [change.status for change in changes] == [TaskStatus.SUCCEEDED]
    assert doubt is None
    assert [item.task for item in worker.evidence(run_uid, [(0, 1)])] == [0]


def test_the_benchmark_of_permits_refuses_a_broken_promise() -> None:
    assert tasks_within_limit(LimitRecord(scope=INSTALLATION, tasks=20, tasks_in_cluster=20)) == 20
    with pytest.raises(AssertionError, match="the limit is exceeded"):
        tasks_within_limit(LimitRecord(scope=INSTALLATION, tasks=20, tasks_in_cluster=21))
    check_completed([{"status": "COMPLETED"}] * 2)
    with pytest.raises(AssertionError, match="1 of 2 runs have not completed"):
        check_completed([{"status": "COMPLETED"}, {"status": "FAILED"}])
    check_seconds(59.0)
    with pytest.raises(AssertionError, match="has not succeeded after 60 seconds"):
        check_seconds(60.1)
