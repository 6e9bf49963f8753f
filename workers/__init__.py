"""Mains of all processes, such as `python -m workers.lifecycle`."""

from crawler_lifecycle.extras import require

require("server")
