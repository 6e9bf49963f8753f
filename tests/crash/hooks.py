"""How do a real worker, dispatcher, watcher and scheduler service come to die, or to have faulty neighbours?

Their own mains run; only what these are given is changed from outside.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

from temporalio import activity
from temporalio.worker import (
    ActivityInboundInterceptor,
    ExecuteActivityInput,
    Interceptor,
    WorkerConfig,
)
from temporalio.worker import WorkflowInstance as Instance
from temporalio.worker import WorkflowInstanceDetails as Details

from crawler_lifecycle.assembly.plugin import LifecyclePlugin
from crawler_lifecycle.clusters.local.cluster import LocalCluster
from crawler_lifecycle.clusters.ports import Cluster
from crawler_lifecycle.clusters.processes import PlacesJobs, make_app
from crawler_lifecycle.delivery.ports import FlowSupervisors
from crawler_lifecycle.flows.ports.steps import StepLedger
from crawler_lifecycle.hosts.host import StepHost
from crawler_lifecycle.hosts.managers.hosting import Managers, managers_of
from crawler_lifecycle.managers.ports import ManagerLedger
from crawler_lifecycle.model.looks import JobPhase
from crawler_lifecycle.model.reasons import IMAGE_PULL, SUSPENDED
from crawler_lifecycle.processes import dispatcher, flows, lifecycle, scheduler, watcher
from crawler_lifecycle.runs.processes.dispatcher import Dispatcher
from crawler_lifecycle.runs.processes.watcher import Watcher
from crawler_lifecycle.temporal.boundary import Boundary  # noqa: F401 (loaded before the first fork)
from tests.crash.channels import HOST, doomed_channel
from tests.crash.deaths import Deaths
from tests.crash.faults import OF_PORTS, Fault, Faulty, LosingCommits, one_after_the_other, one_fault
from tests.crash.ports import Way, between, by_way_of, methods_of, through
from tests.crash.steps import THEN, DoomedSteps

BEFORE, AFTER = "before", "after"
MOMENTS = (BEFORE, AFTER, THEN)
TROUBLES = (*OF_PORTS, BEFORE, AFTER)  # of the other parts, at each call
PAUSE = 0.1
UNSTARTABLE = {"phase": JobPhase.WAITING, "cause": IMAGE_PULL, "give_up_after": timedelta()}
OF_STARTS = methods_of(FlowSupervisors)  # calls of Temporal by the hosts of managers
OF_THE_CLUSTER = [*methods_of(Cluster), *methods_of(PlacesJobs)]


def living(part: str, deaths: Deaths, faulty: Faulty | None = None) -> AbstractContextManager[None]:
    """Return what a part of this kind lives with."""
    if part == "lifecycle":
        return doomed(deaths, faulty)
    return doomed_host(deaths, faulty) if part == "flows" else troubled(deaths)


@contextmanager
def doomed(deaths: Deaths, faulty: Faulty | None = None) -> Iterator[None]:
    """A worker, in its activities and in the steps of its workflows. `faulty`: how the ports of its activities are, or
    its connections to the database."""
    with ExitStack() as changed:
        deaths.folder.mkdir(parents=True, exist_ok=True)
        if faulty and faulty.fault is Fault.LOST_COMMIT:
            changed.enter_context(patch.object(LosingCommits, "faulty", faulty, create=True))
            changed.enter_context(patch("pymysql.connect", LosingCommits))
            faulty = None
        changed.enter_context(patch.object(lifecycle, "LifecyclePlugin", partial(_plugin, deaths, faulty)))
        # as in Kubernetes, so that a run comes to the removal of its jobs
        changed.enter_context(patch.object(LocalCluster, "records_stay", False))
        yield


@contextmanager
def doomed_host(deaths: Deaths, faulty: Faulty | None = None) -> Iterator[None]:
    """A host of steps, around its activity and around each call of the ledgers, and at the messages of managers.

    `faulty`: how the ledger and the starts of managers are."""
    deaths.folder.mkdir(parents=True, exist_ok=True)
    doomed_channel(deaths, HOST)
    dying = partial(_dying, deaths)
    of_managers = dying if faulty is None else one_fault(faulty, dying)
    with (
        patch.object(flows, "LifecyclePlugin", partial(_plugin, deaths, None)),
        patch.object(flows, "StepHost", partial(_host, dying)),
        patch.object(flows, "managers_of", partial(_managers, of_managers)),
    ):
        yield


@contextmanager
def troubled(deaths: Deaths) -> Iterator[None]:
    """The other parts: each call of a port meets the next fault of what is behind it, then they die around it."""
    way = one_after_the_other(deaths.folder, partial(_dying, deaths))
    with ExitStack() as changed:
        for target, name, replacement in (
            (dispatcher, "Dispatcher", partial(_dispatcher, way, deaths.folder)),
            (watcher, "Watcher", partial(_watcher, way)),
            (scheduler, "make_app", partial(_app, way)),
        ):
            changed.enter_context(patch.object(target, name, replacement))
        yield


def hold(folder: Path, run_uid: str) -> Path:
    """While this file is there, the dispatcher of this folder waits for what becomes of the run's requests."""
    return folder / f"{run_uid}.held"


def suspend(folder: Path) -> Path:
    """While this file is there, the worker of this folder sees every job suspended, as a queue does that to Jobs."""
    return folder.with_name(f"{folder.name}.suspended")


