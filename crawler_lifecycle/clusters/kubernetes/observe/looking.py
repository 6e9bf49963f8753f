"""Look at a run on Kubernetes, with as few requests as possible.

A look lists the run's Jobs, and reads pods, events and single Jobs only if they can change the look. A `Survey`
collects the results: its methods recognize our Jobs, and choose the Jobs that need their pods. `WaitEvents` reads the
events that explain why jobs wait, within the look's budget of requests.
"""

import logging
import math
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence, Sized
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import islice
from typing import NamedTuple

from crawler_lifecycle.clusters.kubernetes import naming
from crawler_lifecycle.clusters.kubernetes.http.answers import Missing
from crawler_lifecycle.clusters.kubernetes.http.api import PAGE, KubernetesApi
from crawler_lifecycle.clusters.kubernetes.http.decoding import EVENTS, JOBS, METADATA, PODS, Broken, Unreadable
from crawler_lifecycle.clusters.kubernetes.naming import METADATA_LIST, key_named, key_of
from crawler_lifecycle.clusters.kubernetes.objects import ClusterEvent, Job, Pod
from crawler_lifecycle.clusters.kubernetes.observe import job_status, pod_status, pods
from crawler_lifecycle.clusters.kubernetes.observe.namespace import NamespaceCheck
from crawler_lifecycle.clusters.kubernetes.observe.outcome_facts import facts_of
from crawler_lifecycle.clusters.kubernetes.observe.pod_status import Timing, look_of_orphans, mark_overdue
from crawler_lifecycle.clusters.kubernetes.observe.survey import Survey
from crawler_lifecycle.clusters.ports import NO_UIDS, Places, PlacesInMemory
from crawler_lifecycle.errors import PermanentError, TemporaryError
from crawler_lifecycle.model.looks import JobKey, JobLook, JobPhase, Look
from crawler_lifecycle.model.naming import MAIN_TASK, checked_uid
from crawler_lifecycle.model.reasons import POD_NOT_CREATED, QUOTA

logger = logging.getLogger(__name__)
# After this number of list pages a look reads no events; Jobs, pods and names are listed without a limit. A look at
# 10,000 jobs takes 10 pages with Jobs, 10 with pods, and 1 with names or events.
MOST_LISTS = 21
MOST_EVENT_REQUESTS = 10  # for single Jobs or pods; further jobs keep the cause known without events
MOST_EVENTS = 100  # per request for a single object; a wait's cause needs no more
REJECTED_PODS = "involvedObject.kind=Job,reason=FailedCreate"  # selector for events about rejected pods
REQUEST_ERRORS = (TemporaryError, PermanentError)  # a request failed, or its answer is unusable
MOST_BY_NAME = 20  # for more missing Jobs, a list with all names takes fewer requests
THREADS = 4
NAMES_IN_A_PAGE = 10 * PAGE  # names are small: pages as short as for whole Jobs would double the number of lists
CountPages = Callable[[Iterable[bytes]], Iterator[bytes]]  # passes a list's pages on, and counts the pages of the look
UidsByName = Mapping[str, str | None]  # the Jobs' recorded uids by name; None: no uid is recorded


class EventRequest(NamedTuple):
    """Request for a Job's or its pod's events, to explain why the job waits."""

    key: JobKey
    uid: str  # uid of the Job or pod
    job: Job


