"""Look at a run on Kubernetes: one list of its Jobs; pods, events and single Jobs only if they can change the look.

A `Survey` collects the look's results. Its methods recognize our Jobs, and choose the Jobs that need their pods.
"""

import logging
from collections.abc import Collection, Container, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from itertools import islice

from crawler_lifecycle.adapters.kubernetes import naming
from crawler_lifecycle.adapters.kubernetes.http.api import JSON, PAGE, Api
from crawler_lifecycle.adapters.kubernetes.http.decoding import EVENTS, JOBS, PODS, Broken, Unreadable
from crawler_lifecycle.adapters.kubernetes.naming import key_named, key_of
from crawler_lifecycle.adapters.kubernetes.objects import Event, Job, Pod
from crawler_lifecycle.adapters.kubernetes.observe import job_status, pod_status, pods
from crawler_lifecycle.adapters.kubernetes.observe.deletion import look_of_orphans, mark_overdue
from crawler_lifecycle.adapters.kubernetes.observe.namespace import Absence, NamespaceCheck
from crawler_lifecycle.adapters.kubernetes.observe.outcome_facts import facts_of
from crawler_lifecycle.adapters.kubernetes.observe.pod_status import Timing
from crawler_lifecycle.adapters.kubernetes.observe.survey import Survey
from crawler_lifecycle.domain.looks import JobKey, JobLook, JobPhase, Look
from crawler_lifecycle.domain.naming import MAIN_TASK, checked_uid
from crawler_lifecycle.domain.reasons import POD_NOT_CREATED, QUOTA
from crawler_lifecycle.errors import PermanentError, TemporaryError
from crawler_lifecycle.ports import NO_UIDS, Places, PlacesInMemory

logger = logging.getLogger(__name__)
MOST_LISTS = 21  # a look at 10,000 jobs takes 10 lists of Jobs, 10 of pods, and one of names or events
MOST_EVENT_REQUESTS = 10  # for single Jobs or pods, in a look
MOST_EVENTS = 100  # in the answer to such a request
REJECTED_PODS = "involvedObject.kind=Job,reason=FailedCreate"
NOT_SEEN = (TemporaryError, PermanentError)  # errors from a request without a usable answer
EventRequest = tuple[JobKey, str, Job]  # key of the job, uid of the object with events, Job


@dataclass(frozen=True, slots=True)
class JobPatience:
    """Longest times for a job in states from which it may never get away by itself."""

    no_progress: timedelta = timedelta(minutes=30)  # such as without an image
    overdue: timedelta = timedelta(minutes=30)  # after the end of the grace
    sidecars: timedelta = timedelta(minutes=10)  # after the main container's end


PATIENT = JobPatience()


