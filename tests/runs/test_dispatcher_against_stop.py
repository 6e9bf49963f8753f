"""The dispatcher deploys what a stop has just ended: whoever is slower, no job starts once the stop is proved."""

import random
import threading
import time
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import make_url

from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.clusters.adapters.scheduler_client import SchedulerClient
from crawler_lifecycle.clusters.local import creation as making
from crawler_lifecycle.clusters.ports import NO_UIDS, Uids
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.errors import TemporaryError
from crawler_lifecycle.model.deployment import Crawler, Deployment, DeploymentRequest, ManagerEntry
from crawler_lifecycle.model.looks import EndRequest, JobKey, JobLook, JobPhase, Look, Pods
from crawler_lifecycle.model.records import RunRecord
from crawler_lifecycle.model.requests import StopRequest
from crawler_lifecycle.model.run_plan import RunInput, RunPlan
from crawler_lifecycle.model.states import TaskStatus
from crawler_lifecycle.model.task_changes import LookAt
from crawler_lifecycle.runs.activities.deployment import ClaimDeployer
from crawler_lifecycle.runs.activities.reconciliation import ReconciliationActivities
from crawler_lifecycle.runs.activities.stopping import StoppingActivities
from crawler_lifecycle.runs.ports import Claim
from crawler_lifecycle.runs.processes.dispatcher import Dispatcher
from tests.kit.clusters.clusters import PATIENCE
from tests.kit.clusters.schedulers import TOKEN, SmallCluster, a_catalogue, served
from tests.kit.data.databases import MakeRun, ref_to
from tests.kit.service.rig import Rig
from tests.kit.waiting import until
from tests.runs.stop_rounds import stop, stop_round

CHILDREN, AT_ONCE, MOST_RUNS = 96, 2, 400
RACES = {"sqlite": 2000, "mysql": 500}  # of deployments with the stop of their run
CLAIM_FOR = timedelta(seconds=0.12)
THREADS = 8
MINUTE = timedelta(minutes=1)
Job = tuple[str, int]


class QuickCluster(SmallCluster):
    """Jobs without processes. Making one takes its time, and meanwhile anything may happen."""

    def __init__(self) -> None:
        super().__init__()
        self.coming: set[Job] = set()
        self.running: dict[Job, str] = {}
        self.ended: dict[Job, str] = {}
        self.proved: set[str] = set()
        self.too_late: list[Job] = []  # made after the proof, or still running then
        self.refused = 0

    def deploy(self, request: DeploymentRequest) -> Deployment:
        job = (request.run_uid, request.task)
        self.coming.add(job)
        try:
            if request.not_after and request.not_after <= datetime.now(UTC):
                self.refused += 1
                raise TemporaryError("the claim has run out")
            time.sleep(random.choice((0, 0, 0.005, 0.02)))
            deployment = super().deploy(request.model_copy(update={"not_after": None}))
            if deployment.created:
                self.running[job] = deployment.job_uid
                if request.run_uid in self.proved:
                    self.too_late.append(job)
            return deployment
        finally:
            self.coming.discard(job)

    def look(
        self,
        run_uid: str,
        watched: Collection[JobKey] = (),
        tasks: Collection[int] | None = None,
        *,
        uids: Uids = NO_UIDS,
    ) -> Look:
        kinds = ((self.coming, JobPhase.UNCLEAR), (self.running, JobPhase.RUNNING), (self.ended, JobPhase.FAILED))
        jobs: dict[JobKey, JobLook] = {}
        for known, phase in kinds:  # in the order in which a job goes through them
            for owner, task in list(known):
                if owner == run_uid and (tasks is None or task in tasks):
                    uid = self.running.get((owner, task)) or self.ended.get((owner, task)) or ""
                    job = JobLook(task, 1, uid, f"job-{task}", phase)
                    over = replace(job, pods=Pods.ENDED, end_request=EndRequest.TO_JOB)
                    jobs[task, 1] = over if phase is JobPhase.FAILED else job
        time.sleep(random.choice((0, 0.01, 0.03)))  # what it shows grows old on its way
        return Look(complete=True, jobs=jobs)

    def stop(self, run_uid: str, jobs: Sequence[JobKey], **_: object) -> dict[JobKey, str]:
        for task, _attempt in jobs:
            if uid := self.running.get((run_uid, task)):
                self.ended[run_uid, task] = uid
                self.running.pop((run_uid, task), None)
        return {}

    def kill(self, run_uid: str, jobs: Sequence[JobKey], **_: object) -> None:
        self.stop(run_uid, jobs)

    def prove(self, run_uid: str) -> None:
        self.proved.add(run_uid)
        self.too_late += [job for job in list(self.running) if job[0] == run_uid]


