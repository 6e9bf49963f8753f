"""Calls of steps: how a function gets its values, and what its result and its exceptions mean."""

from dataclasses import dataclass
from typing import Any

import pytest

from crawler_lifecycle.contract.flows.work import CallForm, StepWork
from crawler_lifecycle.errors import BadInput, NotFound
from crawler_lifecycle.flows import Cancel, Context, Graft, RunningJob, TaskReceipt, Workflow, step
from crawler_lifecycle.flows.calling import call_of, loaded, meaning, outcome_of, reason_of
from crawler_lifecycle.flows.marks import step_of
from tests.unit.flows import work

JOB = RunningJob("flow", "sub/step")
TASK = {"crawl": "shop", "task": 2, "run_id": 7, "run_uid": "uid"}


@dataclass
class Price:
    amount: float


def context_of(**values: Any) -> Context:
    return Context({name: lambda value=value: value for name, value in values.items()}, JOB)  # type: ignore[misc]


def call(function: Any, arguments: Any = None, *, form: CallForm | None = None, **values: Any) -> Any:
    job = function.job if hasattr(function, "job") else step_of(function)
    chosen = job.work if form is None else job.work.model_copy(update={"form": form})
    return call_of(chosen, arguments, JOB, context_of(**values))()


def add(amount: int, tax: int = 1) -> int:
    return amount + tax


def later(amount: int, __hidden: int = 0, *, tax: int = 1, **further: int) -> int:
    return amount + tax + len(further)


def number_of(task: TaskReceipt, context: Context) -> int:
    return task.task


def sum_of(prices: list[Price], factor: "int" = 2) -> float:
    return factor * sum(price.amount for price in prices)


def sloppy(name: str, context: Context) -> Any:
    return name


@step(max_attempts=2)
async def waits(context: Context) -> str:
    return "waited"


def test_a_function_takes_results_by_its_parameters_names() -> None:
    assert call(add, amount=2) == 3
    assert call(add, amount=2, tax=5, other=7) == 7
    assert call(later, amount=2, tax=5, other=7) == 7


def test_a_parameter_with_a_model_gets_an_instance() -> None:
    assert call(number_of, TASK, form=CallForm.ITEM) == 2
    assert call(sum_of, prices=[{"amount": 1.5}, {"amount": 2}]) == 7.0
    assert call(sloppy, 5, form=CallForm.ITEM) == 5  # a plain annotation changes nothing
    with pytest.raises(BadInput, match=r"prices: expected .*Price.*amount"):
        call(sum_of, prices=[{"amount": "much"}])


def test_a_worker_gets_its_arguments() -> None:
    job = work.SlowWorker.new({"a": 1})
    assert call_of(job.work, job.work.arguments, JOB, context_of())() == {"args": {"a": 1}}
    assert call_of(job.work, {"a": 2}, JOB, context_of())() == {"args": {"a": 2}}


def test_a_marked_function_gets_its_keywords() -> None:
    assert call(work.greet, {"name": "ann"}) == "hello ann"


async def test_an_async_function_returns_its_coroutine() -> None:
    chosen = call_of(waits.job.work, None, JOB, context_of())
    assert chosen.is_async
    assert await chosen() == "waited"
    assert not call_of(step_of(add).work, None, JOB, context_of(amount=1)).is_async


@pytest.mark.parametrize("name", ["no_such_module:f", "tests.unit.flows.work:none", "tests.unit.flows.work:LINES"])
def test_a_function_that_the_modules_do_not_have_is_not_found(name: str) -> None:
    with pytest.raises(NotFound, match=f"no function {name}"):
        call_of(StepWork(function=name), None, JOB, context_of())


def test_a_loaded_function_is_the_function_of_its_module() -> None:
    assert loaded("tests.unit.flows.work:plain") is work.plain


def test_a_workflow_is_a_graft_from_a_grafter_only() -> None:
    grafter = RunningJob("flow", "sub/step", is_grafter=True)
    sub = Workflow().add("a", work.plain)
    graft = meaning(sub, grafter)
    assert isinstance(graft, Graft)
    assert graft.request.grafter == "sub/step"
    with pytest.raises(BadInput, match="only a job of add_graft may return a Workflow"):
        meaning(sub, JOB)
    cancel = Cancel("why")
    assert (meaning(cancel, JOB), meaning(3, JOB), meaning(graft, JOB)) == (cancel, 3, graft)


class Banned(Exception):
    outcome = "banned"


def test_an_exception_has_a_word_for_retry_rules_and_a_line_for_people() -> None:
    assert (outcome_of(ValueError("x")), outcome_of(Banned())) == ("ValueError", "banned")
    assert reason_of(ValueError("two\nlines")) == "ValueError: two lines"
    assert reason_of(Banned()) == "Banned"
