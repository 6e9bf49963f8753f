"""Log levels for managers' own files, which run as programs."""

import logging
import os


def get_kumo_loglevel(default: str = "INFO") -> int:
    """Return the number of the level in the variable LOG_LEVEL, such as `DEBUG` or `10`."""
    name = (os.environ.get("LOG_LEVEL") or default).strip().upper()
    levels = logging.getLevelNamesMapping()
    if name.isdigit():
        return int(name)
    return levels.get(name, levels[default])
