"""Mains of all processes: `python -m workers.lifecycle`, `.dispatcher`, `.watcher`, `.scheduler`, `.api`, `.triggers`."""
