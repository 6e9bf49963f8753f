"""The open oban-py: marks for workers and functions, the client, and workers' results."""

from crawler_lifecycle.compat.oban.app import Oban
from crawler_lifecycle.compat.oban.decorators import job, worker
from crawler_lifecycle.flows import Cancel, Record, Snooze
from crawler_lifecycle.flows import RunningJob as Job

__all__ = ["Cancel", "Job", "Oban", "Record", "Snooze", "job", "worker"]
