"""A probe of the bed: controllers find a new API server late, and until then they know only old objects."""

from uuid import uuid4

from tests.kubernetes import fates
from tests.kubernetes.client import Client, until

LIMIT = 180.0


def until_jobs_complete(admin: Client) -> None:
    """Wait until a new Job runs to its end, so that every controller must have seen what it needs."""
    jobs, name = "/apis/batch/v1/namespaces/default/jobs", f"probe-{uuid4().hex[:8]}"
    container = {"name": "main", "image": fates.SUCCEEDS}
    pod = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    admin.post(jobs, {"metadata": {"name": name}, "spec": {"backoffLimit": 0, "template": pod}})
    until(lambda: admin.get(f"{jobs}/{name}")["status"].get("succeeded") == 1, "a job to complete", LIMIT)
    admin.delete(f"{jobs}/{name}", {"propagationPolicy": "Background"})
