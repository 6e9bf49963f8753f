"""Collect evidence: messages, log tail and events that explain a job's end to people. No status depends on evidence.

Evidence is collected when the end is first seen: the API server keeps events for an hour, and anyone may delete the
pods. If a log or the events cannot be read, the evidence names the problem in their place.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import chain

from crawler_lifecycle.base.words import utc_text
from crawler_lifecycle.clusters.kubernetes.http.answers import ApiFailed, Missing
from crawler_lifecycle.clusters.kubernetes.http.api import LISTS_AT_ONCE, KubernetesApi
from crawler_lifecycle.clusters.kubernetes.http.decoding import EVENTS
from crawler_lifecycle.clusters.kubernetes.logs.follower import Listening
from crawler_lifecycle.clusters.kubernetes.logs.store import Logs
from crawler_lifecycle.clusters.kubernetes.objects import ClusterEvent, Condition, Job, Pod
from crawler_lifecycle.clusters.kubernetes.observe import failure, pods
from crawler_lifecycle.clusters.kubernetes.observe.job_status import deciding_pod, end_of
from crawler_lifecycle.clusters.kubernetes.observe.jobs import Jobs
from crawler_lifecycle.errors import TemporaryError
from crawler_lifecycle.model.crawl_results import is_meant_as_result, read_result
from crawler_lifecycle.model.looks import JobKey
from crawler_lifecycle.model.task_changes import LOG_NOT_READ, TaskEvidence

# Most seconds for the requests in a call, which has 70 seconds altogether. After this time an unread log or event list
# is named as a problem, and unread Jobs or pods fail the call.
OBJECTS_SECONDS = 40.0  # to list the Jobs and the pods
LOGS_AND_EVENTS_SECONDS = 25.0
# A stop waits for hurried evidence: seconds for the objects and all logs together, and for a single log.
HURRIED_SECONDS, HURRIED_TAIL_SECONDS = 12.0, 2.0
LONGEST_MESSAGE = 2000  # characters; the rest of a longer message is cut off
MOST_SINGLE_REQUESTS = 8  # for more objects, one list with all warnings takes less work
MOST_EVENTS = 10  # per object; the latest events count
LONGEST_EVENT = 300  # characters
WARNING = "type=Warning"  # selector for warning events


@dataclass(frozen=True, slots=True)
class Collecting:
    """Collects evidence, in the threads of `jobs`."""

    jobs: Jobs
    logs: Logs
    listening: Listening
    event_readers: ThreadPoolExecutor = field(  # slow lists of events delay no logs
        default_factory=lambda: ThreadPoolExecutor(LISTS_AT_ONCE, thread_name_prefix="events")
    )

    def evidence(self, run_uid: str, keys: Sequence[JobKey], *, hurried: bool = False) -> list[TaskEvidence]:
        """Return the evidence about these jobs; a job without evidence is left out.

        `hurried` leaves out events and jobs without pods, and waits for a log only HURRIED_TAIL_SECONDS.
        """
        until = time.monotonic() + (HURRIED_SECONDS if hurried else OBJECTS_SECONDS)
        jobs = self.jobs.list_jobs(run_uid, keys, until)
        deciding_pods = {
            key: pod
            for key, pods_of_job in self.jobs.pods(run_uid, keys, until).items()
            if (pod := deciding_pod(jobs.get(key), pods_of_job))
        }
        if hurried:

            def collect_hurried(key: JobKey) -> TaskEvidence:
                return self._collect_hurried(key, jobs.get(key), deciding_pods[key], until)

            return self.jobs.for_each(collect_hurried, list(deciding_pods), "no evidence")
        return self._collect_with_events(run_uid, keys, jobs, deciding_pods)

    def _collect_with_events(
        self, run_uid: str, keys: Sequence[JobKey], jobs: Mapping[JobKey, Job], deciding_pods: Mapping[JobKey, Pod]
    ) -> list[TaskEvidence]:
        """Collect evidence from the objects, logs and events; for a job with neither pod nor end, from its kept log."""
        until = time.monotonic() + LOGS_AND_EVENTS_SECONDS
        without_trace = {key for key in keys if key not in deciding_pods and _end_condition(jobs.get(key)) is None}
        # a listener of a stopped job may still be writing the log's last lines into the kept log
        self.listening.wait(run_uid, without_trace, until - time.monotonic())
        uids_with_warnings = {
            key: _uids_that_may_warn(jobs.get(key), deciding_pods.get(key)) for key in keys if key not in without_trace
        }
        uids = set(chain(*uids_with_warnings.values()))
        wait_for_warnings = begin_reading_warnings(self.jobs.api, self.event_readers, uids, until)

        def collect(key: JobKey) -> TaskEvidence | None:
            if key in without_trace:
                return self._collect_from_kept_log(run_uid, key)
            return self._collect_from_cluster(key, jobs.get(key), deciding_pods.get(key), until)

        collected = [evidence for evidence in self.jobs.for_each(collect, keys, "no evidence") if evidence]
        warnings = wait_for_warnings()
        return [
            _with_events(evidence, warnings.about(uids_with_warnings.get((evidence.task, evidence.attempt), [])))
            for evidence in collected
        ]

    def _collect_hurried(self, key: JobKey, job: Job | None, pod: Pod, until: float) -> TaskEvidence:
        log, _ = self._tail_or_problem(pod, min(until, time.monotonic() + HURRIED_TAIL_SECONDS))
        return _evidence_from_objects(key, job, pod).model_copy(update={"log_tail": log})

    def _collect_from_cluster(self, key: JobKey, job: Job | None, pod: Pod | None, until: float) -> TaskEvidence:
        log, problem = self._tail_or_problem(pod, until) if pod else ("", None)
        evidence = _evidence_from_objects(key, job, pod).model_copy(update={"log_tail": log})
        return _with_events(evidence, [problem] if problem else [])

    def _collect_from_kept_log(self, run_uid: str, key: JobKey) -> TaskEvidence | None:
        """Return the log's last lines that a listener kept; None if no listener kept the log's end."""
        tail = self.logs.tail_of_kept(run_uid, *key)
        return TaskEvidence(task=key[0], attempt=key[1], log_tail=tail) if tail else None

    def _tail_or_problem(self, pod: Pod, until: float) -> tuple[str, str | None]:
        """Return the log's last lines and None, or no lines and the problem."""
        if time.monotonic() > until:
            return "", f"{LOG_NOT_READ}: too many others were slow"
        try:
            return self.logs.tail(pod, until), None
        except (Missing, ApiFailed, OSError) as error:  # OSError: no room here for a temporary file
            return "", f"{LOG_NOT_READ}: {error}"[:LONGEST_EVENT]


