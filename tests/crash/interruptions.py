"""Courses of runs that wait for places or for the end of a pause, and of tasks that lose their jobs."""

from datetime import UTC, datetime
from itertools import accumulate

from crawler_lifecycle.model.answers import Started
from crawler_lifecycle.model.limits import LEAST_TASKS, LimitRecord, PauseRequest, ScopeName
from crawler_lifecycle.model.reasons import ADMISSION, PAUSED
from crawler_lifecycle.model.records import RunDetails
from crawler_lifecycle.model.states import RunStatus, TaskStatus
from tests.crash.stack import Case, until
from tests.process.crawls import Job

TURNS = 3  # tasks of a run below a cap of LEAST_TASKS: one child task waits while the other runs
PAUSE_BEFORE_RETRY = 1
LOST = "runner_lost"  # the local cluster's word for a job without a runner and without a known end


async def crowded(case: Case) -> Started:
    """The label allows two tasks. The worker dies while one child task waits for the place of the other."""
    label = limited(case, tasks=LEAST_TASKS)
    run = await case.begin(labels=[label], tasks=TURNS)
    await _until_crowded(case, run)
    case.deaths.arm()
    await take_turns(case, run)
    assert_no_place_leaked(case, label)
    return run


async def lost_jobs(case: Case) -> Started:
    """The jobs of the main task and of its child are lost; both tasks get one more attempt while the run goes on."""
    run = await case.begin(tasks=2, retries={"infrastructure": 1, "pause_seconds": PAUSE_BEFORE_RETRY})
    await until(lambda: case.site.statuses(run) == [TaskStatus.RUNNING] * 2)
    case.deaths.arm()
    for number in range(2):
        await case.site.lose(run, number)
    await case.nudge_until(lambda: [task.attempt for task in case.site.details(run).tasks] == [2, 2], run)
    assert not case.site.details(run).run.status.is_over
    case.site.release(run, 0, 1)
    details = await case.until_handed_over(run)
    assert details.run.status is RunStatus.COMPLETED
    for task in details.tasks:
        assert (task.status, task.attempt, task.infrastructure_failures) == (TaskStatus.SUCCEEDED, 2, 1)
        assert [(former.attempt, former.status, former.reason) for former in task.former_attempts] == [
            (1, TaskStatus.LOST, LOST)
        ]
    assert case.site.jobs(run) == {(number, attempt): _job(attempt) for number in range(2) for attempt in (1, 2)}
    return run


async def paused(case: Case) -> Started:
    """A scope is paused: a new run waits, the main job of another run ends, and its child task waits for the resume."""
    label = _label(case)
    limits, scope = case.site.control.limits, ScopeName(label=label)
    begun = await case.begin(name="begun", labels=[label], tasks=2, max_parallel=1)
    await until(lambda: case.site.statuses(begun) == [TaskStatus.RUNNING, TaskStatus.QUEUED])
    limits.pause(PauseRequest(label=label, reason="rebuilt"))
    case.deaths.arm()
    run = await case.begin(name="waits", labels=[label])
    await until(lambda: case.site.details(run).run.waiting_cause == PAUSED)
    case.site.release(begun, 0)
    await until(lambda: case.site.statuses(begun) == [TaskStatus.SUCCEEDED, TaskStatus.QUEUED])
    await until(lambda: case.site.details(begun).tasks[1].cause == PAUSED)
    assert not case.site.job_folder(begun, 1).exists()
    assert not case.site.job_folder(run, 0).exists()
    resumed_at = datetime.now(UTC)
    limits.resume(scope)
    # a start notice has few tries, and a run that ends beside another run's deaths could use them all up
    await until(lambda: "started" in {line["kind"] for line in case.site.lines("notices.jsonl", run)})
    case.site.release(begun, 1)
    case.site.release(run, 0)
    await case.until_handed_over(begun)
    details = await case.until_handed_over(run)
    await case.site.assert_true(begun, {0: 0, 1: 0})
    await case.site.assert_true(run, {0: 0})
    assert details.run.admitted_at
    assert details.run.admitted_at > resumed_at, "the pause did not hold"
    assert label not in {record.scope.partition(":")[2] for record in limits.all()}, "the pause is still on record"
    return run


