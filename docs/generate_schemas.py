"""What may a request hold, for programs in other languages? Writes the JSON schemas from the contract:
`python docs/generate_schemas.py`."""

import json
from pathlib import Path

from pydantic import BaseModel

from crawler_lifecycle.contract.requests import RunRequest, StopRequest

FOLDER = Path(__file__).parent
FILES: dict[str, type[BaseModel]] = {
    "run-request.schema.json": RunRequest,
    "stop-request.schema.json": StopRequest,
}


def schemas() -> dict[str, str]:
    return {name: _schema(model) for name, model in FILES.items()}


def _schema(model: type[BaseModel]) -> str:
    made = {"$schema": "https://json-schema.org/draft/2020-12/schema", **model.model_json_schema()}
    return json.dumps(made, indent=2) + "\n"


if __name__ == "__main__":
    for name, schema in schemas().items():
        (FOLDER / name).write_text(schema)
