"""Chancy's package: the application, jobs and queues."""

from crawler_lifecycle.compat.chancy.app import Chancy
from crawler_lifecycle.compat.chancy.job import Job, QueuedJob, job
from crawler_lifecycle.compat.chancy.queue import Queue
from crawler_lifecycle.compat.chancy.worker import Worker

__all__ = ["Chancy", "Job", "Queue", "QueuedJob", "Worker", "job"]
