"""Going on with a run that exists: take_over_run, hand_over_run, note_stop_phase, and what lingers of a run."""

from datetime import UTC, datetime, timedelta

import pytest

from crawler_lifecycle.errors import BadInput, Conflict, Fenced, NotFound
from crawler_lifecycle.model.looks import JobPhase
from crawler_lifecycle.model.requests import RunRequest, StopRequest
from crawler_lifecycle.model.run_plan import CloseRun, ExportedEnd
from crawler_lifecycle.model.states import Intent, RunStatus, StopPhase, TaskStatus
from crawler_lifecycle.model.task_changes import StatusWrite
from crawler_lifecycle.runs.model import HoldLimits, LogCancellation, NotePhase, OwnExecution, StopTasks
from tests.kit.service.rig import Rig
from tests.kit.waiting import until
from tests.runs.resumes import ended, look, step, taken_over

ASKED = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def test_whoever_resumes_a_run_knows_how_long_its_limits_stood_still(rig: Rig) -> None:
    plan = rig.started("sleepy", tasks=1)
    held = rig.do(rig.supervision.hold_limits, HoldLimits(run=plan.run, held=True, number=1))
    taken = taken_over(rig, plan)
    assert taken.plan
    assert taken.plan.clock == held
    assert held.held_since


# Taking over


def test_whoever_goes_on_with_a_stop_learns_since_when(rig: Rig) -> None:
    plan = rig.started("sleepy")
    assert taken_over(rig, plan).stopped_at is None
    current = plan.run.model_copy(update={"epoch": 2})
    asked = rig.details(plan).run.created_at + timedelta(milliseconds=1)
    for minutes, force in ((0, False), (1, True)):
        stop = LogCancellation(run=current, stop=StopRequest(force=force), asked_at=asked + timedelta(minutes=minutes))
        rig.do(rig.stopping.add_cancellation_log_to_db, stop)
    assert taken_over(rig, plan, "third").stopped_at == asked


@pytest.mark.parametrize("hours", [-1, 1])
def test_a_stop_from_a_clock_that_is_wrong_was_asked_for_in_the_life_of_the_run(rig: Rig, hours: int) -> None:
    plan = rig.started("sleepy")
    stop = LogCancellation(
        run=plan.run, stop=StopRequest(), asked_at=datetime.now(UTC).replace(microsecond=0) + timedelta(hours=hours)
    )
    rig.do(rig.stopping.add_cancellation_log_to_db, stop)
    since = taken_over(rig, plan).stopped_at
    assert since
    assert rig.details(plan).run.created_at <= since <= datetime.now(UTC)


def test_a_run_is_taken_over_from_where_it_stands(rig: Rig) -> None:
    plan = rig.started("sleepy", tasks=3, grace_seconds=9, max_duration_seconds=600)
    first, again = (taken_over(rig, plan) for _ in range(2))
    assert first == again
    assert first.plan == plan.model_copy(update={"run": plan.run.model_copy(update={"epoch": 2})})
    assert (first.status, first.intent, first.exported) == (RunStatus.PROCESSING, Intent.RUN, False)
    assert first.started_at == rig.details(plan).run.started_at
    with pytest.raises(Fenced, match="another supervisor"):
        rig.do(rig.stopping.k8_stop_task, StopTasks(run=plan.run))
    with pytest.raises(Fenced, match="another supervisor"):
        rig.do(rig.histories.update_run_status, CloseRun(run=plan.run))
    assert {job.phase for job in rig.bench.cluster.look(plan.run.run_uid).jobs.values()} <= {
        JobPhase.WAITING,
        JobPhase.RUNNING,
    }


def test_what_was_never_deployed_has_not_started(rig: Rig) -> None:
    taken = taken_over(rig, rig.begin("sleepy"))
    assert (taken.status, taken.started_at) == (RunStatus.INITIALIZING, None)


def test_a_stop_that_is_under_way_is_known(rig: Rig) -> None:
    plan = rig.started("sleepy")
    stop = LogCancellation(run=plan.run, stop=StopRequest(force=True), asked_at=ASKED)
    rig.do(rig.stopping.add_cancellation_log_to_db, stop)
    assert taken_over(rig, plan).intent is Intent.FORCE


