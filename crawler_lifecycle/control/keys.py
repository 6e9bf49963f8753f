"""Idempotency keys for starts. A second request with the same key starts no second run."""

import hashlib
import re
import uuid

from crawler_lifecycle.contract.records import RunRecord
from crawler_lifecycle.contract.requests import RunRequest
from crawler_lifecycle.errors import Conflict

NOT_COMPARED = {"requested_by"}


def workflow_id_of(crawler: str, installation: str, key: str | None) -> str:
    """Return the id of the run's workflow, which is random without a key and the same for the same key.

    Several installations may share a Temporal server, so the id also depends on the installation.
    """
    if key is None:
        slug = re.sub(r"[^a-z0-9]+", "-", crawler.lower()).strip("-")[:40] or "crawler"
        return f"crawl-{slug}-{uuid.uuid4().hex[:12]}"
    return f"crawl-key-{hashlib.sha256(f'{installation}:{key}'.encode()).hexdigest()[:32]}"


def refuse_another_request(known: RunRecord, request: RunRequest) -> None:
    """Raise Conflict if the key's first request was different.

    Fields that the first request left open were filled in since, so a repetition may leave the same fields open.
    """
    first, left_open = known.request.model_dump(), known.request.left_open
    different = [
        name
        for name, value in request.model_dump(exclude=NOT_COMPARED).items()
        if value != first[name] and not (value is None and name in left_open)
    ]
    if different:
        raise Conflict(f"the key was used for run {known.run_id}, with another {', '.join(different)}")