class WaitEvents:
    def __init__(self, api: KubernetesApi) -> None:
        self._api = api

    def explain(self, survey: Survey, requests: Sequence[EventRequest], timing: Timing) -> None:
        """Read events, which explain more precisely why jobs wait, within the look's budget (MOST_LISTS).

        A Job with rejected pods is given up after a while, if its events show the rejection. Single requests would
        reach only the first few such Jobs in a look, so for many Jobs one list brings the events. The list may be cut,
        and a main job beyond the cut needs a single request: the run could not say otherwise why it does not begin. So
        the list is left out if the budget is enough only for the main job's request.
        """
        uids_without_pod = {request.uid for request in requests if survey.jobs[request.key].cause == POD_NOT_CREATED}
        has_main_job = any(request.key[0] == MAIN_TASK for request in requests)
        budget = max(0, MOST_LISTS - survey.list_requests)
        events_by_uid: Mapping[str, Sequence[ClusterEvent]] = {}
        if len(uids_without_pod) > MOST_EVENT_REQUESTS and budget > (1 if has_main_job else 0):
            most_pages = max(1, budget - MOST_EVENT_REQUESTS)  # the rest is for requests about single objects
            events_by_uid = self._list_events_of_rejected_pods(survey, uids_without_pod, most_pages)
        for key, uid, job in requests:
            if uid in events_by_uid:
                survey.jobs[key] = pod_status.look_with_events(survey.jobs[key], job, events_by_uid[uid], timing)

        def priority(request: EventRequest) -> tuple[bool, bool, JobKey]:
            """Sort the main job first, then jobs without a pod, then by key."""
            return request.key[0] != MAIN_TASK, request.uid not in uids_without_pod, request.key

        remaining_budget = max(0, min(MOST_EVENT_REQUESTS, MOST_LISTS - survey.list_requests))
        single_requests = sorted((request for request in requests if request.uid not in events_by_uid), key=priority)
        for key, uid, job in single_requests[:remaining_budget]:
            survey.jobs[key] = self._look_with_own_events(survey.jobs[key], uid, job, timing)
        _spread_quota(survey, requests, unanswered=single_requests[remaining_budget:])

    def _list_events_of_rejected_pods(
        self, survey: Survey, uids: Collection[str], most_pages: int
    ) -> Mapping[str, Sequence[ClusterEvent]]:
        """Return events by the Jobs' uids, for all these Jobs if the whole list could be read.

        The API server lists events by name, so a Job's events come in a row. If the list is cut, its last Job is left
        out: the Job's latest event, which decides, may be beyond the cut.
        """
        by_uid: dict[str, list[ClusterEvent]] = {}
        pages_read, last_uid = 0, None
        try:
            pages = survey.counted(self._api.pages(self._api.core_path("events"), {"fieldSelector": REJECTED_PODS}))
            for body in islice(pages, most_pages):
                pages_read += 1
                for event in EVENTS.page(body).whole:
                    last_uid = event.involved_object.uid if event.involved_object else None
                    if last_uid and last_uid in uids:
                        by_uid.setdefault(last_uid, []).append(event)
        except REQUEST_ERRORS as error:
            logger.info("run %s: events of jobs without pods cannot be listed: %s", survey.run_uid, error.message)
            is_cut = True
        else:
            is_cut = pages_read == most_pages
        if is_cut:
            return {uid: events for uid, events in by_uid.items() if uid != last_uid}
        return {uid: by_uid.get(uid, []) for uid in uids}

    def _look_with_own_events(self, look: JobLook, uid: str, job: Job, timing: Timing) -> JobLook:
        """Read the events about the object with the uid. Return the look with the cause by these events."""
        query: dict[str, str | int] = {"fieldSelector": f"involvedObject.uid={uid}", "limit": MOST_EVENTS}
        try:
            events = EVENTS.page(self._api.get(self._api.core_path("events"), query)).whole
        except REQUEST_ERRORS as error:
            return replace(look, message=look.message or f"its events cannot be read: {error.message}")
        return pod_status.look_with_events(look, job, events, timing)


def _spread_quota(survey: Survey, requests: Sequence[EventRequest], unanswered: Sequence[EventRequest]) -> None:
    """If the events about a job show an exhausted quota, note this cause for unanswered jobs, too.

    The namespace's quota holds back all jobs without a pod.
    """
    unanswered_keys = {request.key for request in unanswered}
    answered_keys = {request.key for request in requests} - unanswered_keys
    if any(survey.jobs[key].cause == QUOTA for key in answered_keys):
        for key in unanswered_keys:
            if survey.jobs[key].cause == POD_NOT_CREATED:
                survey.jobs[key] = replace(survey.jobs[key], cause=QUOTA)


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
        """Look at the jobs, as `clusters.ports.Cluster.look` says.

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