class Observer:
    def __init__(
        self, api: Api, installation: str | None, patience: JobPatience = PATIENT, places: Places | None = None
    ) -> None:
        self._api = api
        self._installation = installation
        self._patience = patience
        self._absence = Absence(api, NamespaceCheck(api, places or PlacesInMemory()))

    def look(
        self,
        run_uid: str,
        watched: Collection[JobKey] = (),
        tasks: Collection[int] | None = None,
        uids: Mapping[JobKey, str] = NO_UIDS,
    ) -> Look:
        """Look as `ports.Cluster.look` says, with as few requests as possible.

        In order: list the Jobs; read watched Jobs missing in the list by name, since a Job is absent only if the API
        server denies the name; list pods for absent Jobs and for Jobs in question; read events for waiting Jobs.
        """
        late = self._api.clock.now() - self._patience.overdue
        survey = Survey(run_uid, self._installation, frozenset(watched), late)
        try:
            self._list_jobs(survey, tasks)
        except NOT_SEEN as error:
            return Look(complete=False, problem=error.message)
        missing = sorted(key for key in survey.watched if key not in survey.jobs)
        all_readable = not survey.problems  # otherwise any missing Job may be the unreadable Job
        try:
            absent = self._absent(survey, missing, uids) if missing and all_readable else []
        except NOT_SEEN as error:
            absent = []
            survey.problems.append(error.message)
        if absent or survey.need_pods:
            self._complete_by_pods(survey, absent)
        now = self._api.clock.now()
        for key, job in survey.jobs.items():
            survey.jobs[key] = mark_overdue(job, now, self._patience.overdue)
        return Look(not survey.problems, survey.jobs, survey.problem, self._api.clock.difference, keeps_ended_jobs=True)

    def _list_jobs(self, survey: Survey, tasks: Collection[int] | None) -> None:
        whole_run = [naming.selector(survey.installation, checked_uid(survey.run_uid))]
        chosen = whole_run if tasks is None else naming.selectors(survey.installation, survey.run_uid, tasks)
        for selector in chosen:
            for body in self._pages(survey, self._api.jobs_path(), {"labelSelector": selector}):
                page = JOBS.page(body)
                for job in page.whole:
                    survey.add(job)
                for broken in page.broken:
                    problem = f"job {broken.name or '?'} cannot be read: {broken.problem}"
                    survey.add_unclear(key_named(broken.name, broken.labels, survey.run_uid), broken.name, problem)

    def _absent(self, survey: Survey, missing: Sequence[JobKey], uids: Mapping[JobKey, str]) -> list[JobKey]:
        """Return the keys of provably absent Jobs.

        A Job with the uid on record is present despite edited labels. A Job with another uid and without our labels
        only shares the name.
        """
        keys = {survey.name(key): key for key in missing}
        on_record = {name: uids.get(key) for name, key in keys.items()}
        for name, job in self._absence.present(on_record, partial(self._pages, survey)):
            key, uid = keys[name], on_record[name]
            if job is None:
                survey.add_unclear(key, name, f"job {name} cannot be read")
            elif job.metadata.uid == uid or survey.is_ours(job.metadata.labels):
                survey.add(job, key)
            elif uid is None:
                survey.add_unclear(key, name, f"job {name} is there without our labels: delete it, or have it labelled")
        return [key for key in missing if key not in survey.jobs]

    def _complete_by_pods(self, survey: Survey, absent: Sequence[JobKey]) -> None:
        """Complete the looks in `survey.need_pods`, and add absent Jobs with orphan pods."""
        try:
            pods_by_key = self._pods(survey, {*survey.need_pods, *absent})
        except NOT_SEEN as error:
            survey.problems.append(error.message)
            for key, job in survey.need_pods.items():
                if job_status.tells_enough(survey.jobs[key]):
                    continue
                survey.jobs[key] = job_status.unclear_look(key, job.metadata.name, error.message, job.metadata.uid)
            return
        now = self._api.clock.now()
        timing = Timing(now, self._patience.no_progress, now - self._patience.overdue, self._patience.sidecars)
        for key in absent:
            orphans = pods_by_key.get(key, ())
            look = look_of_orphans(key, survey.name(key), orphans)
            if key not in survey.jobs and look is not None:
                survey.jobs[key] = replace(look, facts=facts_of(look, None, orphans))
        requests: list[EventRequest] = []
        for key, job in survey.need_pods.items():
            own = [pod for pod in pods_by_key.get(key, ()) if pods.controller_uid(pod) == job.metadata.uid]
            look = survey.jobs[key] = pod_status.look_with_pods(key, job, own, timing)
            if uid := pod_status.subject_of_events(look, job, pods.primary_pod(own)):
                requests.append((key, uid, job))
        self._complete_by_events(survey, requests, timing)

    def _pods(self, survey: Survey, keys: Collection[JobKey]) -> dict[JobKey, list[Pod]]:
        pods_by_key: dict[JobKey, list[Pod]] = {}
        for selector in self._selectors(survey, keys):
            for body in self._pages(survey, self._api.core_path("pods"), {"labelSelector": selector}):
                page = PODS.page(body)
                for broken in page.broken:
                    _note_unreadable_pod(survey, broken, keys)
                for pod in page.whole:
                    if survey.is_theirs(pod.metadata.labels):
                        continue
                    key = survey.key_of_ours(pod.metadata.labels)
                    if key is None:
                        raise Unreadable(f"pod {pod.metadata.name or '?'} does not tell which job it is of")
                    if key in keys:
                        pods_by_key.setdefault(key, []).append(pod)
        # a list that began anew repeats pods
        return {
            key: list({(pod.metadata.name, pod.metadata.uid): pod for pod in listed}.values())
            for key, listed in pods_by_key.items()
        }

    def _pages(
        self, survey: Survey, path: str, query: Mapping[str, str | int], *, accept: str = JSON
    ) -> Iterator[bytes]:
        for page in self._api.pages(path, query, accept=accept):
            survey.lists += 1
            yield page

    def _selectors(self, survey: Survey, keys: Collection[JobKey]) -> Iterator[str]:
        """Yield selectors for these tasks' pods, or for the whole run if the run's pods need fewer lists."""
        tasks = {task for task, _ in keys}
        if _number_of_lists(tasks, naming.TASKS_IN_A_SELECTOR) > _number_of_lists(survey.jobs, PAGE):
            yield naming.selector(survey.installation, survey.run_uid)
            return
        yield from naming.selectors(survey.installation, survey.run_uid, tasks)

    def _complete_by_events(self, survey: Survey, requests: Sequence[EventRequest], timing: Timing) -> None:
        """Read events that say more about why jobs wait, within the look's budget (MOST_LISTS requests).

        A Job with rejected pods is given up after a while, if its events show the rejection. One list brings the events
        of many such Jobs: single requests would reach only the first few Jobs in a look. The list may be cut, so the
        budget's last request is kept for the main job: without its events the run could not say why it does not begin.
        """
        affordable = max(0, MOST_LISTS - survey.lists)
        for_main_job = 1 if any(task == MAIN_TASK for (task, _), _, _ in requests) else 0
        without_pod = {uid: key for key, uid, _ in requests if survey.jobs[key].cause == POD_NOT_CREATED}
        answered: set[JobKey] = set()
        if len(without_pod) > MOST_EVENT_REQUESTS and affordable > for_main_job:
            events = self._events_of_rejected_pods(survey, without_pod, max(1, affordable - MOST_EVENT_REQUESTS))
            for key, uid, job in requests:
                if uid in events:
                    survey.jobs[key] = pod_status.look_with_events(survey.jobs[key], job, events[uid], timing)
                    answered.add(key)
        unanswered = [request for request in requests if request[0] not in answered]

        def order(request: EventRequest) -> tuple[bool, bool, JobKey]:
            """Sort the main job first, then jobs without a pod, then by key."""
            key, uid, _ = request
            return key[0] != MAIN_TASK, uid not in without_pod, key

        remaining = max(0, min(MOST_EVENT_REQUESTS, MOST_LISTS - survey.lists))
        for key, uid, job in sorted(unanswered, key=order)[:remaining]:
            survey.jobs[key] = self._with_events(survey.jobs[key], uid, job, timing)
            answered.add(key)
        if any(survey.jobs[key].cause == QUOTA for key in answered):  # the namespace's quota holds back all other jobs
            others = [key for key in without_pod.values() if key not in answered]
            survey.jobs.update((key, replace(survey.jobs[key], cause=QUOTA)) for key in others)

    def _events_of_rejected_pods(
        self, survey: Survey, uids: Collection[str], most_pages: int
    ) -> Mapping[str, Sequence[Event]]:
        """Return events by the Jobs' uids, for all these Jobs if the whole list could be read.

        The API server lists events by name, so a Job's events come in a row. If the list is cut, its last Job is left
        out: the Job's latest event, which decides, may be behind the cut.
        """
        by_uid: dict[str, list[Event]] = {}
        read, last = 0, None
        try:
            pages = self._pages(survey, self._api.core_path("events"), {"fieldSelector": REJECTED_PODS})
            for body in islice(pages, most_pages):
                read += 1
                for event in EVENTS.page(body).whole:
                    last = event.involved_object.uid if event.involved_object else None
                    if last and last in uids:
                        by_uid.setdefault(last, []).append(event)
        except NOT_SEEN as error:
            logger.info("run %s: events of jobs without pods cannot be listed: %s", survey.run_uid, error.message)
            is_cut = True
        else:
            is_cut = read == most_pages
        if is_cut:
            return {uid: events for uid, events in by_uid.items() if uid != last}
        return {uid: by_uid.get(uid, []) for uid in uids}

    def _with_events(self, look: JobLook, uid: str, job: Job, timing: Timing) -> JobLook:
        query: dict[str, str | int] = {"fieldSelector": f"involvedObject.uid={uid}", "limit": MOST_EVENTS}
        try:
            events = EVENTS.page(self._api.get(self._api.core_path("events"), query)).whole
        except NOT_SEEN as error:
            return replace(look, message=look.message or f"its events cannot be read: {error.message}")
        return pod_status.look_with_events(look, job, events, timing)


def _number_of_lists(objects: Sized, size: int) -> int:
    return max(1, -(-len(objects) // size))


def _note_unreadable_pod(survey: Survey, pod: Broken, keys: Container[JobKey]) -> None:
    """Make an unreadable pod's job unclear, unless the Job alone says enough.

    An ending job stays as it is, and lacks only the time when its pod should have ended. A failed job lacks only
    details about its reason. A complete Job becomes unclear: its program may have ended on request, and only the pod
    shows the request.
    """
    key = key_of(pod.labels)
    problem = f"pod {pod.name or '?'} cannot be read: {pod.problem}"
    if key is None:
        raise Unreadable(problem)
    if key not in keys:
        return
    known = survey.jobs.get(key)
    if known and job_status.tells_enough(known):
        survey.need_pods.pop(key, None)
    elif known is None:
        survey.add_unclear(key, survey.name(key), problem)
    elif known.phase is not JobPhase.FAILED:
        survey.make_unclear(known, problem)