@dataclass
class SlowDeployer:
    """Requests wait on their way, often for longer than their claim, and answers are lost."""

    cluster: QuickCluster
    stopped: set[str] = field(default_factory=set)  # runs
    raced: set[str] = field(default_factory=set)  # requests that were under way when their run was stopped
    came: Counter[str] = field(default_factory=Counter)  # requests by run

    def only_installation(self) -> str | None:
        return None

    def manager(self, name: str) -> ManagerEntry:
        raise NotImplementedError

    def crawler_names(self) -> list[str]:
        raise NotImplementedError

    def crawler(self, name: str) -> Crawler:
        return Crawler(name=name)

    def deploy(self, request: DeploymentRequest) -> Deployment:
        self.came[request.run_uid] += 1
        time.sleep(random.choice((0, 0, 0.03, 0.15)))
        try:
            deployment = self.cluster.deploy(request)
        finally:
            if request.run_uid in self.stopped:
                self.raced.add(request.key)
        if random.random() < 0.1:
            raise TemporaryError("the answer was lost")
        return deployment

    def check(self) -> str:
        return "slow"


@contextmanager
def dispatching(dispatcher: Dispatcher) -> Iterator[None]:
    """It runs beside the block; at its end whatever it has under way is over."""
    told = threading.Event()
    with ThreadPoolExecutor(1) as own:
        loop = own.submit(dispatcher.run, told, timedelta(milliseconds=1))
        try:
            yield
        finally:
            told.set()
            loop.result(timeout=PATIENCE)


