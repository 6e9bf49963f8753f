"""The steps of a workflow, each named by what led to it: an activity's answer, a timer, a signal, an update ..."""

import hashlib
from collections.abc import Callable, Iterator

from temporalio import workflow
from temporalio.bridge.proto.workflow_activation import WorkflowActivation, WorkflowActivationJob
from temporalio.bridge.proto.workflow_completion import WorkflowActivationCompletion
from temporalio.worker import WorkflowInstance as Instance
from temporalio.worker import WorkflowInstanceDetails as Details

from tests.crash.deaths import Deaths

THEN = "then"
STEPS = "steps"
OF_WHICH = "~"
START, GOES_ON, TIMER, CANCEL, SIGNAL, UPDATE = "start", "continuation", "timer", "cancel", "signal", "update"
CHILD_BEGUN, CHILD_ENDED = "child begun", "child ended"


def steps_of(definition: type) -> set[str]:
    """What leads to steps of a workflow besides its activities, as it is declared. One that people speak to waits for
    them, and may go on for ever."""
    declared = workflow._Definition.must_from_class(definition)  # nothing public tells its handlers
    doors = {f"{SIGNAL} {name}" for name in declared.signals} | {f"{UPDATE} {name}" for name in declared.updates}
    return {f"{declared.name} {each}" for each in {START, *doors, *((GOES_ON, TIMER, CANCEL) if doors else ())}}


def steps(died: set[str]) -> list[str]:
    """Among these deaths, each by its kind."""
    known = [each.removeprefix(f"{STEPS}.") for each in died if each.startswith(f"{STEPS}.")]
    return [each.partition(OF_WHICH)[0] for each in known]


def kinds(died: set[str]) -> set[str]:
    return set(steps(died))


class DoomedSteps:
    """Each step is made, and dies with whoever made it before Temporal is told. Of what came before its worker was
    born, the steps are only made again."""

    def __init__(self, deaths: Deaths, instance: Instance, details: Details) -> None:
        self._deaths = deaths
        self._activate: Callable[[WorkflowActivation], WorkflowActivationCompletion] = instance.activate
        self._workflow = details.info.workflow_type
        self._scheduled: dict[int, str] = {}

    def __call__(self, given: WorkflowActivation) -> WorkflowActivationCompletion:
        answered = [job.resolve_activity.seq for job in given.jobs if job.HasField("resolve_activity")]
        made = self._activate(given)
        for command in made.successful.commands:
            for kind in ("schedule_activity", "schedule_local_activity"):
                if command.HasField(kind):
                    scheduled = getattr(command, kind)
                    self._scheduled[scheduled.seq] = scheduled.activity_type
        points = [f"{self._scheduled[number]}.{THEN}" for number in answered]
        if not given.is_replaying:
            points += [f"{STEPS}.{each}" for each in self._led_by(given)]
        self._deaths.pass_by(*points)
        return made

    def _led_by(self, given: WorkflowActivation) -> Iterator[str]:
        for job in given.jobs:
            kind, which = self._kind(job)
            if kind:
                yield f"{self._workflow} {kind}{OF_WHICH}{given.run_id}{OF_WHICH}{which}"

    def _kind(self, job: WorkflowActivationJob) -> tuple[str | None, object]:
        """And which of that kind."""
        match job.WhichOneof("variant"):
            case "initialize_workflow":
                return GOES_ON if job.initialize_workflow.continued_from_execution_run_id else START, ""
            case "resolve_activity":
                return self._scheduled[job.resolve_activity.seq], job.resolve_activity.seq
            case "fire_timer":
                return TIMER, job.fire_timer.seq
            case "signal_workflow":  # has no name of its own: the same one said again is no other
                said = b"".join(each.data for each in job.signal_workflow.input)
                return f"{SIGNAL} {job.signal_workflow.signal_name}", hashlib.sha256(said).hexdigest()
            case "do_update":
                return f"{UPDATE} {job.do_update.name}", job.do_update.id
            case "cancel_workflow":
                return CANCEL, ""
            case "resolve_child_workflow_execution_start":
                return CHILD_BEGUN, job.resolve_child_workflow_execution_start.seq
            case "resolve_child_workflow_execution":
                return CHILD_ENDED, job.resolve_child_workflow_execution.seq
        return None, ""  # a question, or what only concerns the cache
