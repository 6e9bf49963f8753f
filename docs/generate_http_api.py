"""The reference of the HTTP API, made from its OpenAPI document: a page for each group of endpoints, and schemas."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

DOCUMENT = Path(__file__).with_name("api-openapi.json")
TITLES = {
    "commanding": "Start and stop runs",
    "reading": "Read runs and crawlers",
    "following": "Follow changes",
    "flows": "Flows and managers",
    "schedules": "Schedules",
    "limits": "Limits and pauses",
    "auditing": "Audits",
    "health": "Health",
}


def pages() -> dict[str, str]:
    """Return the pages by their names."""
    document = json.loads(DOCUMENT.read_text())
    groups: dict[str, list[str]] = {tag: [] for tag in TITLES}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            groups[operation["tags"][0]].append(_operation(method, path, operation))
    index = (
        f"# HTTP API\n\n{document['info']['description'].strip()}\n\nThe [OpenAPI document](../../api-openapi.json).\n"
    )
    links = "".join(f"- [{title}]({tag}.md)\n" for tag, title in TITLES.items())
    schemas = "".join(_schema(name, schema) for name, schema in sorted(document["components"]["schemas"].items()))
    return {
        "index": f"{index}\n{links}- [Schemas](schemas.md)\n",
        **{tag: f"# {TITLES[tag]}\n\n" + "".join(parts) for tag, parts in groups.items()},
        "schemas": f"# Schemas\n\n{schemas}",
    }


def _operation(method: str, path: str, operation: dict[str, Any]) -> str:
    parts = [f"## {method.upper()} {path}\n\n**{operation['summary']}.** {operation.get('description', '')}\n\n"]
    rows = [
        f"| `{each['name']}` | {each['in']} | {_type(each['schema'])} | {'yes' if each.get('required') else ''} "
        f"| {_cell(each.get('description') or each['schema'].get('description', ''))} |\n"
        for each in operation.get("parameters", ())
    ]
    if rows:
        parts.append("| parameter | in | type | required | meaning |\n| --- | --- | --- | --- | --- |\n")
        parts += [*rows, "\n"]
    if body := operation.get("requestBody"):
        parts.append(f"Body: {', '.join(_contents(body))}\n\n")
    parts.append("| status | answer | meaning |\n| --- | --- | --- |\n")
    parts += [
        f"| {status} | {', '.join(_contents(answer))} | {_cell(answer.get('description', ''))} |\n"
        for status, answer in sorted(operation["responses"].items())
    ]
    return "".join([*parts, "\n"])


def _contents(part: dict[str, Any]) -> Iterator[str]:
    for kind, content in part.get("content", {}).items():
        yield _type(content.get("schema", {})) if "json" in kind else f"`{kind}`"


def _schema(name: str, schema: dict[str, Any]) -> str:
    required = schema.get("required", ())
    fields = schema.get("properties", {}).items()
    rows = "".join(
        f"| `{name}` | {_type(field)} | {'yes' if name in required else ''} | {_cell(field.get('description', ''))} |\n"
        for name, field in fields
    )
    table = f"| field | type | required | meaning |\n| --- | --- | --- | --- |\n{rows}\n" if rows else ""
    kind = "" if rows else f"{_type(schema)}\n\n"
    return f"## {name}\n\n{schema.get('description', '')}\n\n{kind}{table}"


def _type(schema: dict[str, Any]) -> str:
    if reference := schema.get("$ref"):
        name = reference.rpartition("/")[2]
        return f"[{name}](schemas.md#{name.lower()})"
    if choices := schema.get("anyOf") or schema.get("oneOf") or schema.get("allOf"):
        return " or ".join(dict.fromkeys(_type(each) for each in choices))
    if values := schema.get("enum") or [schema[key] for key in ("const",) if key in schema]:
        return ", ".join(f"`{each}`" for each in values)
    if "items" in schema:
        return f"list of {_type(schema['items'])}"
    if isinstance(more := schema.get("additionalProperties"), dict) and more:
        return f"object of {_type(more)}"
    return str(schema.get("format") or schema.get("type") or "any")


def _cell(text: str) -> str:
    return re.sub(r"\s*\n\s*", " ", text).replace("|", "\\|")
