"""How do a real worker, dispatcher, watcher and scheduler service come to die, or to have faulty neighbours?

Their own mains run; only what these are given is changed from outside.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

from temporalio import activity
from temporalio.bridge.proto.workflow_activation import WorkflowActivation
from temporalio.bridge.proto.workflow_completion import WorkflowActivationCompletion
from temporalio.worker import (
    ActivityInboundInterceptor,
    ExecuteActivityInput,
    Interceptor,
    WorkerConfig,
)
from temporalio.worker import WorkflowInstance as Instance
from temporalio.worker import WorkflowInstanceDetails as Details

import workers.dispatcher
import workers.lifecycle
import workers.scheduler
import workers.watcher
from crawler_lifecycle.activities.boundary import Boundary  # noqa: F401 (loaded before the first fork)
from crawler_lifecycle.ports import Cluster
from crawler_lifecycle.services.dispatcher import Dispatcher
from crawler_lifecycle.services.scheduler import make_app
from crawler_lifecycle.services.watcher import Watcher
from crawler_lifecycle.workflows.plugin import LifecyclePlugin
from tests.crash.deaths import Deaths
from tests.crash.faults import Fault, Faulty, LosingCommits
from tests.crash.ports import Way, between, by_way_of, methods_of, through

BEFORE, AFTER, THEN = "before", "after", "then"
MOMENTS = (BEFORE, AFTER, THEN)


@contextmanager
def mortal(deaths: Deaths) -> Iterator[None]:
    """Activities and workflow tasks of a worker; calls of ports of the other parts."""
    way = partial(_dying, deaths)
    with ExitStack() as changed:
        for target, name, replacement in (
            (workers.lifecycle, "LifecyclePlugin", partial(MortalPlugin, deaths)),
            (workers.dispatcher, "Dispatcher", lambda *given: by_way_of(way, Dispatcher(*given))),
            (workers.watcher, "Watcher", partial(_watcher, way)),
            (workers.scheduler, "make_app", partial(_app, way)),
        ):
            changed.enter_context(patch.object(target, name, replacement))
        yield


@contextmanager
def faulty(fault: Fault, folder: Path) -> Iterator[None]:
    """The ports of a worker's activities, or its connections to the database."""
    folder.mkdir(parents=True, exist_ok=True)
    if fault is Fault.LOST_COMMIT:
        LosingCommits.folder = folder
        with patch("pymysql.connect", LosingCommits):
            yield
        return
    with patch.object(workers.lifecycle, "LifecyclePlugin", partial(_with_ports, Faulty(fault, folder))):
        yield


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


def _watcher(way: Way, nudges: Any, cluster: Any, send: Any) -> Watcher:
    return by_way_of(way, Watcher(nudges, cluster, through(way, "engine.nudge", send)))


def _app(way: Way, cluster: Any, *given: Any) -> Any:
    return make_app(between(way, cluster, "cluster", [*methods_of(Cluster), "place_waiting"]), *given)


def _with_ports(way: Way, activities: Sequence[Callable[..., Any]]) -> LifecyclePlugin:
    holders: dict[int, Any] = {}
    for each in activities:
        holder = each.__self__  # type: ignore[attr-defined]
        if id(holder) not in holders:
            holders[id(holder)] = by_way_of(way, holder)
    return LifecyclePlugin([getattr(holders[id(each.__self__)], each.__name__) for each in activities])  # type: ignore[attr-defined]


class MortalPlugin(LifecyclePlugin):
    def __init__(self, deaths: Deaths, activities: Sequence[Callable[..., Any]]) -> None:
        super().__init__(activities)
        self._deaths = deaths

    def configure_worker(self, config: WorkerConfig) -> WorkerConfig:
        config = super().configure_worker(config)
        config["interceptors"] = [*config.get("interceptors", []), MortalActivities(self._deaths)]
        runner = config["workflow_runner"]
        vars(runner)["create_instance"] = partial(self._created, runner.create_instance)
        return config

    def _created(self, create: Callable[[Details], Instance], details: Details) -> Instance:
        instance = create(details)
        vars(instance)["activate"] = MortalTasks(self._deaths, instance.activate)
        return instance


class MortalActivities(Interceptor):
    """Inside of all others: what Temporal is told of an activity is not yet told when it dies after its effect."""

    def __init__(self, deaths: Deaths) -> None:
        self._deaths = deaths

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:  # noqa: A002 (theirs)
        return _MortalActivity(next, self._deaths)


class _MortalActivity(ActivityInboundInterceptor):
    def __init__(self, inner: ActivityInboundInterceptor, deaths: Deaths) -> None:
        super().__init__(inner)
        self._deaths = deaths

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:  # noqa: A002 (the SDK's name)
        name = activity.info().activity_type
        self._deaths.pass_by(f"{name}.{BEFORE}")
        answer = await super().execute_activity(input)
        self._deaths.pass_by(f"{name}.{AFTER}")
        return answer


class MortalTasks:
    """The step of a workflow that an activity's answer leads to: it is made, and dies with whoever made it."""

    def __init__(self, deaths: Deaths, activate: Callable[[WorkflowActivation], WorkflowActivationCompletion]) -> None:
        self._deaths = deaths
        self._activate = activate
        self._scheduled: dict[int, str] = {}

    def __call__(self, given: WorkflowActivation) -> WorkflowActivationCompletion:
        answered = [job.resolve_activity.seq for job in given.jobs if job.HasField("resolve_activity")]
        made = self._activate(given)
        for command in made.successful.commands:
            if command.HasField("schedule_activity"):
                self._scheduled[command.schedule_activity.seq] = command.schedule_activity.activity_type
        for number in answered:
            self._deaths.pass_by(f"{self._scheduled[number]}.{THEN}")
        return made
