"""Mains of all processes, such as `python -m workers.lifecycle`."""
