"""Look at a run on Kubernetes, with as few requests as possible.

A look lists the run's Jobs, and reads pods, events and single Jobs only if they can change the look. A `Survey`
collects the results: its methods recognize our Jobs, and choose the Jobs that need their pods.
"""

import math
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence, Sized
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import timedelta

from crawler_lifecycle.clusters.kubernetes import naming
from crawler_lifecycle.clusters.kubernetes.http.answers import Missing
from crawler_lifecycle.clusters.kubernetes.http.api import PAGE, KubernetesApi
from crawler_lifecycle.clusters.kubernetes.http.decoding import JOBS, METADATA, PODS, Broken, Unreadable
from crawler_lifecycle.clusters.kubernetes.naming import METADATA_LIST, key_named, key_of
from crawler_lifecycle.clusters.kubernetes.objects import Job, Pod
from crawler_lifecycle.clusters.kubernetes.observe import job_status, pod_status, pods
from crawler_lifecycle.clusters.kubernetes.observe.deletion import look_of_orphans, mark_overdue
from crawler_lifecycle.clusters.kubernetes.observe.events import REQUEST_ERRORS, EventRequest, WaitEvents
from crawler_lifecycle.clusters.kubernetes.observe.namespace import NamespaceCheck
from crawler_lifecycle.clusters.kubernetes.observe.outcome_facts import facts_of
from crawler_lifecycle.clusters.kubernetes.observe.pod_status import Timing
from crawler_lifecycle.clusters.kubernetes.observe.survey import Survey
from crawler_lifecycle.clusters.ports import NO_UIDS, Places, PlacesInMemory
from crawler_lifecycle.model.looks import JobKey, JobPhase, Look
from crawler_lifecycle.model.naming import checked_uid

MOST_BY_NAME = 20  # for more missing Jobs, a list with all names takes fewer requests
THREADS = 4
NAMES_IN_A_PAGE = 10 * PAGE  # names are small: pages as short as for whole Jobs would double the number of lists

CountPages = Callable[[Iterable[bytes]], Iterator[bytes]]  # passes a list's pages on, and counts the pages of the look
UidsByName = Mapping[str, str | None]  # the Jobs' recorded uids by name; None: no uid is recorded


@dataclass(frozen=True, slots=True)
class Absence:
    api: KubernetesApi
    namespace: NamespaceCheck
    pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(THREADS, thread_name_prefix="by-name"))

    def present_jobs(self, uids: UidsByName, count_pages: CountPages) -> Iterator[tuple[str, Job | None]]:
        """Yield name and Job for every Job that is not absent. The Job is None if the Job exists and is unreadable.

        Raise TemporaryError if the namespace is not the recorded namespace, or is being deleted: then a missing Job
        proves nothing.
        """
        self.namespace.check()
        candidates = list(uids) if len(uids) <= MOST_BY_NAME else self._listed_names(uids, count_pages)
        reads = self.pool.map(self._read, candidates) if len(candidates) > 1 else map(self._read, candidates)
        for name, (exists, job) in zip(candidates, reads, strict=True):
            if exists:
                yield name, job

    def _read(self, name: str) -> tuple[bool, Job | None]:
        """Return whether the Job exists, and the Job unless it is unreadable."""
        try:
            return True, JOBS.item(self.api.get(self.api.jobs_path(name)))
        except Missing:
            return False, None
        except Unreadable:
            return True, None

    def _listed_names(self, uids: UidsByName, count_pages: CountPages) -> list[str]:
        """Return which of these Jobs a list of all Jobs in the namespace shows, whatever their labels.

        A Job with another uid than the recorded uid only shares the name, and is left out.
        """
        listed: dict[str, str] = {}  # uids by name; empty if unreadable
        pages = self.api.pages(self.api.jobs_path(), {"limit": NAMES_IN_A_PAGE}, accept=METADATA_LIST)
        for body in count_pages(pages):
            page = METADATA.page(body)
            listed.update((item.metadata.name, item.metadata.uid) for item in page.whole)
            listed.update((item.name, item.uid) for item in page.broken)
        if "" in listed:
            raise Unreadable("the namespace has a Job without a name: what is absent cannot be known")

        def may_be_ours(name: str, uid_on_record: str | None) -> bool:
            return not uid_on_record or listed[name] in ("", uid_on_record)

        return [name for name, uid in uids.items() if name in listed and may_be_ours(name, uid)]


