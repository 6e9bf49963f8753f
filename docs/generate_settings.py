"""The reference of the settings, made from the settings of the package."""

import json
from collections.abc import Iterator
from typing import Any, Literal, get_args, get_origin

from annotated_types import Ge, Gt, Le
from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

from crawler_lifecycle.settings import Settings
from crawler_lifecycle.settings.configuration import secret_variables

ABOVE = """# Settings

Every process of the service reads its settings from the environment, once, at its start. If a value is invalid, the
process prints one line with the variable and does not start. Unknown variables are ignored.

`crawlctl up` passes its own environment to its parts, except for the addresses of Temporal and the scheduler service,
which it chooses itself; only the worker gets the ports of metrics and health. A command such as `crawlctl list` reads
settings from the environment, and the rest from the stack that runs on the state folder.

A secret may come from a file: `CRAWLER_DATABASE__URL_FILE=/secrets/url` in place of `CRAWLER_DATABASE__URL`. The same
holds for SECRETS.
AWS keys come from AWS's own variables and files.

If a default is empty, the last column describes the behaviour without a value.

`make docs` generates this page from [settings/](../crawler_lifecycle/settings).
"""
BELOW = """
## Temporal

The address of Temporal comes from Temporal's own variables, or from the profile of its configuration file. The most
common variables:

| variable | meaning |
| --- | --- |
| `TEMPORAL_ADDRESS` | host and port; default: `localhost:7233` |
| `TEMPORAL_NAMESPACE` | namespace; default: `default` |
| `TEMPORAL_API_KEY` | API key, which also switches TLS on |
| `TEMPORAL_TLS`, `TEMPORAL_TLS_SERVER_CA_CERT_PATH` | TLS, and the authority that has signed the server's certificate |
| `TEMPORAL_TLS_CLIENT_CERT_PATH`, `TEMPORAL_TLS_CLIENT_KEY_PATH` | the client's own certificate, for mutual TLS |
| `TEMPORAL_CONFIG_FILE`, `TEMPORAL_PROFILE` | another configuration file, another profile in it |
"""


def page() -> str:
    tables = [f"\n## {title}\n\n{_table(rows)}" for title, rows in _groups()]
    others = ", ".join(f"`{name}`" for name in sorted(secret_variables() - {"CRAWLER_DATABASE__URL"}))
    return ABOVE.replace("SECRETS", others) + "".join(tables) + BELOW


def _groups() -> Iterator[tuple[str, list[str]]]:
    """A group of settings is a model of its own; what stands by itself comes first."""
    prefix = str(Settings.model_config["env_prefix"])
    alone = {name: field for name, field in Settings.model_fields.items() if _group(field) is None}
    yield "General", _rows(prefix, alone)
    for name, field in Settings.model_fields.items():
        if group := _group(field):
            yield name.capitalize(), _rows(f"{prefix}{name.upper()}__", group.model_fields)


def _group(field: FieldInfo) -> type[BaseModel] | None:
    kind = field.annotation
    return kind if isinstance(kind, type) and issubclass(kind, BaseModel) else None


def _table(rows: list[str]) -> str:
    return "\n".join(["| variable | default | meaning |", "| --- | --- | --- |", *rows]) + "\n"


def _rows(prefix: str, fields: dict[str, FieldInfo]) -> list[str]:
    return [
        f"| `{prefix}{name.upper()}` | {_default(field)} | {_meaning(name, field)} |" for name, field in fields.items()
    ]


def _default(field: FieldInfo) -> str:
    value = field.default.get_secret_value() if isinstance(field.default, SecretStr) else field.default
    return f"`{value}`" if not field.is_required() and not field.default_factory and value not in (None, "") else ""


def _meaning(name: str, field: FieldInfo) -> str:
    if not field.description:
        raise ValueError(f"{name} has no description in crawler_lifecycle/settings/")
    expected = [*_choices(field.annotation), *(_bound(limit) for limit in field.metadata)]
    return f"{field.description} ({', '.join(expected)})" if expected else field.description


def _choices(kind: Any) -> list[str]:
    return [" or ".join(f"`{word}`" for word in get_args(kind))] if get_origin(kind) is Literal else []


def _bound(limit: object) -> str:
    match limit:
        case Ge(ge=least):
            return f"at least {json.dumps(least)}"
        case Gt(gt=below):
            return f"more than {json.dumps(below)}"
        case Le(le=most):
            return f"at most {json.dumps(most)}"
        case _:
            raise ValueError(f"no words for {limit}")
