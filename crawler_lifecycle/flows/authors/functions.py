"""Find out how steps' functions are named and called, and mark functions and classes as steps with options.

A plain function needs no mark.
"""

import functools
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import PurePath
from typing import Any, ParamSpec, Protocol, TypeVar, Unpack, cast

from crawler_lifecycle.base.limits import LONGEST_FUNCTION
from crawler_lifecycle.errors import BadInput
from crawler_lifecycle.flows.authors.jobs import Job, JobOptions, StepJob
from crawler_lifecycle.flows.model.definition import CallForm

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)
Class = TypeVar("Class")


def reference(function: Callable[..., Any] | type) -> str:
    """Return `module:qualname`; raise BadInput, with the reason, for a function that another process cannot find."""
    reason = _why_no_function(function) or _why_unfindable(function)
    if reason:
        raise BadInput("job", f"{_title(function)} {reason}: a step is a function at the top level of a module")
    name = f"{_module(function.__module__)}:{function.__qualname__}"
    if len(name) > LONGEST_FUNCTION:
        raise BadInput("job", f"{name[:80]}... has {len(name)} characters, at most {LONGEST_FUNCTION} are possible")
    return name


@contextmanager
def refusals_with_job(name: str) -> Iterator[None]:
    """Name the job in a refusal: a graph may have many functions."""
    try:
        yield
    except BadInput as error:
        raise BadInput(f"job of {name!r}", error.expected) from error


def call_form(function: Callable[..., Any]) -> CallForm:
    """Return how a plain function is called: without arguments, with the context, or by its parameters' names."""
    parameters = _parameters(function)
    if not parameters:
        return CallForm.KEYWORDS
    first = parameters[0]
    if len(parameters) == 1 and (first.name == "context" or "Context" in str(first.annotation)):
        return CallForm.CONTEXT
    return CallForm.PARAMETERS


def check_parameters(function: Callable[..., Any], number: int, example: str) -> None:
    """Raise BadInput if the function does not take `number` positional arguments."""
    try:
        inspect.signature(function).bind(*[None] * number)
    except TypeError as error:
        raise BadInput("job", f"{_title(function)} is called as {example}, and cannot be: {error}") from error


def required_names(function: Callable[..., Any]) -> tuple[str, ...]:
    """Return the parameters without defaults, for dependencies or context values with their names."""
    return tuple(part.name for part in _parameters(function) if part.default is inspect.Parameter.empty)


def keyword_names(function: Callable[..., Any]) -> tuple[str, ...] | None:
    """Return the parameters' names for keywords; None for a function with `**kwargs`."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:
        return None
    if any(part.kind is inspect.Parameter.VAR_KEYWORD for part in parameters):
        return None
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return tuple(part.name for part in parameters if part.kind in kinds)


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


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError as error:
        raise BadInput("job", f"{_title(function)} does not report its parameters") from error
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [part for part in parameters if part.kind not in variable]


def _why_no_function(function: Any) -> str | None:
    if isinstance(function, functools.partial):
        return "is a partial"
    if inspect.ismethod(function):
        return "is a bound method"
    if not inspect.isfunction(function) and not inspect.isclass(function):
        return "is no function"
    return None


def _why_unfindable(function: Any) -> str | None:
    if function.__name__ == "<lambda>":
        return "has no name"
    if "<locals>" in function.__qualname__:
        return "is defined inside a function"
    if "." in function.__qualname__:
        return "is defined inside a class"
    present = getattr(sys.modules.get(function.__module__), function.__name__, function)
    if inspect.unwrap(present) is not inspect.unwrap(function):
        return f"is not the function that {function.__module__} has under its name"
    return None


def _title(function: Any) -> str:
    while isinstance(function, functools.partial):
        function = function.func
    return str(getattr(function, "__qualname__", repr(function)))[:120]


def _module(name: str) -> str:
    """Return the module's name; the main module has the name under which a host imports its file."""
    if name != "__main__":
        return name
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    if spec is not None:
        return str(spec.name)
    file = getattr(main, "__file__", None)
    if file is None:
        raise BadInput("job", "is defined in an interactive session, where no other process can find it")
    return PurePath(file).stem


def _job_of_class(cls: type) -> StepJob:
    """Return a worker class's job without arguments, with the options from its own mark."""
    default = vars(cls).get("_default")
    if isinstance(default, StepJob):
        return default
    if not inspect.isfunction(getattr(cls, "process", None)):
        raise BadInput("worker", f"{cls.__qualname__} has no method process(self, job)")
    return StepJob(function=reference(cls), form=CallForm.JOB)


def _marked(function: Callable[P, R_co], step_job: StepJob) -> StepFunction[P, R_co]:
    marked = cast(StepFunction[P, R_co], function)
    marked.job = step_job
    return marked