async def paused_installation(case: Case) -> Started:
    """The installation is paused and resumed. Meanwhile jobs go on, and nothing new is deployed.

    The installation's dispatcher dies as well, around each of its calls."""
    limits = case.site.control.limits
    begun = await case.begin(name="begun", tasks=TURNS, max_parallel=2)
    await case.nudge_until(lambda: case.site.statuses(begun)[:2] == [TaskStatus.RUNNING] * 2, begun)
    limits.pause(PauseRequest(reason="rebuilt"))
    case.deaths.arm()
    run = await case.begin(name="waits")
    await until(lambda: case.site.details(run).run.waiting_cause == PAUSED)
    for task in (1, 0):
        case.site.release(begun, task)
        await case.nudge_until(lambda task=task: case.site.statuses(begun)[task].is_over, begun)  # type: ignore[misc]
    await until(lambda: case.site.details(begun).tasks[2].cause == PAUSED)
    assert set(case.site.jobs(begun)) == {(0, 1), (1, 1)}
    assert not case.site.jobs(run)
    resumed_at = datetime.now(UTC)
    limits.resume(ScopeName())
    case.site.release(begun, 2)
    case.site.release(run, 0)
    await case.nudge_until_handed_over(begun)
    await case.nudge_until_handed_over(run)
    await case.site.assert_true(begun, dict.fromkeys(range(TURNS), 0))
    details = await case.site.assert_true(run, {0: 0})
    assert details.run.admitted_at
    assert details.run.admitted_at > resumed_at, "the pause did not hold"
    late = (case.site.spans(begun)[2, 1], case.site.spans(run)[0, 1])
    assert all(began > resumed_at.timestamp() for began, _ in late), "a job was deployed in the pause"
    record = limits.all()[0]
    assert (record.paused_at, record.runs_begun, record.tasks_in_cluster, record.runs_held) == (None, 0, 0, 0)
    return run


def limited(case: Case, **caps: int) -> str:
    """Give the caps to a label of this case's own, and return the label."""
    label = _label(case)
    case.site.control.parts.store.limits.change(f"label:{label}", caps, "a test")
    return label


async def take_turns(case: Case, run: Started) -> RunDetails:
    """End the first child task while the second waits for its place, then the other tasks. No cap is exceeded."""
    await _until_crowded(case, run)
    case.site.release(run, 1)
    await until(
        lambda: case.site.statuses(run) == [TaskStatus.RUNNING, TaskStatus.SUCCEEDED, TaskStatus.RUNNING],
    )
    case.site.release(run, 0, 2)
    details = await case.until_handed_over(run)
    await case.site.assert_true(run, dict.fromkeys(range(TURNS), 0))
    assert _most_jobs_at_once(case, run) == LEAST_TASKS
    return details


def assert_no_place_leaked(case: Case, label: str) -> None:
    records = case.site.control.parts.store.limits.all()
    record: LimitRecord = next(record for record in records if record.scope == f"label:{label}")
    use = (record.runs_begun, record.tasks_in_cluster, record.places_kept, record.runs_held)
    assert use == (0, 0, 0, 0), "a permit or a place has leaked"


async def _until_crowded(case: Case, run: Started) -> None:
    def is_crowded() -> bool:
        tasks = case.site.details(run).tasks
        statuses = [task.status for task in tasks]
        return statuses == [TaskStatus.RUNNING, TaskStatus.RUNNING, TaskStatus.QUEUED] and tasks[2].cause == ADMISSION

    await until(is_crowded)


def _job(attempt: int) -> Job:
    return Job(began=1, ends=() if attempt == 1 else (0,))


def _most_jobs_at_once(case: Case, run: Started) -> int:
    """Return the most jobs that were alive together, by the lines that the jobs wrote down in turn."""
    lines = (case.site.truth / run.run_uid).read_text().splitlines()
    return max(accumulate(1 if line.endswith(" began") else -1 for line in lines))


def _label(case: Case) -> str:
    return f"case:{case.plan.name.lower()}"
