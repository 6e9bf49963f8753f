"""What do requests hold, and what do receivers of notices and events get? For programs in other languages: writes
`schemas/` from the contract, `python docs/generate_schemas.py`."""

import json
from pathlib import Path

from pydantic import BaseModel

from crawler_lifecycle.model.flow_states import FlowEvent, FlowNotice
from crawler_lifecycle.model.notices import ExportEvent, Notice, WebhookNotice
from crawler_lifecycle.model.requests import RunRequest, StopRequest

FOLDER = Path(__file__).with_name("schemas")
ACCEPTED: dict[str, type[BaseModel]] = {"run-request": RunRequest, "stop-request": StopRequest}
SENT: dict[str, type[BaseModel]] = {
    "event": ExportEvent,
    "flow-event": FlowEvent,
    "flow-notice": FlowNotice,
    "notice": Notice,
    "webhook": WebhookNotice,
}
DIALECT = {"$schema": "https://json-schema.org/draft/2020-12/schema"}


def schemas() -> dict[str, str]:
    """By file name."""
    accepted = {name: model.model_json_schema() for name, model in ACCEPTED.items()}
    sent = {name: model.model_json_schema(mode="serialization") for name, model in SENT.items()}
    return {f"{name}.json": json.dumps(DIALECT | schema, indent=2) + "\n" for name, schema in (accepted | sent).items()}


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, text in schemas().items():
        (FOLDER / name).write_text(text)
