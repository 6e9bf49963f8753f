"""Opens the installation itself, for commands without the API."""

from pathlib import Path
from typing import TYPE_CHECKING

from crawler_lifecycle.console.common import requester

if TYPE_CHECKING:
    from crawler_lifecycle.assembly.control import Control
    from crawler_lifecycle.assembly.parts import Parts


def open_control(state: Path | None, actor: str | None = None) -> "Control":
    """Return all commands for the installation itself."""
    from crawler_lifecycle.assembly.control import Control

    return Control.open(state).asked_by(requester(actor))


def open_parts(state: Path | None) -> "Parts":
    """Return the installation's adapters."""
    from crawler_lifecycle.assembly.parts import Parts
    from crawler_lifecycle.settings.installation import locate

    return Parts(locate(state).settings)
