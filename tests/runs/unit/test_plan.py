"""Limits that the request names, or the crawler, or the installation: the nearest word counts."""

from dataclasses import fields
from itertools import product
from typing import Any

import pytest

from crawler_lifecycle.model.deployment import Crawler
from crawler_lifecycle.model.requests import AcceptedRequest
from crawler_lifecycle.model.retries import Retries
from crawler_lifecycle.runs.rules.plan import RunLimits, planned

LIMITS = ("start_limit_seconds", "max_duration_seconds", "grace_seconds")
BY_REQUEST, BY_CRAWLER, BY_DEFAULT = 100, 20, 3
BUILT_IN = {each.name: each.default for each in fields(RunLimits)}


def installation(limits: dict[str, Any]) -> RunLimits:
    return RunLimits(**limits)


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("said", list(product((BY_REQUEST, None), (BY_CRAWLER, None), (BY_DEFAULT, None))))
def test_the_request_goes_before_the_crawler_and_that_before_the_default(
    limit: str, said: tuple[int | None, int | None, int | None]
) -> None:
    by_request, by_crawler, by_default = ({} if each is None else {limit: each} for each in said)
    request = AcceptedRequest(crawler="books", **by_request)
    plan = planned(request, Crawler(name="books", **by_crawler), installation(by_default))
    nearest = next((each for each in said if each is not None), BUILT_IN[limit])
    assert {name: getattr(plan, name) for name in LIMITS} == {name: BUILT_IN[name] for name in LIMITS} | {
        limit: nearest
    }


@pytest.mark.parametrize(
    ("by_request", "by_crawler", "expected"),
    [
        ({}, {}, Retries(infrastructure=2, program=0, pause_seconds=10)),
        ({}, {"program": 3}, Retries(infrastructure=2, program=3)),
        ({"infrastructure": 0}, {"program": 3}, Retries(infrastructure=0)),
    ],
)
def test_retries_of_the_request_take_the_place_of_the_crawlers(
    by_request: dict[str, int], by_crawler: dict[str, int], expected: Retries
) -> None:
    request = AcceptedRequest(crawler="books", **({"retries": Retries(**by_request)} if by_request else {}))
    plan = planned(request, Crawler(name="books", retries=Retries(**by_crawler)), RunLimits())
    assert plan.retries == expected
    assert ("retries" in plan.left_open) is (not by_request)


def test_each_limit_has_a_source_of_its_own() -> None:
    start, longest, grace = LIMITS
    for to_request, to_crawler, to_default in (
        (start, longest, grace),
        (longest, grace, start),
        (grace, start, longest),
    ):
        request = AcceptedRequest(crawler="books", **{to_request: BY_REQUEST})
        plan = planned(
            request, Crawler(name="books", **{to_crawler: BY_CRAWLER}), installation({to_default: BY_DEFAULT})
        )
        found = [getattr(plan, name) for name in (to_request, to_crawler, to_default)]
        assert found == [BY_REQUEST, BY_CRAWLER, BY_DEFAULT]
