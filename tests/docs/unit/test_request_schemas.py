"""docs/schemas say of a request what the contract says."""

import json
from pathlib import Path

from crawler_lifecycle.model.requests import RunRequest, StopRequest

SCHEMAS = Path(__file__).parents[3] / "docs" / "schemas"


def test_they_describe_every_field_and_refuse_what_the_door_refuses() -> None:
    for name, model in (("run-request", RunRequest), ("stop-request", StopRequest)):
        schema = json.loads((SCHEMAS / f"{name}.json").read_text())
        assert schema["properties"].keys() == model.model_fields.keys()
        assert all(field.get("description") for field in schema["properties"].values())
        forbids = model.model_config.get("extra") == "forbid"
        assert schema.get("additionalProperties", True) is not forbids
    required = json.loads((SCHEMAS / "run-request.json").read_text())["required"]
    assert required == ["crawler"]
