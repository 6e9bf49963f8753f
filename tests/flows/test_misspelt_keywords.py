"""Misspelt keywords of a step were accepted by the graph, the push and the run, and failed with the call.

The refusal of an unknown option did not list the options, and gave no hint for `args` and `kwargs`.
"""

from typing import Any

import pytest

from crawler_lifecycle.errors import BadInput
from crawler_lifecycle.flows import Workflow, crawl, job, step
from tests.kit.authors.work import greet, plain

pytestmark = pytest.mark.regression(
    "Misspelt keywords of a step were accepted by the graph, the push and the run, and failed with the call"
)


@job()
def takes_all(first: int = 0, **further: Any) -> dict[str, Any]:
    return further


@job()
def none() -> None: ...


@step()
def with_results(price: float, tax: float = 0.2) -> float:
    return price * tax


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: greet.job.with_kwargs(nmae="ann"), "arguments: greet has no parameter 'nmae'; did you mean 'name'?"),
        (lambda: greet.job.with_kwargs({"size": 1}), "arguments: greet has no parameter 'size'; it has 'name'"),
        (lambda: none.job.with_kwargs(x=1), "arguments: none has no parameter 'x'; it has none"),
        (lambda: with_results.job.with_kwargs(tx=1), "arguments: with_results has no parameter 'tx'; did you mean"),
    ],
)
def test_a_misspelt_keyword_is_refused(build: Any, message: str) -> None:
    with pytest.raises(BadInput) as refusal:
        build()
    assert refusal.value.message.startswith(message)


def test_a_function_with_further_keywords_takes_all() -> None:
    assert takes_all.job.with_kwargs(anything=1).arguments == {"anything": 1}
    assert greet.job.with_options(priority=1).with_kwargs(name="ann").arguments == {"name": "ann"}


def test_an_unknown_option_lists_the_options() -> None:
    with pytest.raises(BadInput, match=r"is no option of 'plain'; possible are priority, .*, isolate, tags$"):
        Workflow().add("a", plain, quue="slow")  # type: ignore[call-arg]
    with pytest.raises(BadInput, match=r"give keywords by @job\(\) at the function, and plain\.job\.with_kwargs"):
        Workflow().add("a", plain, kwargs={"name": "ann"})  # type: ignore[call-arg]
    with pytest.raises(BadInput, match=r"is no option of 'books'; possible are .*, timeout, when$"):
        Workflow().add("a", crawl("books"), queue="slow")