@pytest.mark.system
@pytest.mark.timeout(240)
def test_thousands_of_races(database_url: str, database: Database, make_run: MakeRun) -> None:
    """Runs of many child tasks are stopped at any moment of their deployment, until so many were caught in it."""
    cluster, store = QuickCluster(), SqlStore(database)
    tasks, claims = store.tasks, store.claims
    stopping = StoppingActivities(store.runs, tasks, cluster)
    reconciliation = ReconciliationActivities(store.runs, tasks, cluster)
    deployer, threads, runs = SlowDeployer(cluster), AT_ONCE * CHILDREN, list[RunRecord]()
    enough = RACES[make_url(database_url).get_backend_name()]

    def race(_: int) -> RunRecord:
        run = make_run(1 + CHILDREN)
        ref = ref_to(run)
        claim = claims.claim_main(ref, "supervisor", MINUTE)
        assert isinstance(claim, Claim)
        claims.deployed(claim, cluster.deploy(claim.request))
        store.runs.mark_started(ref)
        before = random.randrange(CHILDREN // 2)  # a busy machine makes the first requests late
        until(lambda: deployer.came[run.run_uid] > before, "requests under way", pause=0.001)
        SqlStore(database).runs.request_stop(run.run_id, StopRequest(actor="ann"), datetime.now(UTC))
        deployer.stopped.add(run.run_uid)
        tasks.cancel_queued(ref, "stopped")
        until(lambda: stop_round(stopping, reconciliation, ref), "the proof")
        cluster.prove(run.run_uid)
        return run

    with (
        ThreadPoolExecutor(threads) as deployments,
        ThreadPoolExecutor(AT_ONCE) as races,
        dispatching(Dispatcher(claims, ClaimDeployer(claims, cluster, deployer), CLAIM_FOR, threads, deployments)),
    ):
        while len(deployer.raced) < enough and len(runs) < MOST_RUNS:
            runs += races.map(race, range(AT_ONCE))
    assert cluster.too_late == []
    assert cluster.running == {}, "whoever deployed under a stop has ended its job"
    for run in runs:
        ended = {task for owner, task in cluster.ended if owner == run.run_uid}
        rows = SqlStore(database).records.details(run.run_id).tasks
        assert {row.status for row in rows} == {TaskStatus.STOPPED}
        assert ended == {row.task for row in rows if row.job_uid}, "what had a job is known to have had it"
    assert len(deployer.raced) >= enough
    assert cluster.refused, "otherwise no claim has run out on its way"


@pytest.mark.system
def test_a_few_races_with_real_jobs(rig: Rig) -> None:
    """The same against the local cluster: what has not begun when the stop is proved never does."""
    rig.deployer.scripts["sleepy"] = "echo > began-$CRAWL_TASK; exec sleep 60"
    began: dict[str, set[str]] = {}

    def race(number: int) -> str:
        plan = rig.started("sleepy", tasks=4)
        time.sleep(number * 0.04)
        stop(rig, plan)
        until(lambda: stop_round(rig.stopping, rig.reconciliation, plan.run), "the proof")
        began[plan.run.run_uid] = _began(rig, plan.run.run_uid)
        return plan.run.run_uid

    with (
        ThreadPoolExecutor(THREADS) as deployments,
        dispatching(Dispatcher(rig.claims, rig.claim_deployer, MINUTE, THREADS, deployments)),
    ):
        raced = [race(number) for number in range(8)]
    assert {run_uid: _began(rig, run_uid) for run_uid in raced} == began
    assert all(job.gone for run_uid in raced for job in rig.bench.cluster.look(run_uid).jobs.values())


def _began(rig: Rig, run_uid: str) -> set[str]:
    return {path.name for path in (rig.folder / "files" / run_uid).glob("began-*")}


# A deployer that stands still


def claimed(rig: Rig, plan: RunPlan, expires_in: timedelta) -> Claim:
    (claim,) = rig.claims.claim_tasks("dispatcher", expires_in, 1)
    return claim


def wait_for_the_end_of(claim: Claim) -> None:
    assert claim.request.not_after
    time.sleep(max(0, (claim.request.not_after - datetime.now(UTC)).total_seconds()) + 0.001)


def proved(rig: Rig, plan: RunPlan) -> bool:
    return stop_round(rig.stopping, rig.reconciliation, plan.run)


def changes(rig: Rig, plan: RunPlan) -> dict[int, TaskStatus]:
    """What a look would write of each task."""
    active = rig.reconciliation.get_active_running_tasks(RunInput(run=plan.run))
    found = rig.reconciliation.get_history_statuses_to_sync(LookAt(run=plan.run, active=active))
    return {change.task: change.status for change in found.changes}


def jobs(rig: Rig, plan: RunPlan) -> set[int]:
    return {task for task, _ in rig.bench.cluster.look(plan.run.run_uid).jobs}


@pytest.mark.long
def test_a_claim_that_may_still_be_used_is_waited_for_and_useless_afterwards(rig: Rig) -> None:
    plan = rig.started("sleepy", tasks=2)
    claim = claimed(rig, plan, timedelta(seconds=1.5))
    stop(rig, plan)

    def proved_in_time() -> bool:
        found = proved(rig, plan)
        assert claim.request.not_after
        assert not found or datetime.now(UTC) >= claim.request.not_after
        return found

    until(proved_in_time, "the proof")
    with pytest.raises(TemporaryError, match="has run out"):
        rig.deployer.deploy(claim.request)
    assert jobs(rig, plan) == {0}
    never_deployed = rig.details(plan).tasks[1]
    assert (never_deployed.status, never_deployed.job_uid) == (TaskStatus.STOPPED, None)


def test_a_job_that_is_just_being_made_when_its_claim_runs_out(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever makes it asked in time whether it may, and was held up since."""
    plan = rig.started("sleepy", tasks=2)
    claim = claimed(rig, plan, timedelta(seconds=0.5))
    held_up, go_on, make = threading.Event(), threading.Event(), making._make

    def make_later(*arguments: Any) -> None:
        held_up.set()
        assert go_on.wait(PATIENCE)
        make(*arguments)

    monkeypatch.setattr(making, "_make", make_later)
    with ThreadPoolExecutor(1) as pool:
        deployed = pool.submit(rig.claim_deployer.deploy, claim)
        try:
            assert held_up.wait(PATIENCE)
            stop(rig, plan)
            wait_for_the_end_of(claim)
            assert 1 not in changes(rig, plan), "it may come at any moment"
        finally:
            go_on.set()
        assert deployed.result(timeout=PATIENCE).job_id
    until(lambda: proved(rig, plan), "the proof")
    assert jobs(rig, plan) == {0, 1}
    assert rig.details(plan).tasks[1].job_uid


@pytest.mark.parametrize("recorded", [True, False], ids=["recorded", "under a claim that runs out"])
@pytest.mark.long
def test_a_job_that_is_made_after_the_cluster_was_looked_at(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, recorded: bool
) -> None:
    """What the look shows is older than what is compared with it: it must not count as absence."""
    plan = rig.started("sleepy", tasks=2)
    claim = claimed(rig, plan, timedelta(seconds=60 if recorded else 3))
    stop(rig, plan)
    look, made = rig.bench.cluster.look, list[Deployment]()

    def look_and_grow_old(run_uid: str, watched: Collection[JobKey] = (), *, uids: Uids = NO_UIDS) -> Look:
        found = look(run_uid, watched, uids=uids)
        made.append(rig.deployer.deploy(claim.request))
        if recorded:
            rig.claims.deployed(claim, made[0])
        else:
            wait_for_the_end_of(claim)
        return found

    with monkeypatch.context() as patched:
        patched.setattr(rig.bench.cluster, "look", look_and_grow_old)
        assert 1 not in changes(rig, plan)
    assert made[0].created
    until(lambda: proved(rig, plan), "the proof")
    assert rig.details(plan).tasks[1].job_uid == made[0].job_uid


def test_a_request_that_comes_late_to_the_service_is_refused_and_may_be_made_anew(rig: Rig) -> None:
    plan = rig.started("sleepy", tasks=2)
    catalogue = a_catalogue(rig.folder, '[crawlers.sleepy]\ncommand = ["true"]\n')
    with served(rig.bench.cluster, catalogue) as url, closing(SchedulerClient(url, TOKEN, timeout=10)) as client:
        claim = claimed(rig, plan, timedelta(seconds=0.2))
        wait_for_the_end_of(claim)
        with pytest.raises(TemporaryError, match="has run out: it has to be claimed again"):
            client.deploy(claim.request)
        assert jobs(rig, plan) == {0}
        again = claimed(rig, plan, MINUTE)
        assert again.request.key == claim.request.key
        assert client.deploy(again.request).created
        assert not client.deploy(claim.request).created, "what is there is told, however late somebody asks"
    assert jobs(rig, plan) == {0, 1}
