"""Finds the installation for a command: its settings, and its Temporal server.

The environment has precedence. Settings missing there come from the embedded stack on the state folder.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crawler_lifecycle import configuration
from crawler_lifecycle.control import stack_file
from crawler_lifecycle.logs import without_credentials
from crawler_lifecycle.settings import PREFIX, Settings, default_state

TEMPORAL = "TEMPORAL_"


@dataclass(frozen=True, slots=True)
class Installation:
    settings: Settings
    temporal: Mapping[str, str]  # variables for Temporal's own configuration

    @classmethod
    def with_variables(cls, folder: Path, variables: Mapping[str, str]) -> "Installation":
        """Return the installation for these variables and the environment. These variables have precedence here.

        `locate` passes only variables missing in the environment.
        """
        return cls(configuration.load(**_nested(variables) | {"state": folder}), _temporal_environment(variables))

    @property
    def database_name(self) -> str:
        """The address of the database, without user, password and options."""
        return without_credentials(self.settings.database_url).partition("?")[0]


def locate(state: Path | None = None) -> Installation:
    """Return the installation by the environment and by the stack on this state folder."""
    folder = state_folder(state)
    stack = stack_file.read(folder)
    stack_variables = stack.environment if stack else {}
    missing = {name: value for name, value in stack_variables.items() if not _is_in_environment(name)}
    return Installation.with_variables(folder, missing)


def state_folder(state: Path | None = None) -> Path:
    return (state or Path(os.environ.get("CRAWLER_STATE") or default_state())).expanduser().absolute()


def _is_in_environment(name: str) -> bool:
    """Return whether the environment decides about the variable.

    With TEMPORAL_ADDRESS the environment decides about all of Temporal's variables: the credentials of the stack's
    server must not go to another server.
    """
    return ("TEMPORAL_ADDRESS" if name.startswith(TEMPORAL) else name) in os.environ


def _temporal_environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the environment. Temporal variables among `variables` replace all Temporal variables there."""
    replacements = {name: value for name, value in variables.items() if name.startswith(TEMPORAL)}
    if not replacements:
        return dict(os.environ)
    return {name: value for name, value in os.environ.items() if not name.startswith(TEMPORAL)} | replacements


def _nested(variables: Mapping[str, str]) -> dict[str, Any]:
    """Return `CRAWLER_A__B=c` as `{"a": {"b": "c"}}`."""
    tree: dict[str, Any] = {}
    for name, value in variables.items():
        if name.startswith(PREFIX):
            *groups, field = name.removeprefix(PREFIX).lower().split("__")
            branch = tree
            for group in groups:
                branch = branch.setdefault(group, {})
            branch[field] = value
    return tree
