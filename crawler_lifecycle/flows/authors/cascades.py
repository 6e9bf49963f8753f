"""Cascades: functions with the context, alone or with an item."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from crawler_lifecycle.errors import BadInput
from crawler_lifecycle.flows.authors.building import named_items
from crawler_lifecycle.flows.authors.functions import check_parameters, reference, refusals_with_job
from crawler_lifecycle.flows.authors.jobs import StepJob
from crawler_lifecycle.flows.model.work import CallForm


def cascade_job(name: str, function: Any) -> StepJob:
    """Return the job for a function with the context. Items with a function make a single job with all items."""
    if isinstance(function, tuple):
        items, item_function = _pair(name, function)
        return _step(name, item_function, CallForm.ITEM).with_arguments(items)
    return _step(name, function, CallForm.CONTEXT)


def item_jobs(name: str, pair: tuple[Any, Callable[..., Any]]) -> list[tuple[str, StepJob]]:
    """Return a job for every item, by name."""
    items, function = _pair(name, pair)
    job = _step(name, function, CallForm.ITEM)
    return [(key, job.with_arguments(item)) for key, item in named_items(name, items)]


def task_job(name: str, function: Any) -> StepJob:
    """Return the job for a crawl's tasks."""
    return _step(name, function, CallForm.ITEM)


def _pair(name: str, pair: tuple[Any, ...]) -> tuple[Any, Callable[..., Any]]:
    if len(pair) != 2:
        raise BadInput(f"cascade {name!r}", f"expected (items, function), not {len(pair)} values")
    return pair[0], pair[1]


def _step(name: str, function: Any, form: CallForm) -> StepJob:
    marked = getattr(function, "job", None)
    if isinstance(function, StepJob):
        raise BadInput(f"cascade {name!r}", f"expected a function, not the job {function.title!r}")
    if not callable(function):
        raise BadInput(f"cascade {name!r}", f"expected a function, not {function!r}"[:200])
    with refusals_with_job(name):
        job = marked if isinstance(marked, StepJob) else StepJob(function=reference(function))
        check_parameters(function, 2 if form is CallForm.ITEM else 1, _EXAMPLES[form])
    return replace(job, form=form, arguments=None, required=(), keywords=None)


_EXAMPLES = {CallForm.ITEM: "function(item, context)", CallForm.CONTEXT: "function(context)"}
