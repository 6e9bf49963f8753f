"""Read, list and delete our Jobs and pods by their key (task, attempt) in a run, and list the jobs of all runs.

A Job is ours by its labels, or by the uid on record: a user may have edited the labels since the deployment.
Threads share the work on a page of jobs, one call per job, so that one failing job delays no other job.
The inventory of all runs reads the metadata of Jobs, and of pods without a Job.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec

from crawler_lifecycle.adapters.kubernetes import naming
from crawler_lifecycle.adapters.kubernetes.http.answers import Missing
from crawler_lifecycle.adapters.kubernetes.http.api import Api
from crawler_lifecycle.adapters.kubernetes.http.decoding import JOBS, METADATA, NAMED, PODS, Decoder, Unreadable
from crawler_lifecycle.adapters.kubernetes.naming import key_named, key_of
from crawler_lifecycle.adapters.kubernetes.objects import NO_LABELS, Job, JobStatus, Labels, Metadata, Object, Pod
from crawler_lifecycle.domain.audit.subjects import ListedJob
from crawler_lifecycle.domain.looks import JobKey
from crawler_lifecycle.domain.naming import checked_uid, job_name
from crawler_lifecycle.errors import BadInput, TemporaryError

T = TypeVar("T")
R = TypeVar("R")
NO_OPTIONS: Mapping[str, int] = {}
THREADS = 16


class Annotations(msgspec.Struct, frozen=True, rename={"not_after": naming.NOT_AFTER}):
    not_after: str | None = None


class DatedMetadata(Metadata, frozen=True):
    annotations: Annotations | None = None


class DatedJob(Object, frozen=True):
    """Job with the annotation that removals read."""

    metadata: DatedMetadata
    status: JobStatus | None = None


DATED_JOBS = Decoder("Job", DatedJob)


@dataclass(frozen=True, slots=True)
class Jobs:
    api: Api
    installation: str | None
    pool: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(THREADS, thread_name_prefix="kubernetes")
    )

    def read_job(self, run_uid: str, key: JobKey, uid: str | None = None) -> Job | None:
        """Return the Job from the API server's storage; its metadata alone if the rest cannot be read.

        A Job with edited labels is still ours if its uid is `uid`, the uid on record, or if its pod template has our
        labels, since templates cannot be edited.
        """
        path = self.api.jobs_path(job_name(checked_uid(run_uid), *key))
        try:
            job = self._read(path)
        except Missing:
            return None
        is_on_record = uid is not None and job.metadata.uid == uid
        template = job.spec.template if job.spec else None
        template_labels = template.metadata.labels if template and template.metadata else None
        is_ours = any(self._is_labelled(labels, run_uid, key) for labels in (job.metadata.labels, template_labels))
        return job if is_on_record or is_ours else None

    def _read(self, path: str) -> Job:
        try:
            return JOBS.item(self.api.get(path))
        except Unreadable:
            return Job(NAMED.item(self.api.get(path, accept=naming.METADATA)).metadata)

    def list_jobs(self, run_uid: str, keys: Iterable[JobKey], until: float = math.inf) -> dict[JobKey, Job]:
        """List these Jobs, many tasks per request."""
        wanted = set(keys)
        pages = self._pages(self.api.jobs_path(), run_uid, (task for task, _ in wanted), until)
        jobs = (job for page in pages for job in JOBS.page(page).whole)
        return {
            key: job
            for job in jobs
            if (key := key_named(job.metadata.name, job.metadata.labels, run_uid)) and key in wanted
        }

    def dated(self, run_uid: str, tasks: Iterable[int]) -> dict[JobKey, DatedJob]:
        """List these tasks' Jobs in every attempt."""
        pages = self._pages(self.api.jobs_path(), run_uid, tasks)
        jobs = (job for page in pages for job in DATED_JOBS.page(page).whole)
        return {key: job for job in jobs if (key := _key(job, run_uid))}

    def dated_by_name(self, run_uid: str, uids: Mapping[JobKey, str]) -> dict[JobKey, DatedJob]:
        """Read these Jobs singly by their names. Return the existing Jobs with the uid on record."""
        jobs: dict[JobKey, DatedJob] = {}

        def read(key: JobKey) -> None:
            try:
                job = DATED_JOBS.item(self.api.get(self.api.jobs_path(job_name(checked_uid(run_uid), *key))))
            except (Missing, Unreadable):
                return
            if job.metadata.uid == uids[key]:
                jobs[key] = job

        self.for_each(read, uids, "not all jobs could be read by their names")
        return jobs

    def pods(self, run_uid: str, keys: Iterable[JobKey], until: float = math.inf) -> dict[JobKey, list[Pod]]:
        """Return pods by key, newest first."""
        wanted = set(keys)
        by_key: dict[JobKey, list[Pod]] = {}
        for page in self._pages(self.api.core_path("pods"), run_uid, (task for task, _ in wanted), until):
            for pod in PODS.page(page).whole:
                if (key := key_of(pod.metadata.labels)) and key in wanted:
                    by_key.setdefault(key, []).append(pod)
        return {key: _newest_first(pods) for key, pods in by_key.items()}

    def delete(
        self, path: str, read: Metadata, propagation: str | None, options: Mapping[str, int] = NO_OPTIONS
    ) -> None:
        """Delete exactly the object that was read: with the same uid, and a Job only in the same version.

        `propagation`: how a Job's deletion reaches its pods; None for a pod. The options are in the address as well as
        in the body: some clients and proxies drop the body of a DELETE.
        """
        chosen: dict[str, str | int] = {**options, **({"propagationPolicy": propagation} if propagation else {})}
        unchanged = {"resourceVersion": read.resource_version} if propagation and read.resource_version else {}
        body = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": read.uid, **unchanged}}
        self.api.delete(path, {**body, **chosen}, chosen)

    def for_each(self, act: Callable[[T], R], items: Iterable[T], what: str) -> list[R]:
        """Call `act` for every item, in threads. Raise the first TemporaryError after the last call.

        `what`: the error message's beginning.
        """
        done: list[R] = []
        failed: list[TemporaryError] = []
        for future in [self.pool.submit(act, item) for item in items]:
            try:
                done.append(future.result())
            except TemporaryError as error:
                failed.append(error)
        if failed:
            others = f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""
            raise TemporaryError(f"{what}: {failed[0].message}{others}") from failed[0]
        return done

    def _pages(self, path: str, run_uid: str, tasks: Iterable[int], until: float = math.inf) -> Iterator[bytes]:
        for selector in naming.selectors(self.installation, run_uid, tasks):
            yield from self.api.pages(path, {"labelSelector": selector}, until=until)

    def _is_labelled(self, labels: Labels | None, run_uid: str, key: JobKey) -> bool:
        labels = labels or NO_LABELS
        ours = labels.installation is not None and self.installation in (None, labels.installation)
        return ours and labels.run_uid == run_uid and key_of(labels) == key


def _key(job: Job | DatedJob, run_uid: str) -> JobKey | None:
    return key_named(job.metadata.name, job.metadata.labels, run_uid)


def _newest_first(pods: Iterable[Pod]) -> list[Pod]:
    """Sort pods. A list that began anew may show a pod twice."""
    return sorted({(pod.metadata.name, pod.metadata.uid): pod for pod in pods}.values(), key=_age, reverse=True)


def _age(pod: Pod) -> tuple[float, str]:
    created_at = pod.metadata.creation_timestamp
    return created_at.timestamp() if created_at else 0.0, pod.metadata.name


def inventory(api: Api, installation: str | None) -> Iterator[Sequence[ListedJob]]:
    """Yield the jobs in pages of the API server. An error in a page is raised, and makes the inventory invalid.

    Pods are listed, too, since orphan pods have no Job; a pod with a listed Job is left out.
    """
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
