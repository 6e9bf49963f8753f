"""What do receivers of notices and events get? Writes `schemas/`: `python docs/generate_schemas.py`."""

import json
from pathlib import Path

from pydantic import BaseModel

from crawler_lifecycle.contract.notices import ExportEvent, Notice, WebhookNotice

FOLDER = Path(__file__).with_name("schemas")
MODELS: dict[str, type[BaseModel]] = {"event": ExportEvent, "notice": Notice, "webhook": WebhookNotice}


def schemas() -> dict[str, str]:
    """By file name."""
    return {f"{name}.json": _schema(model) for name, model in MODELS.items()}


def _schema(model: type[BaseModel]) -> str:
    dialect = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    return json.dumps(dialect | model.model_json_schema(mode="serialization"), indent=2) + "\n"


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, text in schemas().items():
        (FOLDER / name).write_text(text)
