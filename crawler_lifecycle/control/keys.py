"""Idempotency keys for starts: a second request with the same key starts no second run."""

import hashlib
import re
import uuid

from crawler_lifecycle.contract.records import RunRecord
from crawler_lifecycle.contract.requests import RunRequest
from crawler_lifecycle.errors import Conflict

NOT_COMPARED = {"requested_by"}


def workflow_id_of(crawler: str, installation: str, key: str | None) -> str:
    """Several installations may share a server, so the same key is another run in another installation."""
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