def test_a_run_that_is_over_is_told_to_be(rig: Rig) -> None:
    plan = ended(rig)
    taken = taken_over(rig, plan)
    assert taken.plan == plan, "its epoch stays"
    assert (taken.status, taken.exported) == (RunStatus.FAILED, True)


def test_a_run_of_another_workflow_is_left_to_it(rig: Rig) -> None:
    plan = rig.started("sleepy")
    before = rig.details(plan)
    taken = taken_over(rig, plan, workflow_id="elsewhere")
    assert (taken.plan, taken.supervised_by) == (None, before.run.workflow_id)
    assert rig.details(plan) == before


def test_a_run_of_another_crawler_or_none_at_all(rig: Rig) -> None:
    plan = rig.started("sleepy")
    before = rig.details(plan)
    with pytest.raises(BadInput, match=r"crawler: run \d+ is a run of 'sleepy', not of 'books'"):
        taken_over(rig, plan, crawler="books")
    with pytest.raises(NotFound, match="there is no run 999999"):
        taken_over(rig, plan, run_id=999_999)
    assert rig.details(plan) == before


@pytest.mark.parametrize("reopen", [False, True])
async def test_its_own_workflow_goes_on_with_it(rig: Rig, reopen: bool) -> None:
    plan = rig.started("sleepy")
    own = rig.details(plan).run.workflow_id
    await rig.environment.run(rig.supervision.hand_over_run, step(rig, plan, workflow_id="x", reopen=reopen))
    assert rig.supervisors.started == [
        (own, RunRequest(crawler="sleepy", run_id=plan.run.run_id, reopen=reopen)),
    ]


# Reopening


def test_a_failed_run_is_reopened_once_by_one_execution_even_when_its_new_jobs_live(rig: Rig) -> None:
    """The first answer may have been lost, and the dispatcher does not wait for the second."""
    plan = ended(rig)
    rig.deployer.scripts["books"] = "exec sleep 60"
    first = taken_over(rig, plan, reopen=True)
    assert first.plan is not None
    assert first.status is RunStatus.PROCESSING, "its main job has succeeded"
    rig.deploy_children(first.plan)
    again = taken_over(rig, plan, reopen=True)
    assert again == first
    assert [task.attempt for task in rig.details(plan).tasks] == [1, 2]
    with pytest.raises(Conflict, match="only a run that ended FAILED is reopened"):
        taken_over(rig, plan, "third", reopen=True)


def test_no_next_attempt_while_a_job_of_the_last_one_lives(rig: Rig) -> None:
    """Its row says that it is over; nobody could be sure that it was."""
    rig.deployer.scripts["books"] = "exec sleep 60"
    plan = rig.started(tasks=2)
    rig.tasks.cancel_queued(plan.run, "stopped")
    until(lambda: rig.bench.cluster.look(plan.run.run_uid).jobs[0, 1].phase is JobPhase.RUNNING, "it to have started")
    main = rig.tasks.rows(plan.run.run_id, [0])[0]
    given_up = StatusWrite.model_validate(
        {"run": plan.run, "changes": [{"task": 0, "attempt": 1, "version": main.version, "status": TaskStatus.LOST}]}
    )
    rig.do(rig.reconciliation.sync_statuses, given_up)
    rig.do(rig.histories.update_run_status, CloseRun(run=plan.run))
    rig.do(rig.exports.initiate_export_signal, ExportedEnd(run=plan.run))
    rig.do(rig.exports.export_supporting_files, ExportedEnd(run=plan.run))
    before = rig.details(plan)
    with pytest.raises(Conflict, match="task 0 still has a job that runs"):
        taken_over(rig, plan, reopen=True)
    root = rig.bench.layout.root
    root.rename(root.with_name("elsewhere"))
    try:
        with pytest.raises(Conflict, match="cannot be reopened while the cluster cannot be seen"):
            taken_over(rig, plan, reopen=True)
    finally:
        root.with_name("elsewhere").rename(root)
    assert rig.details(plan) == before

    rig.bench.cluster.kill(plan.run.run_uid, [(0, 1)])
    until(lambda: rig.bench.cluster.look(plan.run.run_uid).jobs[0, 1].gone, "the job to be gone")
    assert taken_over(rig, plan, reopen=True).status is RunStatus.INITIALIZING


