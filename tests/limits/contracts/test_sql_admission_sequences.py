"""Generated lives of many runs under limits: whatever dies, no limit is exceeded, no permit leaks, every run ends.

A pause lets nothing begin, and a higher priority comes first.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import product
from random import Random
from typing import Any

import pytest
from sqlalchemy import select

from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.database.schema import histories, scope_limits, task_histories
from crawler_lifecycle.model.deployment import Crawler, Deployment
from crawler_lifecycle.model.limits import INSTALLATION, LimitRecord
from crawler_lifecycle.model.records import RunDetails, TaskRecord
from crawler_lifecycle.model.requests import StopRequest
from crawler_lifecycle.model.retries import FailureKind, NextAttempt
from crawler_lifecycle.model.run_plan import RunRef
from crawler_lifecycle.model.states import IN_CLUSTER, OVER, Intent, RunStatus, TaskStatus
from crawler_lifecycle.model.task_changes import TaskChange
from crawler_lifecycle.runs.ports import Addition, Claim, SupervisorExecution
from tests.kit.data.databases import MakeRun
from tests.kit.samples import few

MINUTE, EXPIRED, LONG_EXPIRED = timedelta(minutes=1), timedelta(seconds=-1), timedelta(seconds=-61)
TIMES = (MINUTE, EXPIRED, LONG_EXPIRED)
PAST = datetime(2026, 1, 1, tzinfo=UTC)
SITE, TENANT, BOOKS = "label:site:a", "label:tenant:acme", "crawler:books"
SCOPES = (INSTALLATION, SITE, TENANT, BOOKS)
Begun = tuple[int, str]  # RunID, and what has begun in the run
STEPS, FEW_STEPS, MOST_STEPS_TO_THE_END = 120, 40, 3_000


class Life:
    """Runs, their supervisors and two dispatchers, all of which may die between any two writes."""

    def __init__(self, database: Database, make_run: MakeRun, random: Random) -> None:
        self.database, self.store, self.make_run, self.random = database, SqlStore(database), make_run, random
        self.runs: list[RunRef] = []
        self.workflows: dict[int, str] = {}
        self.scopes: dict[int, list[str]] = {}
        self.caps: dict[str, dict[str, int | None]] = {scope: {} for scope in SCOPES}
        self.jobs = set[str]()  # keys of all jobs that were ever made
        # after the last step
        self.uses = Counter[tuple[str, str]]()
        self.paused = set[str]()
        self.begun = set[Begun]()
        self.seen = Counter[str]()

    def step(self) -> None:
        acts: list[tuple[int, Callable[[], None]]] = [
            (3, self.start), (6, self.supervise), (6, self.dispatch), (8, self.end_a_job), (1, self.stop),
            (1, self.reopen), (1, self.add_tasks), (1, self.change_a_limit), (1, self.pause), (2, self.resume),
        ]  # fmt: skip
        (act,) = self.random.choices([act for _, act in acts], [weight for weight, _ in acts])
        act()
        self.assert_rules_hold()

    def start(self) -> None:
        if len(self.runs) >= 14:
            return
        labels = [label for label in ("site:a", "tenant:acme") if self.random.random() < 0.5]
        entry = Crawler(name=self.random.choice(["books", "toys"]), command=["true"])
        tasks, priority = self.random.choice([1, 1, 2, 4]), self.random.choice([0, 0, 5])
        run = self.make_run(tasks, entry=entry, labels=labels, priority=priority)
        self.runs.append(RunRef(run_id=run.run_id, run_uid=run.run_uid, epoch=run.epoch))
        self.workflows[run.run_id] = run.workflow_id
        self.scopes[run.run_id] = [INSTALLATION, f"crawler:{entry.name}", *(f"label:{label}" for label in labels)]

    def supervise(self) -> None:
        """One step of a run's workflow: the claim on the main task, the start, or the end."""
        for run in self._open():
            details = self._details(run)
            if details.run.status is RunStatus.INITIALIZING:
                self._bring_on(run, details)
            if all(task.status in OVER for task in details.tasks):
                self._close(run, details)

    def _bring_on(self, run: RunRef, details: RunDetails) -> None:
        main = details.tasks[0]
        if main.status in (TaskStatus.PENDING, TaskStatus.RUNNING) or main.status in OVER:
            self.store.runs.mark_started(run)
            return
        claim = self.store.claims.claim_main(run, f"supervisor:{run.epoch}", self.random.choice(TIMES))
        if isinstance(claim, Claim):
            self._deploy(claim)
        elif claim:
            self.seen[claim.cause] += 1

    def dispatch(self) -> None:
        token, in_line = self.random.choice(["dispatcher 1", "dispatcher 2"]), self._in_line()
        claims = self.store.claims.claim_tasks(token, self.random.choice(TIMES), 4)
        self._assert_priority_is_kept(in_line)
        for claim in claims:
            self._deploy(claim)

    def _deploy(self, claim: Claim) -> None:
        """The process may die before the job is made or before the job is on record; the service may refuse the job."""
        luck, key = self.random.random(), claim.request.key
        job = Deployment(key=key, job_name="job", job_uid=key, created=True)
        if claim.hold:
            self._find_job(claim, job)
        elif luck < 0.55:
            self.jobs.add(key)
            self.store.claims.deployed(claim, job)
        elif luck < 0.6 and key not in self.jobs:
            self.store.claims.failed(claim, "bad_image", "no such image", refused=True)
        elif luck < 0.75:
            self.store.claims.failed(claim, "scheduler_unavailable", "no answer", refused=False)
        elif luck < 0.85:
            self.jobs.add(key)

    def _find_job(self, claim: Claim, job: Deployment) -> None:
        """In a pause no job is made. The cluster may not answer, and the process may die after the look."""
        assert claim.hold
        luck = self.random.random()
        if luck < 0.2:
            self.store.claims.failed(claim, claim.hold.cause, "no answer", refused=False)
        elif luck < 0.9 and job.key in self.jobs:
            self.store.claims.deployed(claim, job)
            self.seen["found"] += 1
        elif luck < 0.9:
            self.store.claims.put_back(claim, claim.hold)
            self.seen["put back"] += 1

    def _in_line(self) -> dict[int, Any]:
        run = histories.c
        columns = select(run.id, run.priority, run.tasks)
        is_in_line = (run.held_by.is_not(None), run.admitted_at.is_(None), run.intent == Intent.RUN)
        with self.database.read() as connection:
            rows: Sequence[Any] = connection.execute(columns.where(run.finished_at.is_(None), *is_in_line)).all()
        return {row.id: row for row in rows}

    def _assert_priority_is_kept(self, in_line: dict[int, Any]) -> None:
        """A pass admits no run while a run with a higher priority waits that needs no more, and in no other scope."""
        waiting = self._in_line()
        admitted = [in_line[run_id] for run_id in in_line.keys() - waiting.keys()]
        for first, later in product((in_line[run_id] for run_id in in_line.keys() & waiting.keys()), admitted):
            is_in_its_scopes = set(self.scopes[first.id]) <= set(self.scopes[later.id])
            needs_no_more = first.tasks <= later.tasks
            assert first.priority <= later.priority or not (needs_no_more and is_in_its_scopes), (first, later)

    def end_a_job(self) -> None:
        """A job ends, well or not; a main job only after its child tasks, the worst that a crawl may do."""
        alive = [(run, task) for run in self._open() for task in self._may_end(self._details(run))]
        if not alive:
            return
        run, task = self.random.choice(alive)
        status = self.random.choice([TaskStatus.SUCCEEDED, TaskStatus.SUCCEEDED, TaskStatus.FAILED])
        (row,) = self.store.tasks.rows(run.run_id, [task.task])
        again = NextAttempt(kind=FailureKind.INFRASTRUCTURE, deploy_after=PAST)
        self.store.tasks.sync(run, [TaskChange(
            task=task.task, attempt=task.attempt, version=row.version, status=status, job_uid=task.job_uid,
            next_attempt=again if status is TaskStatus.FAILED and self.random.random() < 0.5 else None,
        )])  # fmt: skip

    def _may_end(self, details: RunDetails) -> list[TaskRecord]:
        children_over = all(task.status in OVER for task in details.tasks[1:])
        jobs = [task for task in details.tasks if task.status in (TaskStatus.PENDING, TaskStatus.RUNNING)]
        is_started = details.run.status is RunStatus.PROCESSING
        return [task for task in jobs if is_started and (task.task or children_over)]

    def stop(self) -> None:
        for run in self._open()[:1]:
            self.store.runs.request_stop(run.run_id, StopRequest(), datetime.now(UTC))
            self.store.tasks.cancel_queued(run, "stopped")
            for task in self._details(run).tasks:
                if task.status not in OVER:
                    (row,) = self.store.tasks.rows(run.run_id, [task.task])
                    end = TaskChange(
                        task=task.task, attempt=task.attempt, version=row.version, status=TaskStatus.STOPPED
                    )
                    self.store.tasks.sync(run, [end])

    def reopen(self) -> None:
        for index, run in enumerate(self.runs):
            if self.store.records.overview(run.run_id).run.status is RunStatus.FAILED:
                execution = SupervisorExecution(
                    self.workflows[run.run_id], f"execution-{run.epoch + 1}", datetime.now(UTC)
                )
                record = self.store.runs.reopen(run.run_id, execution)
                self.runs[index] = run.model_copy(update={"epoch": record.epoch})
                self.seen["reopened"] += 1
                return

    def add_tasks(self) -> None:
        for run in self._open():
            details = self._details(run)
            if details.tasks[0].status is TaskStatus.PENDING and details.run.status is RunStatus.PROCESSING:
                key = f"key {len(details.tasks)}"
                if details.run.intent == "RUN" and len(details.tasks) < 6:
                    self.store.tasks.add(Addition(run.run_id, 1, key, most_tasks=100, actor=None, door="test"))
                return

    def change_a_limit(self) -> None:
        scope = self.random.choice(SCOPES)
        values = {"runs": self.random.choice([None, 1, 2, 5]), "tasks": self.random.choice([None, 2, 3, 8])}
        self.store.limits.change(scope, values, None)
        self.caps[scope] = values

    def pause(self) -> None:
        self.store.limits.pause(self.random.choice(SCOPES), "a test", None)

    def resume(self) -> None:
        paused = [limits for limits in self.store.limits.all() if limits.paused_at]
        if paused:
            self.store.limits.resume(self.random.choice(paused).scope, None)

    def assert_rules_hold(self) -> None:
        self._assert_pauses_hold()
        self._assert_limits_hold()
        assert self.store.limits.miscounted() == {}

    def _assert_pauses_hold(self) -> None:
        """Nothing begins in a scope that is paused before the step and after it: no permit, no deployment, no job."""
        begun, limits = self._begun(), scope_limits.c
        with self.database.read() as connection:
            paused = set(connection.scalars(select(limits.scope).where(limits.paused_at.is_not(None))))
        for item in begun - self.begun:
            assert not self.paused.intersection(paused, self.scopes[item[0]]), (item, paused)
        self.begun, self.paused = begun, paused

    def _begun(self) -> set[Begun]:
        """Return the permits, the tasks that have or may have a job, and the jobs that were made."""
        with self.database.read() as connection:
            admitted = connection.scalars(select(histories.c.id).where(histories.c.admitted_at.is_not(None)))
            permits = {(run_id, "permit") for run_id in admitted}
            task = task_histories.c
            tasks = select(task.history_id, task.task, task.attempt).where(task.status.in_(IN_CLUSTER))
            deployed = {(row.history_id, f"{row.task}:{row.attempt}") for row in connection.execute(tasks)}
        run_ids = {run.run_uid: run.run_id for run in self.runs}
        job_keys = {(run_ids[key.partition(":")[0]], key) for key in self.jobs}
        return {item for item in permits | deployed | job_keys if item[0] in self.scopes}

    def _assert_limits_hold(self) -> None:
        """Use beyond a limit is use from before the limit was lowered, or a single child task beside main tasks."""
        uses = self._uses()
        for scope in SCOPES:
            for name, cap in self.caps[scope].items():
                use, before = uses[scope, name], self.uses[scope, name]
                children = (self.uses[scope, "children"], uses[scope, "children"])
                only_child = name == "tasks" and children == (0, 1) and use - 1 <= max(cap or use, before)
                assert cap is None or use <= cap or use <= before or only_child, (scope, name, cap, before, use)
        self.uses = uses

    def _uses(self) -> Counter[tuple[str, str]]:
        """Count what the open runs use of each scope, as the rows of runs and tasks say."""
        uses = Counter[tuple[str, str]]()
        with self.database.read() as connection:
            is_open = histories.c.finished_at.is_(None)
            begun = connection.execute(select(histories.c.id).where(is_open, histories.c.admitted_at.is_not(None)))
            for (run_id,) in begun:
                uses.update((scope, "runs") for scope in self.scopes[run_id])
            task = task_histories.c
            query = select(task.history_id, task.task, histories.c.status).join_from(histories, task_histories)
            for run_id, number, status in connection.execute(query.where(task.status.in_(IN_CLUSTER))):
                uses.update((scope, "tasks") for scope in self.scopes[run_id])
                if number:
                    uses.update((scope, "children") for scope in self.scopes[run_id])
                    assert status is not RunStatus.INITIALIZING, "a child task came before the start of the main job"
        return uses

    def run_to_the_end(self) -> None:
        """Without limits changed or paused any more, every run ends."""
        for limits in self.store.limits.all():
            if limits.paused_at:
                self.store.limits.resume(limits.scope, None)
        for _ in range(MOST_STEPS_TO_THE_END):
            if not self._open():
                return
            self.random.choice([self.supervise, self.dispatch, self.end_a_job])()
            self.assert_rules_hold()
        raise AssertionError(f"runs wait for ever: {[self._details(run) for run in self._open()]}")

    def _close(self, run: RunRef, details: RunDetails) -> None:
        failed = any(task.status is not TaskStatus.SUCCEEDED for task in details.tasks)
        self.store.runs.close(run, RunStatus.FAILED if failed else RunStatus.COMPLETED, "a test")

    def _open(self) -> list[RunRef]:
        with self.database.read() as connection:
            ids = set(connection.scalars(select(histories.c.id).where(histories.c.finished_at.is_(None))))
        open_runs = [run for run in self.runs if run.run_id in ids]
        return self.random.sample(open_runs, len(open_runs))

    def _details(self, run: RunRef) -> RunDetails:
        return self.store.records.details(run.run_id)


