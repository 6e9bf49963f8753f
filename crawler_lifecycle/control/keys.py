"""Idempotency keys for starts of runs. A second request with the same key starts no second run."""

import hashlib
import re
import uuid

from crawler_lifecycle.contract.records import RunRecord
from crawler_lifecycle.contract.requests import RunRequest
from crawler_lifecycle.errors import Conflict

NOT_COMPARED = {"requested_by"}  # another person may repeat the request with the same key


def workflow_id_of(crawler: str, installation: str, key: str | None) -> str:
    """Return the id of the run's workflow, which is random without a key and the same for the same key.

    Several installations may share a Temporal server, so the id also depends on the installation.
    """
    if key is None:
        slug = re.sub(r"[^a-z0-9]+", "-", crawler.lower()).strip("-")[:40] or "crawler"
        return f"crawl-{slug}-{uuid.uuid4().hex[:12]}"
    return f"crawl-key-{hashlib.sha256(f'{installation}:{key}'.encode()).hexdigest()[:32]}"


def refuse_another_request(run: RunRecord, request: RunRequest) -> None:
    """Raise Conflict if the request differs from the first request with the same key, which made the run.

    The fields that the first request left open were filled in later, so a repetition may leave the same fields open.
    """
    first_request = run.request.model_dump()

    def is_equal(name: str, value: object) -> bool:
        return value == first_request[name] or (value is None and name in run.request.left_open)

    fields = request.model_dump(exclude=NOT_COMPARED)
    different = [name for name, value in fields.items() if not is_equal(name, value)]
    if different:
        raise Conflict(f"the key was used for run {run.run_id}, with another {', '.join(different)}")
