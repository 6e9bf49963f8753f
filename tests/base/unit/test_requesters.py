"""Requesters: the name of the API's token beside a claimed name, and claims that look like tokens."""

import pytest

from crawler_lifecycle.base.requesters import LONGEST_REQUESTER, Requester, of_token
from crawler_lifecycle.errors import BadInput
from crawler_lifecycle.flows.model.requests import HoldFlow
from crawler_lifecycle.model.requests import RunRequest, StopRequest


@pytest.mark.parametrize(
    ("requester", "name"),
    [
        (Requester(), None),
        (Requester("ann", door="crawlctl"), "ann"),
        (of_token("shop", None, "api"), "token shop"),
        (of_token("shop", "ceo@example.com", "api"), "ceo@example.com (token shop)"),
        (of_token("shop", "shop", "api"), "shop (token shop)"),
        (of_token("shop", "ann (token shop)", "api"), "ann (token shop)"),
        (of_token("shop", "token shop", "api"), "token shop"),
    ],
)
def test_a_name_tells_what_is_proved(requester: Requester, name: str | None) -> None:
    assert requester.name == name
    assert requester.record == {"actor": name, "door": requester.door}


@pytest.mark.parametrize(
    "claimed",
    ["ceo (token admin)", "ceo (TOKEN admin)", "token admin", "Token admin", "ceo (token admin) (token shop)"],
)
def test_no_claimed_name_looks_like_a_token(claimed: str) -> None:
    with pytest.raises(BadInput) as refused:
        of_token("shop", claimed, "api", "requested_by")
    assert refused.value.field == "requested_by"


@pytest.mark.parametrize("token", ["t", "t" * 128])
def test_a_long_claimed_name_is_refused_whatever_the_token_is_called(token: str) -> None:
    """A name of 256 to 390 characters passed beside the short name of a token."""
    with pytest.raises(BadInput, match="at most 256 characters") as refused:
        of_token(token, "c" * 257, "api", "requested_by")
    assert refused.value.field == "requested_by"
    with pytest.raises(BadInput, match="at most 256 characters") as refused:
        Requester("c" * 257, door="crawlctl")
    assert refused.value.field == "actor"


def test_the_longest_name_fits_into_all_requests() -> None:
    name = of_token("t" * 128, "c" * 256, "api").name
    assert name is not None
    assert len(name) <= LONGEST_REQUESTER
    assert RunRequest(crawler="books", requested_by=name).requested_by == name
    assert StopRequest(actor=name).actor == name
    assert HoldFlow(hold="pause", actor=name).actor == name
