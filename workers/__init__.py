"""The mains, one a process: `python -m workers.lifecycle`, `.dispatcher`, `.watcher`, `.scheduler`, `.api`."""
