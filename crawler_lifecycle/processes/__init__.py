"""Mains of all processes, such as `python -m crawler_lifecycle.processes.lifecycle`."""

from crawler_lifecycle.extras import require

require("server")