def _with_events(evidence: TaskEvidence, events: list[str]) -> TaskEvidence:
    return evidence.model_copy(update={"events": [*evidence.events, *events]})


def _uids_that_may_warn(job: Job | None, pod: Pod | None) -> list[str]:
    """Return the uids of the Job and the pod; no uids after a success, since nobody needs the warnings then."""
    return [] if job and _has_succeeded(job) else [thing.metadata.uid for thing in (job, pod) if thing]


def _evidence_from_objects(key: JobKey, job: Job | None, pod: Pod | None) -> TaskEvidence:
    """Build the evidence from the objects alone, without log and events."""
    message = "; ".join(_messages(_end_condition(job), pod))[:LONGEST_MESSAGE]
    return TaskEvidence(
        task=key[0],
        attempt=key[1],
        job_uid=job.metadata.uid if job else pods.controller_uid(pod) if pod else None,
        message=message or None,
        node=pod.spec.node_name if pod and pod.spec else None,
        restarts=_restarts_of_containers(pod) + _pods_failed_before_success(job),
        events=[*_lines_about_memory(pod), *_lines_about_result(pod)],
    )


def _end_condition(job: Job | None) -> Condition | None:
    return end_of(job.status) if job else None


def _has_succeeded(job: Job) -> bool:
    end = _end_condition(job)
    return end is not None and end.type == "Complete"


def _restarts_of_containers(pod: Pod | None) -> int:
    containers = [*pods.init_containers(pod), *pods.containers(pod)] if pod else []
    return sum(container.restart_count or 0 for container in containers)


def _pods_failed_before_success(job: Job | None) -> int:
    """Return the number of pods that failed before success: a company's own service may allow such retries."""
    return (job.status.failed or 0) if job and job.status and _has_succeeded(job) else 0


def _lines_about_memory(pod: Pod | None) -> list[str]:
    """Name the sidecars and init containers killed for memory: a crawl may succeed beside a killed container."""
    killed = pods.oom_killed_beside(pod) if pod else []
    return [f"{status.name} was OOMKilled ({status.restart_count or 0} restarts)"[:LONGEST_EVENT] for status in killed]


