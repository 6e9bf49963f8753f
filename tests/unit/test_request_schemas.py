"""docs/*.schema.json say of a request what the contract says."""

import json
import runpy
from pathlib import Path

from crawler_lifecycle.contract.requests import RunRequest, StopRequest

DOCS = Path(__file__).parents[2] / "docs"


def test_the_schemas_are_up_to_date() -> None:
    made = runpy.run_path(str(DOCS / "generate_schemas.py"))["schemas"]()
    for name, schema in made.items():
        assert schema == (DOCS / name).read_text(), "run `python docs/generate_schemas.py`"


def test_they_describe_every_field_and_refuse_what_the_door_refuses() -> None:
    for name, model in (("run-request", RunRequest), ("stop-request", StopRequest)):
        schema = json.loads((DOCS / f"{name}.schema.json").read_text())
        assert schema["properties"].keys() == model.model_fields.keys()
        assert all(field.get("description") for field in schema["properties"].values())
        forbids = model.model_config.get("extra") == "forbid"
        assert schema.get("additionalProperties", True) is not forbids
    required = json.loads((DOCS / "run-request.schema.json").read_text())["required"]
    assert required == ["crawler"]
