"""Mains of all processes, such as `python -m workers.lifecycle`."""

import sys

from crawler_lifecycle.extras import require

try:
    require("server")
except ImportError as error:
    if sys.argv[0] == "-m":  # a process starts: a line is clearer than a traceback
        raise SystemExit(f"Error: {error}") from None
    raise