def _lines_about_result(pod: Pod | None) -> list[str]:
    """Say why the crawl's result does not count. After a failure, a message for people is no problem."""
    end = pods.end_of_main(pod) if pod else None
    text = (end.message if end else None) or ""
    if end is None or (end.exit_code != 0 and not is_meant_as_result(text)):
        return []
    _, problem = read_result(text)
    return [problem[:LONGEST_EVENT]] if problem else []


def _messages(job_end: Condition | None, pod: Pod | None) -> Iterator[str]:
    """Yield the messages of containers, pod and Job; the containers are nearest to the program, and come first."""
    failed_init = pods.failed_init(pod) if pod else None
    for status in [*(pods.containers(pod) if pod else []), *([failed_init] if failed_init else [])]:
        if status.state and (end := status.state.terminated):
            # a failed program without a message has the end of its log as message
            message = failure.message_of(end)
            text = f": {message.strip()[-LONGEST_MESSAGE // 2 :]}" if message else ""
            yield f"{status.name} ended with exit code {end.exit_code} ({end.reason or 'no reason given'}){text}"
    if pod and pod.status and (pod.status.reason or pod.status.message):
        yield f"pod {_reason_and_message(pod.status.reason, pod.status.message)}"
    if job_end and job_end.type == "Failed":
        yield f"job {_reason_and_message(job_end.reason, job_end.message)}"


def _reason_and_message(reason: str | None, message: str | None) -> str:
    return ": ".join(word for word in (reason, message) if word)


@dataclass(frozen=True, slots=True)
class Warnings:
    """Warning events about Jobs and pods, by the uid of the Job or pod; several threads fill both dictionaries."""

    events: dict[str, list[ClusterEvent]] = field(default_factory=lambda: defaultdict(list))
    problems: dict[str, str] = field(default_factory=dict)  # why events about the object may be missing

    def about(self, uids: Collection[str]) -> list[str]:
        """Return a line for every latest event about the objects, oldest first, and then the problems."""
        latest = [event for uid in uids for event in sorted(self.events.get(uid, []), key=_timestamp)[-MOST_EVENTS:]]
        problems = sorted({problem for uid in uids if (problem := self.problems.get(uid))})
        return [*map(_line_about, sorted(latest, key=_timestamp)), *problems]


def begin_reading_warnings(
    api: KubernetesApi, pool: ThreadPoolExecutor, uids: Collection[str], until: float
) -> Callable[[], Warnings]:
    """Start to read warnings in the pool's threads; the returned function waits for their end.

    For every request the API server reads all events in the namespace, and a run with 10,000 tasks leaves 20,000 and
    more. So one list brings the events of many objects, and only few objects have a request each.
    """
    warnings = Warnings()
    requests: list[set[str]] = [set(uids)] if len(uids) > MOST_SINGLE_REQUESTS else [{uid} for uid in uids]
    readings = [pool.submit(_read_warnings, api, requested, warnings, until) for requested in requests]

    def wait_for_warnings() -> Warnings:
        for reading in readings:
            reading.result()
        return warnings

    return wait_for_warnings


def _read_warnings(api: KubernetesApi, uids: Collection[str], warnings: Warnings, until: float) -> None:
    """Add the objects' warnings: for several objects from the list of all warnings, for a single object by its uid."""
    selector = WARNING if len(uids) > 1 else f"involvedObject.uid={next(iter(uids))},{WARNING}"
    try:
        for page in api.pages(api.core_path("events"), {"fieldSelector": selector}, until=until):
            for event in EVENTS.page(page).whole:
                uid = event.involved_object.uid if event.involved_object else None
                if uid and uid in uids:
                    warnings.events[uid].append(event)
    except TemporaryError as error:
        warnings.problems.update(dict.fromkeys(uids, f"events not read: {error.message}"[:LONGEST_EVENT]))


def _timestamp(event: ClusterEvent) -> float:
    return event.seen_at.timestamp() if event.seen_at else 0.0


def _line_about(event: ClusterEvent) -> str:
    at = f"{utc_text(event.seen_at)} " if event.seen_at else ""
    times = f" ({event.count} times)" if event.count and event.count > 1 else ""
    return f"{at}{event.reason or 'Warning'}: {(event.message or '').strip()}"[:LONGEST_EVENT] + times
