"""Inventory of the installation's jobs across all runs, by the metadata of Jobs and of pods without a Job."""

from collections.abc import Iterator, Sequence

from crawler_lifecycle.adapters.kubernetes import naming
from crawler_lifecycle.adapters.kubernetes.http.api import Api
from crawler_lifecycle.adapters.kubernetes.http.decoding import METADATA
from crawler_lifecycle.adapters.kubernetes.naming import key_of
from crawler_lifecycle.adapters.kubernetes.objects import NO_LABELS, Labels, Metadata
from crawler_lifecycle.domain.audit.subjects import ListedJob
from crawler_lifecycle.domain.looks import JobKey
from crawler_lifecycle.domain.naming import checked_uid
from crawler_lifecycle.errors import BadInput


def inventory(api: Api, installation: str | None) -> Iterator[Sequence[ListedJob]]:
    """Yield the jobs in pages of the API server. An error in a page is raised, and makes the inventory invalid."""
    seen: set[tuple[str | None, JobKey | None]] = set()
    for path in (api.jobs_path(), api.core_path("pods")):
        query = {"labelSelector": naming.selector(installation)}
        for body in api.pages(path, query, accept=naming.METADATA_LIST):
            page = METADATA.page(body)
            listed = [_listed(item.metadata) for item in page.whole if _is_ours(item.metadata.labels, installation)]
            listed += [ListedJob(item.name, None, None) for item in page.broken if _is_ours(item.labels, installation)]
            new = [job for job in listed if job.key is None or (job.run_uid, job.key) not in seen]
            seen |= {(job.run_uid, job.key) for job in new}
            yield new


def _is_ours(labels: Labels | None, installation: str | None) -> bool:
    owner = (labels or NO_LABELS).installation
    return owner is not None and installation in (None, owner)


def _listed(metadata: Metadata) -> ListedJob:
    labels = metadata.labels or NO_LABELS
    return ListedJob(metadata.name, _run_uid(labels), key_of(labels), metadata.creation_timestamp)


def _run_uid(labels: Labels) -> str | None:
    try:
        return checked_uid(labels.run_uid or "")
    except BadInput:
        return None