def prevent_starts(folder: Path) -> Path:
    """While this file is there, the worker of this folder sees every living job wait for an image that never comes."""
    return folder.with_name(f"{folder.name}.unstartable")


def _shown(folder: Path, point: str, call: Callable[[], Any]) -> Any:
    answer = call()
    if point != "cluster.look":
        return answer
    jobs = answer.jobs
    if suspend(folder).exists():
        jobs = {key: replace(job, phase=JobPhase.WAITING, cause=SUSPENDED) for key, job in jobs.items()}
    if prevent_starts(folder).exists():
        jobs = {key: job if job.phase.has_ended else replace(job, **UNSTARTABLE) for key, job in jobs.items()}
    return replace(answer, jobs=jobs)


def _dying(deaths: Deaths, point: str, call: Callable[[], Any]) -> Any:
    deaths.pass_by(f"{point}.{BEFORE}")
    answer = call()
    if hasattr(answer, "__await__"):
        return _dying_after(deaths, point, answer)
    deaths.pass_by(f"{point}.{AFTER}")
    return answer


async def _dying_after(deaths: Deaths, point: str, answer: Any) -> Any:
    answered = await answer
    deaths.pass_by(f"{point}.{AFTER}")
    return answered


def _host(way: Way, claims: Any, doors: Any, *given: Any) -> StepHost:
    claims = between(way, claims, "claims", methods_of(StepLedger))
    return StepHost(claims, between(way, doors, "doors", ["graft"]), *given)


def _managers(way: Way, ledger: Any, supervisors: Any, *given: Any) -> Managers:
    ledger = between(way, ledger, "managers", methods_of(ManagerLedger))
    return managers_of(ledger, between(way, supervisors, "supervisors", OF_STARTS), *given)


def _dispatcher(way: Way, folder: Path, claims: Any, deploying: Any, *given: Any) -> Dispatcher:
    deployer = between(partial(_held, folder), deploying.deployer, "deployer", ["deploy"])
    return by_way_of(way, Dispatcher(claims, replace(deploying, deployer=deployer), *given))


def _held(folder: Path, _: str, call: Callable[[], Any]) -> Any:
    (request,) = call.args  # type: ignore[attr-defined]
    answer = call()
    while hold(folder, request.run_uid).exists():
        time.sleep(PAUSE)
    return answer


def _watcher(way: Way, claims: Any, cluster: Any, send: Any) -> Watcher:
    return by_way_of(way, Watcher(claims, cluster, through(way, "engine.nudge", send)))


def _app(way: Way, cluster: Any, *given: Any, **options: Any) -> Any:
    return make_app(between(way, cluster, "cluster", OF_THE_CLUSTER), *given, **options)


def _plugin(
    deaths: Deaths, way: Way | None, activities: Sequence[Callable[..., Any]], **options: Any
) -> "DoomedPlugin":
    activities = _changed(partial(_with_cluster, partial(_shown, deaths.folder)), activities)
    return DoomedPlugin(deaths, _changed(partial(by_way_of, way), activities) if way else activities, **options)


def _with_cluster(way: Way, holder: Any) -> Any:
    if not hasattr(holder, "cluster"):
        return holder
    return replace(holder, cluster=between(way, holder.cluster, "cluster", methods_of(Cluster)))


def _changed(change: Callable[[Any], Any], activities: Sequence[Callable[..., Any]]) -> Sequence[Callable[..., Any]]:
    holders: dict[int, Any] = {}
    for each in activities:
        holder = each.__self__  # type: ignore[attr-defined]
        if id(holder) not in holders:
            holders[id(holder)] = change(holder)
    return [getattr(holders[id(each.__self__)], each.__name__) for each in activities]  # type: ignore[attr-defined]


class DoomedPlugin(LifecyclePlugin):
    def __init__(self, deaths: Deaths, activities: Sequence[Callable[..., Any]], **options: Any) -> None:
        super().__init__(activities, **options)
        self._deaths = deaths

    def configure_worker(self, config: WorkerConfig) -> WorkerConfig:
        config = super().configure_worker(config)
        config["interceptors"] = [*config.get("interceptors", []), DoomedActivities(self._deaths)]
        runner = config["workflow_runner"]
        vars(runner)["create_instance"] = partial(self._created, runner.create_instance)
        return config

    def _created(self, create: Callable[[Details], Instance], details: Details) -> Instance:
        instance = create(details)
        vars(instance)["activate"] = DoomedSteps(self._deaths, instance, details)
        return instance


class DoomedActivities(Interceptor):
    """Inside of all others: what Temporal is told of an activity is not yet told when it dies after its effect."""

    def __init__(self, deaths: Deaths) -> None:
        self._deaths = deaths

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:  # noqa: A002 (theirs)
        return _DoomedActivity(next, self._deaths)


class _DoomedActivity(ActivityInboundInterceptor):
    def __init__(self, inner: ActivityInboundInterceptor, deaths: Deaths) -> None:
        super().__init__(inner)
        self._deaths = deaths

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:  # noqa: A002 (the SDK's name)
        name = activity.info().activity_type
        self._deaths.pass_by(f"{name}.{BEFORE}")
        answer = await super().execute_activity(input)
        self._deaths.pass_by(f"{name}.{AFTER}")
        return answer
