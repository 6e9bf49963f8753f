"""Read, list and delete our Jobs and pods by their key (task, attempt) in a run, and list the jobs of all runs.

A Job is ours by its labels, or by the recorded uid: a user may have edited the labels since the deployment. `Jobs`
serves stops, removals and evidence; its threads share the work on many jobs, so that a failing job delays no other.
The audit reads the `inventory` of all runs: the metadata of Jobs, and of pods without a Job.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec

from crawler_lifecycle.clusters.kubernetes import naming
from crawler_lifecycle.clusters.kubernetes.http.answers import Missing
from crawler_lifecycle.clusters.kubernetes.http.api import KubernetesApi
from crawler_lifecycle.clusters.kubernetes.http.decoding import JOBS, METADATA, NAMED, PODS, Decoder, Unreadable
from crawler_lifecycle.clusters.kubernetes.naming import key_named, key_of
from crawler_lifecycle.clusters.kubernetes.objects import NO_LABELS, Job, JobStatus, Labels, Metadata, Object, Pod
from crawler_lifecycle.errors import BadInput, TemporaryError
from crawler_lifecycle.model.looks import JobKey
from crawler_lifecycle.model.naming import checked_uid, job_name, task_and_attempt
from crawler_lifecycle.model.supervision import ListedJob

Item = TypeVar("Item")
Result = TypeVar("Result")
NO_OPTIONS: Mapping[str, int] = {}
THREADS = 16  # per `Jobs`


class Annotations(msgspec.Struct, frozen=True, rename={"not_after": naming.NOT_AFTER}):
    not_after: str | None = None


class DatedMetadata(Metadata, frozen=True):
    annotations: Annotations | None = None


class DatedJob(Object, frozen=True):
    """Job with the annotation `not_after`, which removals read."""

    metadata: DatedMetadata
    status: JobStatus | None = None


DATED_JOBS = Decoder("Job", DatedJob)


@dataclass(frozen=True, slots=True)
class Jobs:
    """Requests about Jobs and their pods, for one installation; without `installation` for all."""

    api: KubernetesApi
    installation: str | None
    pool: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(THREADS, thread_name_prefix="kubernetes")
    )

    def read_job(self, run_uid: str, key: JobKey, uid: str | None = None) -> Job | None:
        """Return the Job by its name, with its metadata alone if the rest cannot be read; None if we have no such Job.

        A Job with edited labels is still ours if its uid is `uid`, the recorded uid, or if its pod template has our
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
        is_labelled = any(
            self._labels_fit_job(labels, run_uid, key) for labels in (job.metadata.labels, template_labels)
        )
        return job if is_on_record or is_labelled else None

    def _read(self, path: str) -> Job:
        try:
            return JOBS.item(self.api.get(path))
        except Unreadable:
            return Job(NAMED.item(self.api.get(path, accept=naming.METADATA)).metadata)

    def list_jobs(self, run_uid: str, keys: Iterable[JobKey], until: float = math.inf) -> dict[JobKey, Job]:
        """List these Jobs, many tasks per request. Absent and unreadable Jobs are left out.

        Among Jobs with the same labels, the Job with the proper name counts.
        """
        wanted = set(keys)
        by_key: dict[JobKey, Job] = {}
        for job in self._listed(run_uid, wanted, until):
            key = _key_of_job(job, run_uid)
            if key in wanted and (key not in by_key or task_and_attempt(job.metadata.name, run_uid)):
                by_key[key] = job
        return by_key

    def under_other_names(self, run_uid: str, keys: Iterable[JobKey]) -> list[Job]:
        """List Jobs with the labels of these jobs and other names, such as people's copies."""
        wanted = set(keys)
        return [
            job
            for job in self._listed(run_uid, wanted)
            if task_and_attempt(job.metadata.name, run_uid) is None
            and (key := key_of(job.metadata.labels)) in wanted
            and self._labels_fit_job(job.metadata.labels, run_uid, key)
        ]

    def _listed(self, run_uid: str, keys: Iterable[JobKey], until: float = math.inf) -> Iterator[Job]:
        """Yield all readable Jobs with these tasks' labels."""
        for page in self._pages(self.api.jobs_path(), run_uid, (task for task, _ in keys), until):
            yield from JOBS.page(page).whole

    def list_dated(self, run_uid: str, tasks: Iterable[int]) -> dict[JobKey, DatedJob]:
        """List these tasks' Jobs in every attempt. Unreadable Jobs are left out."""
        pages = self._pages(self.api.jobs_path(), run_uid, tasks)
        jobs = (job for page in pages for job in DATED_JOBS.page(page).whole)
        return {key: job for job in jobs if (key := _key_of_job(job, run_uid))}

    def read_dated(self, run_uid: str, uids: Mapping[JobKey, str]) -> dict[JobKey, DatedJob]:
        """Read these Jobs singly by their names, whatever their labels. Return the Jobs with the recorded uid."""
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
        """List the pods of these jobs by key, newest first. Jobs without pods and unreadable pods are left out."""
        wanted = set(keys)
        by_key: dict[JobKey, list[Pod]] = {}
        for page in self._pages(self.api.core_path("pods"), run_uid, (task for task, _ in wanted), until):
            for pod in PODS.page(page).whole:
                if (key := key_of(pod.metadata.labels)) and key in wanted:
                    by_key.setdefault(key, []).append(pod)
        return {key: _newest_first(pods) for key, pods in by_key.items()}

    def delete(
        self, path: str, metadata: Metadata, propagation: str | None, options: Mapping[str, int] = NO_OPTIONS
    ) -> None:
        """Delete the object only as it was read: with the uid in `metadata`, and a Job only in the same version.

        `propagation` says how a Job's deletion reaches its pods; None: the object is a pod. The options are in the
        address as well as in the body: some clients and proxies drop the body of a DELETE.
        """
        chosen_options: dict[str, str | int] = {**options}
        preconditions = {"uid": metadata.uid}
        if propagation:
            chosen_options["propagationPolicy"] = propagation
            if metadata.resource_version:
                preconditions["resourceVersion"] = metadata.resource_version
        body = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": preconditions}
        self.api.delete(path, {**body, **chosen_options}, chosen_options)

    def for_each(self, act: Callable[[Item], Result], items: Iterable[Item], failure: str) -> list[Result]:
        """Call `act` for every item, in threads, and return the results in the order of the items.

        If calls fail, raise a TemporaryError after the last call, with the message `failure` and the first error.
        """
        results: list[Result] = []
        errors: list[TemporaryError] = []
        for future in [self.pool.submit(act, item) for item in items]:
            try:
                results.append(future.result())
            except TemporaryError as error:
                errors.append(error)
        if errors:
            others = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
            raise TemporaryError(f"{failure}: {errors[0].message}{others}") from errors[0]
        return results

    def _pages(self, path: str, run_uid: str, tasks: Iterable[int], until: float = math.inf) -> Iterator[bytes]:
        """Yield list pages with these tasks' objects."""
        for selector in naming.selectors(self.installation, run_uid, tasks):
            yield from self.api.pages(path, {"labelSelector": selector}, until=until)

    def _labels_fit_job(self, labels: Labels | None, run_uid: str, key: JobKey) -> bool:
        """Return whether the labels name this installation, run, task and attempt."""
        labels = labels or NO_LABELS
        return _labels_fit(labels, self.installation) and labels.run_uid == run_uid and key_of(labels) == key


