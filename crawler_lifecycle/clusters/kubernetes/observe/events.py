"""Read the events that explain why jobs wait, within a look's budget of requests."""

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

from crawler_lifecycle.clusters.kubernetes.http.api import KubernetesApi
from crawler_lifecycle.clusters.kubernetes.http.decoding import EVENTS
from crawler_lifecycle.clusters.kubernetes.objects import ClusterEvent, Job
from crawler_lifecycle.clusters.kubernetes.observe import pod_status
from crawler_lifecycle.clusters.kubernetes.observe.pod_status import Timing
from crawler_lifecycle.clusters.kubernetes.observe.survey import Survey
from crawler_lifecycle.errors import PermanentError, TemporaryError
from crawler_lifecycle.model.looks import JobKey, JobLook
from crawler_lifecycle.model.naming import MAIN_TASK
from crawler_lifecycle.model.reasons import POD_NOT_CREATED, QUOTA

logger = logging.getLogger(__name__)
# After this number of list pages a look reads no events; Jobs, pods and names are listed without a limit. A look at
# 10,000 jobs takes 10 pages with Jobs, 10 with pods, and 1 with names or events.
MOST_LISTS = 21
MOST_EVENT_REQUESTS = 10  # for single Jobs or pods; further jobs keep the cause known without events
MOST_EVENTS = 100  # per request for a single object; a wait's cause needs no more
REJECTED_PODS = "involvedObject.kind=Job,reason=FailedCreate"  # selector for events about rejected pods
REQUEST_ERRORS = (TemporaryError, PermanentError)  # a request failed, or its answer is unusable


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
