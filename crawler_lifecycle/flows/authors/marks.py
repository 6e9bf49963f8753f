"""Marks: decorators that give options to functions and classes as steps. A plain function needs no mark."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any, ParamSpec, Protocol, TypeVar, Unpack, cast

from crawler_lifecycle.errors import BadInput
from crawler_lifecycle.flows.authors.functions import (
    call_form,
    keyword_names,
    reference,
    refusals_with_job,
    required_names,
)
from crawler_lifecycle.flows.authors.jobs import Job, JobOptions, StepJob
from crawler_lifecycle.flows.model.work import CallForm

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)
Class = TypeVar("Class")


class StepFunction(Protocol[P, R_co]):
    """A function with a mark: `job` is the function as a job, and a call still calls the function."""

    job: StepJob

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co: ...


class Worker:
    """Base for worker classes, with a method `process(self, job)`.

    The mark `@worker()` alone gives a class the method `new`, too, but type checkers know the method only by this base.
    """

    _default: StepJob | None = None

    @classmethod
    def new(cls, args: Mapping[str, object] | None = None, **options: Unpack[JobOptions]) -> StepJob:
        """Return a job with these arguments."""
        return _job_of_class(cls).with_arguments(dict(args or {})).with_options(**options)


def is_step(value: object) -> bool:
    """Return whether the value is a function with a mark."""
    return isinstance(getattr(value, "job", None), StepJob)


def job(**options: Unpack[JobOptions]) -> Callable[[Callable[P, R_co]], StepFunction[P, R_co]]:
    """Mark a function for calls with keywords: `function.job.with_kwargs(...)` gives them."""

    def mark(function: Callable[P, R_co]) -> StepFunction[P, R_co]:
        step_job = StepJob(function=reference(function), form=CallForm.KEYWORDS, keywords=keyword_names(function))
        return _marked(function, step_job.with_options(**options))

    return mark


def step(**options: Unpack[JobOptions]) -> Callable[[Callable[P, R_co]], StepFunction[P, R_co]]:
    """Mark a function for calls by its parameters: with the context, or with results by their names."""

    def mark(function: Callable[P, R_co]) -> StepFunction[P, R_co]:
        return _marked(function, step_of(function).with_options(**options))

    return mark


def worker(**options: Unpack[JobOptions]) -> Callable[[type[Class]], type[Class]]:
    """Mark a class with a method `process(self, job)`. Every job from the class has its own arguments."""

    def mark(cls: type[Class]) -> type[Class]:
        marked: Any = cls
        marked._default = _job_of_class(cls).with_options(**options)
        if not issubclass(cls, Worker):
            marked.new = classmethod(Worker.new.__func__)  # type: ignore[attr-defined]
        return cls

    return mark


def _job_of_class(cls: type) -> StepJob:
    """Return a worker class's job without arguments, with the options from its own mark."""
    default = vars(cls).get("_default")
    if isinstance(default, StepJob):
        return default
    if not inspect.isfunction(getattr(cls, "process", None)):
        raise BadInput("worker", f"{cls.__qualname__} has no method process(self, job)")
    return StepJob(function=reference(cls), form=CallForm.JOB)


def step_of(function: Callable[..., Any]) -> StepJob:
    """Return a plain function as a job."""
    form = call_form(function)
    required = required_names(function) if form is CallForm.PARAMETERS else ()
    keywords = None if form is CallForm.CONTEXT else keyword_names(function)
    return StepJob(function=reference(function), form=form, required=required, keywords=keywords)


def as_job(name: str, value: object) -> Job:
    """Return the job for a job, a marked function, or a plain function."""
    marked = getattr(value, "job", None)
    if isinstance(value, Job):
        return value
    if isinstance(marked, Job):
        return marked
    if inspect.isclass(value):
        title = value.__qualname__
        advice = f"manager({title}, ...)" if hasattr(value, "workflow_loop") else f"{title}.new(...)"
        raise BadInput(f"job of {name!r}", f"is the class {title}; add {advice}")
    if not callable(value):
        raise BadInput(f"job of {name!r}", f"expected a crawl, a worker's job or a function, not {value!r}"[:200])
    with refusals_with_job(name):
        return step_of(value)


def _marked(function: Callable[P, R_co], step_job: StepJob) -> StepFunction[P, R_co]:
    marked = cast(StepFunction[P, R_co], function)
    marked.job = step_job
    return marked