def _key_of_job(job: Job | DatedJob, run_uid: str) -> JobKey | None:
    return key_named(job.metadata.name, job.metadata.labels, run_uid)


def _newest_first(pods: Iterable[Pod]) -> list[Pod]:
    """Sort pods without duplicates: a list that began anew may show a pod twice."""
    by_identity = {(pod.metadata.name, pod.metadata.uid): pod for pod in pods}
    return sorted(by_identity.values(), key=_creation_and_name, reverse=True)


def _creation_and_name(pod: Pod) -> tuple[float, str]:
    created_at = pod.metadata.creation_timestamp
    return created_at.timestamp() if created_at else 0.0, pod.metadata.name


def inventory(api: KubernetesApi, installation: str | None) -> Iterator[Sequence[ListedJob]]:
    """Yield the jobs of all runs in pages. Raise TemporaryError if a page fails: the inventory is then incomplete.

    Pods are listed, too, since orphan pods have no Job; a pod with a listed Job is left out. A broken object counts by
    its name alone.
    """
    seen: set[tuple[str | None, JobKey | None]] = set()
    for path in (api.jobs_path(), api.core_path("pods")):
        query = {"labelSelector": naming.selector(installation)}
        for body in api.pages(path, query, accept=naming.METADATA_LIST):
            page = METADATA.page(body)
            whole = (item.metadata for item in page.whole if _labels_fit(item.metadata.labels, installation))
            broken = (item for item in page.broken if _labels_fit(item.labels, installation))
            listed = [*map(_listed_job, whole), *(ListedJob(item.name, None, None) for item in broken)]
            new = [job for job in listed if job.key is None or (job.run_uid, job.key) not in seen]
            seen |= {(job.run_uid, job.key) for job in new}
            yield new


def _labels_fit(labels: Labels | None, installation: str | None) -> bool:
    """Return whether the labels name the installation; without `installation`, whether they name any."""
    owner = (labels or NO_LABELS).installation
    return owner is not None and installation in (None, owner)


def _listed_job(metadata: Metadata) -> ListedJob:
    labels = metadata.labels or NO_LABELS
    return ListedJob(metadata.name, _valid_run_uid(labels), key_of(labels), metadata.creation_timestamp)


def _valid_run_uid(labels: Labels) -> str | None:
    try:
        return checked_uid(labels.run_uid or "")
    except BadInput:
        return None
