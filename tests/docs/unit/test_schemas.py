"""Do docs/schemas and the how-to about notices and exports say what the contract says?"""

import json
import re
import runpy
import time
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from crawler_lifecycle.delivery.pushers.webhooks import Webhook, endpoints
from crawler_lifecycle.model.flow_states import FlowNotice
from crawler_lifecycle.model.notices import ExportEvent, WebhookNotice
from tests.kit.outside.messages import a_notice
from tests.kit.outside.receivers import Receiver, serving

DOCS = Path(__file__).parents[3] / "docs"
HOWTO = (DOCS / "howto" / "notices-and-exports.md").read_text()
SECRETS = [f"whsec_{letter * 40}" for letter in "AB"]


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", HOWTO, re.DOTALL)


def test_the_schemas_are_up_to_date() -> None:
    made = runpy.run_path(str(DOCS / "generate_schemas.py"))["schemas"]()
    written = {path.name: path.read_text() for path in (DOCS / "schemas").iterdir()}
    assert made == written, "run `python docs/generate_schemas.py`"


def test_what_is_sent_has_every_field_of_its_schema() -> None:
    schema = json.loads((DOCS / "schemas" / "notice.json").read_text())
    assert set(schema["required"]) == set(a_notice("n-1").model_dump(mode="json"))


@pytest.mark.parametrize(("number", "model"), [(0, FlowNotice), (1, WebhookNotice), (2, ExportEvent)])
def test_the_examples_are_what_would_be_sent(number: int, model: type[BaseModel]) -> None:
    shown = json.loads(blocks("json")[number])
    assert model.model_validate(shown).model_dump(mode="json") == shown


def test_the_lines_that_verify_a_webhook_do() -> None:
    (code,) = blocks("python")
    names: dict[str, Any] = {}
    exec(code, names)
    receiver = Receiver()
    with serving(receiver):
        (endpoint,) = endpoints(" ".join([receiver.url, *SECRETS]))
        Webhook(endpoint, 20).send(a_notice("n-1"))
        Webhook(endpoint, 20, clock=lambda: time.time() - 301).send(a_notice("n-1"))
    fresh, late = receiver.received
    verify = names["is_from_us"]
    assert all(verify(fresh.headers, fresh.body, secret) for secret in SECRETS)
    assert not verify(fresh.headers, fresh.body + b" ", SECRETS[0])
    assert not verify(fresh.headers, fresh.body, f"whsec_{'C' * 40}")
    assert not verify(late.headers, late.body, SECRETS[0])


def test_every_setting_that_is_named_is_one() -> None:
    known = runpy.run_path(str(DOCS / "generate_settings.py"))["page"]()
    named = set(re.findall(r"CRAWLER_[A-Z0-9_]+", HOWTO))
    assert named
    assert [name for name in named if f"`{name}`" not in known] == []