@dataclass(frozen=True, slots=True)
class JobPatience:
    """Longest times for a job in states that may never end on their own."""

    no_progress: timedelta = timedelta(minutes=30)  # before its start, such as without an image; then it is given up
    overdue: timedelta = timedelta(minutes=30)  # after the end of the grace; then the job is overdue
    # after the main container's end, for sidecars that run on; then the task ends as the main container did
    sidecars: timedelta = timedelta(minutes=10)


PATIENT = JobPatience()


class Observer:
    def __init__(
        self,
        api: KubernetesApi,
        installation: str | None,
        patience: JobPatience = PATIENT,
        places: Places | None = None,
    ) -> None:
        self._api = api
        self._installation = installation
        self._patience = patience
        self._wait_events = WaitEvents(api)
        self._absence = Absence(api, NamespaceCheck(api, places or PlacesInMemory()))

    def look(
        self,
        run_uid: str,
        watched: Collection[JobKey] = (),
        tasks: Collection[int] | None = None,
        uids: Mapping[JobKey, str] = NO_UIDS,
    ) -> Look:
        """Look at the jobs, as `clusters.ports.look` says.

        In order: list the Jobs; read watched Jobs missing in the list by name, since a Job is absent only if the API
        server denies the name; list pods for absent Jobs and for Jobs that need their pods; read events for waiting
        Jobs. Without a readable list of Jobs the look is empty and incomplete.
        """
        overdue_before = self._api.clock.now() - self._patience.overdue
        survey = Survey(run_uid, self._installation, frozenset(watched), overdue_before)
        try:
            self._list_jobs(survey, tasks)
        except REQUEST_ERRORS as error:
            return Look(complete=False, problem=error.message)
        missing = sorted(key for key in survey.watched if key not in survey.jobs)
        is_list_readable = not survey.problems  # otherwise any missing Job may be the unreadable Job
        try:
            absent = self._absent_keys(survey, missing, uids) if missing and is_list_readable else []
        except REQUEST_ERRORS as error:
            absent = []
            survey.problems.append(error.message)
        if absent or survey.jobs_needing_pods:
            self._complete_by_pods(survey, absent)
        now = self._api.clock.now()
        for key, job in survey.jobs.items():
            survey.jobs[key] = mark_overdue(job, now, self._patience.overdue)
        return Look(not survey.problems, survey.jobs, survey.problem, self._api.clock.difference, keeps_ended_jobs=True)

    def _list_jobs(self, survey: Survey, tasks: Collection[int] | None) -> None:
        """Add these tasks' Jobs to the survey; without tasks, all Jobs in the run."""
        selectors: Iterable[str] = [naming.selector(survey.installation, checked_uid(survey.run_uid))]
        if tasks is not None:
            selectors = naming.selectors(survey.installation, survey.run_uid, tasks)
        for selector in selectors:
            for body in survey.counted(self._api.pages(self._api.jobs_path(), {"labelSelector": selector})):
                page = JOBS.page(body)
                for job in page.whole:
                    survey.add(job)
                for broken in page.broken:
                    problem = f"job {broken.name or '?'} cannot be read: {broken.problem}"
                    survey.add_unclear(key_named(broken.name, broken.labels, survey.run_uid), broken.name, problem)

    def _absent_keys(self, survey: Survey, missing: Sequence[JobKey], uids: Mapping[JobKey, str]) -> list[JobKey]:
        """Return the keys of provably absent Jobs, and add the other missing Jobs to the survey.

        A Job with the recorded uid is present despite edited labels. A Job with another uid and without our labels
        only shares the name, so our Job is absent. Without a recorded uid such a Job is unclear.
        """
        keys = {survey.proper_name(key): key for key in missing}
        uids_on_record = {name: uids.get(key) for name, key in keys.items()}
        for name, job in self._absence.present_jobs(uids_on_record, survey.counted):
            key, uid_on_record = keys[name], uids_on_record[name]
            if job is None:
                survey.add_unclear(key, name, f"job {name} cannot be read")
            elif job.metadata.uid == uid_on_record or survey.is_ours(job.metadata.labels):
                survey.add(job, key)
            elif uid_on_record is None:
                survey.add_unclear(key, name, f"job {name} is there without our labels: delete it, or have it labelled")
        return [key for key in missing if key not in survey.jobs]

    def _complete_by_pods(self, survey: Survey, absent: Sequence[JobKey]) -> None:
        """Complete the looks of Jobs that need their pods, and add absent Jobs with orphan pods.

        If the pods cannot be listed, the look is incomplete, and a job is unclear if its Job alone says too little.
        """
        try:
            pods_by_key = self._list_pods(survey, {*survey.jobs_needing_pods, *absent})
        except REQUEST_ERRORS as error:
            survey.problems.append(error.message)
            for key, job in survey.jobs_needing_pods.items():
                if job_status.is_usable_without_pods(survey.jobs[key]):
                    continue
                survey.jobs[key] = job_status.unclear_look(key, job.metadata.name, error.message, job.metadata.uid)
            return
        now = self._api.clock.now()
        timing = Timing(
            now=now,
            no_progress=self._patience.no_progress,
            overdue_before=now - self._patience.overdue,
            sidecars=self._patience.sidecars,
        )
        for key in absent:  # a key may be in the survey already, made unclear by an unreadable pod
            orphans = pods_by_key.get(key, ())
            look = look_of_orphans(key, survey.proper_name(key), orphans)
            if key not in survey.jobs and look is not None:
                survey.jobs[key] = replace(look, facts=facts_of(look, None, orphans))
        requests: list[EventRequest] = []
        for key, job in survey.jobs_needing_pods.items():
            listed = pods_by_key.get(key, ())
            own_pods = [pod for pod in listed if pods.controller_uid(pod) == job.metadata.uid]
            others = [pod for pod in listed if pod not in own_pods and pods.lives(pod)]
            if others and any(pods.lives(pod) for pod in own_pods):
                names = ", ".join(sorted(pod.metadata.name for pod in others))
                survey.remarks.append(
                    f"beside the pod of job {job.metadata.name}, further pods run without a job: {names}"
                )
            look = survey.jobs[key] = pod_status.look_with_pods(key, job, own_pods, timing)
            if uid := pod_status.subject_of_events(look, job, pods.primary_pod(own_pods)):
                requests.append(EventRequest(key, uid, job))
        self._wait_events.explain(survey, requests, timing)

    def _list_pods(self, survey: Survey, keys: Collection[JobKey]) -> dict[JobKey, list[Pod]]:
        """Return the jobs' pods. Raise Unreadable if a pod may belong to any job in the run."""
        pods_by_key: dict[JobKey, list[Pod]] = {}
        for selector in self._selectors(survey, keys):
            for body in survey.counted(self._api.pages(self._api.core_path("pods"), {"labelSelector": selector})):
                page = PODS.page(body)
                for broken in page.broken:
                    _note_unreadable_pod(survey, broken, keys)
                for pod in page.whole:
                    if survey.is_foreign(pod.metadata.labels):
                        continue
                    key = survey.own_key(pod.metadata.labels)
                    if key is None:
                        raise Unreadable(f"pod {pod.metadata.name or '?'} does not name its job")
                    if key in keys:
                        pods_by_key.setdefault(key, []).append(pod)
        # a list that began anew repeats pods
        return {
            key: list({(pod.metadata.name, pod.metadata.uid): pod for pod in listed}.values())
            for key, listed in pods_by_key.items()
        }

    def _selectors(self, survey: Survey, keys: Collection[JobKey]) -> Iterator[str]:
        """Yield selectors for the pods of these jobs' tasks, or for the whole run if its pods need fewer lists."""
        tasks = {task for task, _ in keys}
        if _number_of_lists(tasks, naming.TASKS_IN_A_SELECTOR) > _number_of_lists(survey.jobs, PAGE):
            yield naming.selector(survey.installation, survey.run_uid)
            return
        yield from naming.selectors(survey.installation, survey.run_uid, tasks)


def _number_of_lists(objects: Sized, page_size: int) -> int:
    return max(1, math.ceil(len(objects) / page_size))


def _note_unreadable_pod(survey: Survey, pod: Broken, keys: Container[JobKey]) -> None:
    """Make an unreadable pod's job unclear, unless the Job alone says enough.

    - A Job that shows that the job is to end says enough: only the time when the pod should end is unknown. The look
      reads no further pods of this job.
    - A failed job stays failed, and the look reads its other pods: they may show the reason.
    - Any other job becomes unclear. A complete Job does, too: its program may have ended on request, and only the pod
      shows the request.

    Raise Unreadable if the pod names no job.
    """
    key = key_of(pod.labels)
    problem = f"pod {pod.name or '?'} cannot be read: {pod.problem}"
    if key is None:
        raise Unreadable(problem)
    if key not in keys:
        return
    known = survey.jobs.get(key)
    if known and job_status.is_usable_without_pods(known):
        survey.jobs_needing_pods.pop(key, None)
    elif known is None:
        survey.add_unclear(key, survey.proper_name(key), problem)
    elif known.phase is not JobPhase.FAILED:
        survey.make_unclear(known, problem)