# A stop


def test_each_phase_is_noted_once(rig: Rig) -> None:
    plan = rig.started("sleepy")
    for message in ("3 jobs", "2 jobs"):
        note = NotePhase(run=plan.run, phase=StopPhase.JOBS_ASKED, message=message)
        rig.do(rig.stopping.note_stop_phase, note)
    noted = [line.message for line in rig.details(plan).log if line.event == StopPhase.JOBS_ASKED]
    assert noted == ["3 jobs"]


def test_a_job_that_lives_although_its_task_is_over_lingers(rig: Rig) -> None:
    """By its runner's record it has ended, and a process of it could not be ended."""
    rig.deployer.scripts["books"] = "exec sleep 60"
    plan = rig.started(tasks=2)
    rig.deploy_children(plan)
    assert look(rig, plan) == "", "as long as its task is alive it is only a job"
    given_up = rig.tasks.rows(plan.run.run_id, [1])
    changes = [{"task": row.task, "attempt": 1, "version": row.version, "status": "LOST"} for row in given_up]
    rig.do(rig.reconciliation.sync_statuses, StatusWrite.model_validate({"run": plan.run, "changes": changes}))
    assert look(rig, plan) == "1"
    report = rig.do(rig.stopping.k8_stop_pod, StopTasks(run=plan.run, tasks="1"))
    assert report.asked == 1

    def gone() -> bool:
        return look(rig, plan) == ""

    until(gone, "nothing to linger")
    assert rig.details(plan).tasks[0].status in (TaskStatus.PENDING, TaskStatus.RUNNING), "the other goes on"


def test_an_earlier_execution_does_not_come_back(rig: Rig) -> None:
    plan = rig.started("sleepy")
    taken_over(rig, plan, "third", began_at=ASKED + timedelta(seconds=2))
    with pytest.raises(Fenced, match="a later supervisor already"):
        taken_over(rig, plan, "second", began_at=ASKED)


def test_under_another_workflow_id_a_run_that_is_over_starts_nothing(rig: Rig) -> None:
    plan = ended(rig)
    foreign = step(rig, plan).model_copy(update={"workflow_id": "somebody-elses"})
    with pytest.raises(BadInput, match=f"run {plan.run.run_id} is over"):
        rig.do(rig.supervision.take_over_run, foreign)
    asked_to_reopen = foreign.model_copy(update={"reopen": True})
    assert rig.do(rig.supervision.take_over_run, asked_to_reopen).supervised_by is not None


def test_a_wish_to_reopen_under_another_workflow_id_is_not_dropped(rig: Rig) -> None:
    """An open workflow is left to itself: whoever asked would have been told that all went well."""
    under_way = rig.started("sleepy")
    own = rig.details(under_way).run.workflow_id
    with pytest.raises(Conflict, match=f"belongs to workflow {own} and is PROCESSING: only a run that ended FAILED"):
        taken_over(rig, under_way, workflow_id="elsewhere", reopen=True)
    over = ended(rig)
    own = rig.details(over).run.workflow_id
    rig.supervisors.listed.add(own)
    with pytest.raises(
        Conflict, match=f"belongs to workflow {own}, which has not finished with its end: try again in a moment"
    ):
        taken_over(rig, over, workflow_id="elsewhere", reopen=True)
    rig.supervisors.listed.clear()
    assert taken_over(rig, over, workflow_id="elsewhere", reopen=True).supervised_by == own


async def test_an_execution_is_cancelled_by_its_own_ids(rig: Rig) -> None:
    execution = OwnExecution(workflow_id="crawl-7", temporal_run_id="second")
    await rig.environment.run(rig.supervision.cancel_execution, execution)
    assert rig.supervisors.cancelled == [("crawl-7", "second")]
