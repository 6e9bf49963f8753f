"""Reads the settings from the environment, and finds misspelt variables, for the mains and `crawlctl`."""

import os
import re
from collections.abc import Mapping, MutableMapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, SecretStr, ValidationError
from pydantic_settings import SettingsError

from crawler_lifecycle.base.refusals import expectation
from crawler_lifecycle.errors import NotReady
from crawler_lifecycle.settings import PREFIX, Settings

# Kubernetes sets variables for every Service. For a Service such as `crawler-api` the names begin with our prefix, and
# would be reported as misspelt.
SERVICE_LINK = re.compile(r"[A-Z0-9_]+_(SERVICE_(HOST|PORT(_\w+)?)=.*|PORT=\w+://.*|PORT_[0-9]+_(TCP|UDP|SCTP)\w*=.*)")


def misspelt(variables: Mapping[str, str]) -> list[str]:
    """Return a line for every misspelt variable with our prefix. Pydantic ignores such variables silently."""
    known = _variables(Settings, PREFIX) | _file_variables().keys()
    unknown = [name for name in variables if name.upper().startswith(PREFIX) and name.upper() not in known]
    wrong = [name for name in unknown if not SERVICE_LINK.fullmatch(f"{name}={variables[name]}")]
    return [f"{name} is not a setting and is ignored{_suggestion(name, known)}" for name in sorted(wrong)]


def secret_variables() -> set[str]:
    """Return the variables for secret settings."""
    names, groups = set[str](), [(PREFIX, Settings.model_fields)]
    while groups:
        prefix, fields = groups.pop()
        for name, field in fields.items():
            kind = field.annotation
            if SecretStr in (kind, *get_args(kind)) or not field.repr:
                names.add(prefix + name.upper())
            elif isinstance(kind, type) and issubclass(kind, BaseModel):
                groups.append((f"{prefix}{name.upper()}__", kind.model_fields))
    return names


def forget_secrets(environment: MutableMapping[str, str] = os.environ) -> dict[str, str]:
    """Remove secrets and their files' names from the environment, once the settings are read, for child processes.

    Return the removed variables.
    """
    secret = secret_variables()
    names = [name for name in environment if name.upper().removesuffix("_FILE") in secret]
    return {name: environment.pop(name) for name in names}


def _file_variables() -> dict[str, str]:
    """Return the variables for files with secret settings, such as CRAWLER_DATABASE__URL_FILE, with the settings."""
    by_file = {f"{name}_FILE": name for name in secret_variables()}
    return {file: name for file, name in by_file.items() if file not in _variables(Settings, PREFIX)}


def _secrets_in_files() -> dict[str, dict[str, str]]:
    """Return the secret settings whose variables name files, by group and field."""
    environment = {name.upper(): value for name, value in os.environ.items()}
    secrets: dict[str, dict[str, str]] = {}
    for file, name in _file_variables().items():
        if file not in environment:
            continue
        if name in environment:
            raise NotReady(f"{file}: expected without {name}: leave out one of the two")
        try:
            text = Path(environment[file]).read_text().rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "expected a text"
            raise NotReady(f"{file}: {environment[file]} cannot be read: {reason}") from error
        group, _, field = name.removeprefix(PREFIX).lower().partition("__")
        secrets.setdefault(group, {})[field] = text
    return secrets


def _suggestion(name: str, known: set[str]) -> str:
    """Return the line's end about a misspelt variable: the most similar setting; empty if none is similar."""
    fields = sorted(variable.removeprefix(PREFIX) for variable in known)
    similar = get_close_matches(name.upper().removeprefix(PREFIX), fields, 1)
    return f": is {PREFIX}{similar[0]} meant?" if similar else ""


def _variables(group: type[BaseModel], prefix: str) -> set[str]:
    """Return the variables for a group's fields, and for whole groups inside: pydantic accepts groups as JSON."""
    names = set()
    for name, field in group.model_fields.items():
        names.add(f"{prefix}{name.upper()}")
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            names |= _variables(field.annotation, f"{prefix}{name.upper()}__")
    return names


def load(**overrides: Any) -> Settings:
    """Return the settings; raise NotReady with a line that names the variable. `overrides` replace variables."""
    for group, secrets in _secrets_in_files().items():
        overrides[group] = {**secrets, **overrides.get(group, {})}
    try:
        return Settings(**overrides)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        # a field's error has the field's place in `loc`; a rule about several settings has no place, and gives the
        # variable's name as the error's type (see `Settings`)
        variable = PREFIX + "__".join(str(part) for part in first["loc"]).upper() if first["loc"] else first["type"]
        raise NotReady(f"{variable}: {expectation(first)}") from error
    except SettingsError as error:
        raise NotReady(f"CRAWLER_...: {error}; a group is set by its fields, as in CRAWLER_DATABASE__URL") from error
