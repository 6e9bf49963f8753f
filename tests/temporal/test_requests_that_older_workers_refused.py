"""A request had all its fields on the wire, also new fields without a value. In an upgrade, a worker of the version
before refused the request for an unknown field, and the run of a flow's crawl was never made."""

import json
from typing import Any

import pytest

from crawler_lifecycle.model.flow_states import SuperviseFlow
from crawler_lifecycle.model.requests import FlowLink, RunRequest
from crawler_lifecycle.temporal.converter import OneInputConverter

pytestmark = pytest.mark.regression(
    "In an upgrade, a worker of the version before refused a request for a new field without a value"
)

LINK = FlowLink(flow_uid="u", flow_id="f", member=3, path="shop", generation=1, attempt=1)
LINK_SENT = {"flow_uid": "u", "flow_id": "f", "member": 3, "path": "shop", "generation": 1, "attempt": 1}


def sent(value: Any) -> Any:
    [payload] = OneInputConverter().to_payloads([value])
    assert payload.metadata["encoding"] == b"json/plain"
    return json.loads(payload.data)


@pytest.mark.parametrize(
    ("request_", "fields"),
    [
        (RunRequest(crawler="books"), {"crawler": "books"}),
        (RunRequest(crawler="books", settings={"DELAY": "2"}), {"crawler": "books", "settings": {"DELAY": "2"}}),
        (RunRequest(crawler="books", flow=LINK), {"crawler": "books", "flow": LINK_SENT}),
    ],
)
def test_a_request_is_sent_without_defaults(request_: Any, fields: dict[str, Any]) -> None:
    assert sent(request_) == fields
    assert type(request_).model_validate_json(json.dumps(fields)) == request_


def test_a_message_is_sent_whole() -> None:
    assert sent(SuperviseFlow(flow_uid="u", flow_id="f")) == {"flow_uid": "u", "flow_id": "f", "is_cancelled": False}
