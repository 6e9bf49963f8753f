"""Marks: decorators that give options to functions and classes as steps. A plain function needs no mark."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any, ParamSpec, Protocol, TypeVar, Unpack, cast

from crawler_lifecycle.contract.flows.work import CallForm
from crawler_lifecycle.errors import BadInput
from crawler_lifecycle.flows.functions import call_form, reference, required_names
from crawler_lifecycle.flows.jobs import Job, JobOptions, StepJob

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)


class StepFunction(Protocol[P, R_co]):
    """A function with a mark: `job` is the function as a job, and a call still calls the function."""

    job: StepJob

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co: ...


class WorkerClass(Protocol[R_co]):
    """A class with the mark `@worker()`: `new` returns a job."""

    def __call__(self) -> R_co: ...

    def new(self, args: Mapping[str, object] | None = None, **options: Unpack[JobOptions]) -> StepJob: ...


def job(**options: Unpack[JobOptions]) -> Callable[[Callable[P, R_co]], StepFunction[P, R_co]]:
    """Mark a function that is called with keywords: `function.job.with_kwargs(...)` gives them."""

    def mark(function: Callable[P, R_co]) -> StepFunction[P, R_co]:
        step_job = StepJob(function=reference(function), form=CallForm.KEYWORDS).with_options(**options)
        return _marked(function, step_job)

    return mark


def step(**options: Unpack[JobOptions]) -> Callable[[Callable[P, R_co]], StepFunction[P, R_co]]:
    """Mark a function that is called by its parameters: with the context, or with results by their names."""

    def mark(function: Callable[P, R_co]) -> StepFunction[P, R_co]:
        return _marked(function, step_of(function).with_options(**options))

    return mark


def worker(**options: Unpack[JobOptions]) -> Callable[[type[R_co]], WorkerClass[R_co]]:
    """Mark a class with a method `process(self, job)`. Each job of the class has arguments of its own."""

    def mark(cls: type[R_co]) -> WorkerClass[R_co]:
        process = getattr(cls, "process", None)
        if not inspect.isfunction(process):
            raise BadInput("worker", f"{cls.__qualname__} has no method process(self, job)")
        default = StepJob(function=reference(cls), form=CallForm.JOB).with_options(**options)

        def new(args: Mapping[str, object] | None = None, **own: Unpack[JobOptions]) -> StepJob:
            return default.with_arguments(dict(args or {})).with_options(**own)

        cls.new = staticmethod(new)  # type: ignore[attr-defined]
        return cast(WorkerClass[R_co], cls)

    return mark


def step_of(function: Callable[..., Any]) -> StepJob:
    """Return a plain function as a job."""
    form = call_form(function)
    required = required_names(function) if form is CallForm.PARAMETERS else ()
    return StepJob(function=reference(function), form=form, required=required)


def as_job(name: str, value: object) -> Job:
    """Return the job for anything that authors may add: a job, a marked function, or a plain function."""
    marked = getattr(value, "job", None)
    if isinstance(value, Job):
        return value
    if isinstance(marked, Job):
        return marked
    if inspect.isclass(value):
        raise BadInput(f"job of {name!r}", f"is the class {value.__qualname__}; add {value.__qualname__}.new(...)")
    if not callable(value):
        raise BadInput(f"job of {name!r}", f"expected a crawl, a worker's job or a function, not {value!r}"[:200])
    return step_of(value)


def _marked(function: Callable[P, R_co], step_job: StepJob) -> StepFunction[P, R_co]:
    marked = cast(StepFunction[P, R_co], function)
    marked.job = step_job
    return marked
