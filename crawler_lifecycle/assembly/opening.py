"""Open an installation: the context of all commands, with the adapters of its settings."""

from pathlib import Path

from crawler_lifecycle.assembly.parts import Parts
from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.context import ControlContext
from crawler_lifecycle.settings.installation import Installation, locate


def context_of(installation: Installation) -> ControlContext[SqlStore]:
    return ControlContext(installation, Parts(installation.settings))


def open_context(state: Path | None = None) -> ControlContext[SqlStore]:
    """Return the context for the environment and this state folder."""
    return context_of(locate(state))