def live(database: Database, make_run: MakeRun, seed: int, steps: int = STEPS) -> Life:
    life = Life(database, make_run, Random(seed))
    for _ in range(steps):
        life.step()
    life.run_to_the_end()
    return life


def assert_nothing_is_left(records: list[LimitRecord]) -> None:
    for record in records:
        use = (record.runs_begun, record.tasks_in_cluster, record.places_kept, record.runs_held)
        assert use == (0, 0, 0, 0), "a permit has leaked"


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", [1])
def test_no_limit_is_exceeded_and_every_run_ends(database: Database, make_run: MakeRun, seed: int) -> None:
    life = live(database, make_run, seed)
    assert_nothing_is_left(life.store.limits.all())
    assert life.seen["admission"] + life.seen["paused"] > 0, "otherwise no run has waited"


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", few(range(10, 16), range(10, 12)))
@pytest.mark.long
def test_short_lives(database: Database, make_run: MakeRun, seed: int) -> None:
    assert_nothing_is_left(live(database, make_run, seed, FEW_STEPS).store.limits.all())


@pytest.mark.system
@pytest.mark.timeout(900)
def test_many_lives(database: Database, make_run: MakeRun) -> None:
    store, seen = SqlStore(database), Counter[str]()
    for seed in range(100, 106):
        seen += live(database, make_run, seed).seen
        for limits in store.limits.all():
            store.limits.change(limits.scope, {"runs": None, "tasks": None}, None)
    assert_nothing_is_left(store.limits.all())
    assert min(seen[what] for what in ("admission", "paused", "reopened", "found", "put back")) > 0
