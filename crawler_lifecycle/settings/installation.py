"""Finds the installation for a command: its settings, and its Temporal server.

`locate` reads the environment. Variables that the environment lacks come from the embedded stack on the state folder.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from crawler_lifecycle.logs import without_credentials
from crawler_lifecycle.settings import PREFIX, Settings, configuration, default_state, stack_file

TEMPORAL = "TEMPORAL_"  # prefix for variables with Temporal's own configuration


@dataclass(frozen=True, slots=True)
class Installation:
    settings: Settings
    temporal: Mapping[str, str]  # an environment from which Temporal's client reads its own variables

    @classmethod
    def with_variables(cls, folder: Path, variables: Mapping[str, str]) -> "Installation":
        """Return the installation for the environment and further variables, which override the environment."""
        return cls(configuration.load(**_nested(variables) | {"state": folder}), _temporal_environment(variables))

    @property
    def database_name(self) -> str:
        """Return the address of the database, without user, password and options."""
        return without_credentials(self.settings.database_url).partition("?")[0]


class Kept:
    """A process's installation with the secrets after their removal from the environment."""

    installation: ClassVar[Installation | None] = None
    secrets: ClassVar[Mapping[str, str]] = {}

    @classmethod
    def keep(cls, installation: Installation, secrets: Mapping[str, str]) -> None:
        cls.installation, cls.secrets = installation, secrets


def locate(state: Path | None = None) -> Installation:
    """Return the installation by the environment and, for missing variables, by the stack on the state folder.

    If the process keeps an installation on the folder, return the kept installation.
    """
    folder = state_folder(state)
    if Kept.installation is not None and Kept.installation.settings.state == folder:
        return Kept.installation
    return Installation.with_variables(folder, _missing_variables(folder))


def keep_installation() -> Settings:
    """Keep the installation for clients in authors' functions, then forget its secrets. Return the settings."""
    located = locate()
    Kept.keep(located, configuration.forget_secrets())
    return located.settings


def environment_for_child(state: Path | None = None) -> dict[str, str]:
    """Return the environment for a child process, which then has the same installation as `locate` returns."""
    folder = state_folder(state)
    if Kept.installation is not None and Kept.installation.settings.state == folder:
        return {**os.environ, **Kept.secrets}
    missing = _missing_variables(folder)
    return {**_temporal_environment(missing), **missing, "CRAWLER_STATE": str(folder)}


def is_known(state: Path | None = None) -> bool:
    """Return whether the environment names an installation, or the state folder has a recorded stack."""
    in_environment = any(_is_in_environment(name) for name in ("TEMPORAL_ADDRESS", "CRAWLER_DATABASE__URL"))
    return in_environment or stack_file.read(state_folder(state)) is not None


def _missing_variables(folder: Path) -> dict[str, str]:
    """Return the variables of the folder's stack that the environment does not have."""
    stack = stack_file.read(folder)
    stack_variables = stack.environment if stack else {}
    return {name: value for name, value in stack_variables.items() if not _is_in_environment(name)}


def state_folder(state: Path | None = None) -> Path:
    """Return this folder as an absolute path; without a folder, the folder by the environment or the default."""
    return (state or Path(os.environ.get("CRAWLER_STATE") or default_state())).expanduser().absolute()


def _is_in_environment(name: str) -> bool:
    """Return whether the variable, or its file, is taken from the environment, and not from the stack.

    With TEMPORAL_ADDRESS in the environment, no Temporal variable is taken from the stack: the credentials of the
    stack's server must not go to another server.
    """
    deciding_name = "TEMPORAL_ADDRESS" if name.startswith(TEMPORAL) else name
    return deciding_name in os.environ or f"{deciding_name}_FILE" in os.environ


def _temporal_environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the environment. If `variables` has Temporal's variables, the environment's own are left out."""
    replacements = {name: value for name, value in variables.items() if name.startswith(TEMPORAL)}
    if not replacements:
        return dict(os.environ)
    return {name: value for name, value in os.environ.items() if not name.startswith(TEMPORAL)} | replacements


def _nested(variables: Mapping[str, str]) -> dict[str, Any]:
    """Return the settings in the variables as a tree: `CRAWLER_A__B=c` becomes `{"a": {"b": "c"}}`."""
    tree: dict[str, Any] = {}
    for name, value in variables.items():
        if name.startswith(PREFIX):
            *groups, field = name.removeprefix(PREFIX).lower().split("__")
            branch = tree
            for group in groups:
                branch = branch.setdefault(group, {})
            branch[field] = value
    return tree
