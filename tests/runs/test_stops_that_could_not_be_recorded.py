import json

import pytest

from crawler_lifecycle.errors import BadInput
from crawler_lifecycle.model.requests import StopRequest, any_stop, parse

pytestmark = pytest.mark.regression(
    "A stop whose words no database keeps, or no parser reads, was tried for ever instead of carried out"
)

UNKEEPABLE = [
    "2026-01-01T00:00:00",  # of which zone?
    "0001-01-01T00:00:00+14:00",
    "9999-12-31T23:59:59-14:00",
    "3000-01-01T00:00:00Z",
    1e300,
    "soon",
]


@pytest.mark.parametrize("at", UNKEEPABLE)
def test_a_moment_that_cannot_be_kept_is_dropped_or_refused(at: object) -> None:
    payload = json.dumps({"force": True, "actor": "ann", "asked_at": at}).encode()
    assert any_stop(payload) == StopRequest(force=True, actor="ann")
    with pytest.raises(BadInput, match=r"^asked_at: "):
        parse(StopRequest, payload)


def test_a_moment_with_its_zone_is_kept() -> None:
    payload = b'{"asked_at": "2026-01-01T02:00:00+02:00"}'
    kept = any_stop(payload).asked_at
    assert kept is not None
    assert kept.timestamp() == 1767225600
    assert parse(StopRequest, payload).asked_at == kept


@pytest.mark.parametrize("data", [b"[" * 200_000, b'{"force":' * 200_000])
def test_what_is_nested_without_end_is_a_stop(data: bytes) -> None:
    assert any_stop(data) == StopRequest()
