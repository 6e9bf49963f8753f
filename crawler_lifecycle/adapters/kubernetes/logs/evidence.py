"""Collect evidence: messages, log tail and events that explain a job's end to people. No status depends on evidence.

Evidence is collected when the end is first seen: events are gone after an hour, pods at any manual deletion. An
unavailable part is named in its place, and the rest is still collected.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import chain

from crawler_lifecycle.adapters.kubernetes.http.answers import ApiFailed, Missing
from crawler_lifecycle.adapters.kubernetes.http.api import LISTS_AT_ONCE, Api
from crawler_lifecycle.adapters.kubernetes.http.decoding import EVENTS
from crawler_lifecycle.adapters.kubernetes.logs.follower import Listening
from crawler_lifecycle.adapters.kubernetes.logs.store import Logs
from crawler_lifecycle.adapters.kubernetes.objects import Condition, ContainerStatus, Event, Job, Pod
from crawler_lifecycle.adapters.kubernetes.observe import failure, pods
from crawler_lifecycle.adapters.kubernetes.observe.job_status import end_of
from crawler_lifecycle.adapters.kubernetes.observe.jobs import Jobs
from crawler_lifecycle.contract.steps.looks import LOG_NOT_READ, TaskEvidence
from crawler_lifecycle.domain.crawl_results import is_meant_as_result, read_result
from crawler_lifecycle.domain.looks import JobKey
from crawler_lifecycle.errors import TemporaryError

OBJECTS_SECONDS = 40.0  # for a page of jobs; a busy API server gets a quarter to begin its answer, see `limits_of`
SECONDS = 25.0  # for logs and events; the surrounding step has 70
HURRIED_SECONDS, HURRIED_TAIL_SECONDS = 12.0, 2.0  # a stop waits for hurried evidence
LONGEST_MESSAGE = 2000
FEW = 8  # objects: so few are requested singly, to send less
MOST_EVENTS = 10  # per object
LONGEST_EVENT = 300
WARNING = "type=Warning"


@dataclass(frozen=True, slots=True)
class Collecting:
    jobs: Jobs
    logs: Logs
    listening: Listening
    readers: ThreadPoolExecutor = field(  # for events only: the API server may be slow to list events
        default_factory=lambda: ThreadPoolExecutor(LISTS_AT_ONCE, thread_name_prefix="events")
    )

    def evidence(self, run_uid: str, keys: Sequence[JobKey], *, hurried: bool = False) -> list[TaskEvidence]:
        """Collect evidence; `hurried` omits events, and takes logs only from nodes that answer at once."""
        until = time.monotonic() + (HURRIED_SECONDS if hurried else OBJECTS_SECONDS)
        jobs = self.jobs.list_jobs(run_uid, keys, until)
        deciding = {
            key: pod
            for key, own_pods in self.jobs.pods(run_uid, keys, until).items()
            if (pod := _deciding_pod(jobs.get(key), own_pods))
        }
        if hurried:

            def collect_at_once(key: JobKey) -> TaskEvidence:
                return self._at_once(key, jobs.get(key), deciding[key], until)

            return self.jobs.for_each(collect_at_once, list(deciding), "no evidence")
        until = time.monotonic() + SECONDS
        gone = {key for key in keys if key not in deciding and not _end(jobs.get(key))}
        # a listener of a stopped job may still be writing the last lines, which are the evidence of a gone job
        self.listening.wait(run_uid, gone, until - time.monotonic())
        about = {key: _uids_that_may_warn(jobs.get(key), deciding.get(key)) for key in keys if key not in gone}
        warnings_read = begin_reading_warnings(self.jobs.api, self.readers, set(chain(*about.values())), until)

        def collect(key: JobKey) -> TaskEvidence | None:
            if key in gone:
                return self._of_stopped(run_uid, key)
            return self._of(key, jobs.get(key), deciding.get(key), until)

        collected = [evidence for evidence in self.jobs.for_each(collect, keys, "no evidence") if evidence]
        warnings = warnings_read()
        return [
            _with_events(evidence, warnings.about(about.get((evidence.task, evidence.attempt), [])))
            for evidence in collected
        ]

    def _of(self, key: JobKey, job: Job | None, pod: Pod | None, until: float) -> TaskEvidence:
        log, problem = self._tail(pod, until) if pod else ("", None)
        evidence = _evidence_from_objects(key, job, pod).model_copy(update={"log_tail": log})
        return _with_events(evidence, [problem] if problem else [])

    def _at_once(self, key: JobKey, job: Job | None, pod: Pod, until: float) -> TaskEvidence:
        log, _ = self._tail(pod, min(until, time.monotonic() + HURRIED_TAIL_SECONDS))
        return _evidence_from_objects(key, job, pod).model_copy(update={"log_tail": log})

    def _of_stopped(self, run_uid: str, key: JobKey) -> TaskEvidence | None:
        """Return the last lines heard before the job was gone."""
        tail = self.logs.tail_of_kept(run_uid, *key)
        return TaskEvidence(task=key[0], attempt=key[1], log_tail=tail) if tail else None

    def _tail(self, pod: Pod, until: float) -> tuple[str, str | None]:
        if time.monotonic() > until:
            return "", f"{LOG_NOT_READ}: too many others were slow"
        try:
            return self.logs.tail(pod, until), None
        except (Missing, ApiFailed, OSError) as error:  # OSError: no room here for a temporary file
            return "", f"{LOG_NOT_READ}: {error}"[:LONGEST_EVENT]


def _deciding_pod(job: Job | None, listed: Sequence[Pod]) -> Pod | None:
    """Return the pod that decided the job's end. Pods from another job with the same name do not count."""
    own = [pod for pod in listed if job is None or pods.controller_uid(pod) in (None, job.metadata.uid)]
    ended = _end(job)
    if ended is None:
        return pods.primary_pod(own)
    return pods.ended_pod(own, pods.SUCCEEDED if ended.type == "Complete" else pods.FAILED)


def _with_events(evidence: TaskEvidence, events: list[str]) -> TaskEvidence:
    return evidence.model_copy(update={"events": [*evidence.events, *events]})


def _uids_that_may_warn(job: Job | None, pod: Pod | None) -> list[str]:
    """Return the uids of the Job and the pod if their warning events matter: after a success they do not."""
    return [] if job and _succeeded(job) else [warned.metadata.uid for warned in (job, pod) if warned]


def _evidence_from_objects(key: JobKey, job: Job | None, pod: Pod | None) -> TaskEvidence:
    """Build the evidence from the objects alone."""
    message = "; ".join(_sentences(_end(job), pod))[:LONGEST_MESSAGE]
    return TaskEvidence(
        task=key[0],
        attempt=key[1],
        job_uid=job.metadata.uid if job else pods.controller_uid(pod) if pod else None,
        message=message or None,
        node=pod.spec.node_name if pod and pod.spec else None,
        restarts=sum(container.restart_count or 0 for container in _containers(pod)) + _failed_before(job),
        events=[*_out_of_memory(pod), *_unusable_result(pod)],
    )


def _end(job: Job | None) -> Condition | None:
    return end_of(job.status) if job else None


def _succeeded(job: Job) -> bool:
    ended = _end(job)
    return ended is not None and ended.type == "Complete"


def _failed_before(job: Job | None) -> int:
    """Return the number of pods that failed before success: a company's own service may allow such retries."""
    return (job.status.failed or 0) if job and job.status and _succeeded(job) else 0


def _containers(pod: Pod | None) -> list[ContainerStatus]:
    return [*pods.init_containers(pod), *pods.containers(pod)] if pod else []


def _out_of_memory(pod: Pod | None) -> list[str]:
    """Name the containers killed for memory: a crawl may succeed beside a killed container."""
    killed = pods.oom_killed_beside(pod) if pod else []
    return [f"{status.name} was OOMKilled ({status.restart_count or 0} restarts)"[:LONGEST_EVENT] for status in killed]


def _unusable_result(pod: Pod | None) -> list[str]:
    """Say why the crawl's result does not count. After a failure, a message for people is no problem."""
    end = pods.end_of_main(pod) if pod else None
    text = (end.message if end else None) or ""
    if end is None or (end.exit_code != 0 and not is_meant_as_result(text)):
        return []
    _, problem = read_result(text)
    return [problem[:LONGEST_EVENT]] if problem else []


def _sentences(ended: Condition | None, pod: Pod | None) -> Iterator[str]:
    """Yield the messages from containers, pod and Job, the nearest to the program first."""
    init = pods.failed_init(pod) if pod else None
    for status in [*(pods.containers(pod) if pod else []), *([init] if init else [])]:
        if status.state and (end := status.state.terminated):
            # a failed program without a message has the end of its log as message
            message = failure.message_of(end)
            said = f": {message.strip()[-LONGEST_MESSAGE // 2 :]}" if message else ""
            yield f"{status.name} ended with exit code {end.exit_code} ({end.reason or 'no reason given'}){said}"
    if pod and pod.status and (pod.status.reason or pod.status.message):
        yield f"pod {_joined(pod.status.reason, pod.status.message)}"
    if ended and ended.type == "Failed":
        yield f"job {_joined(ended.reason, ended.message)}"


def _joined(*words: str | None) -> str:
    return ": ".join(word for word in words if word)


@dataclass(frozen=True, slots=True)
class Warnings:
    """Warning events for a page of jobs and their pods, by object uid.

    For every request the API server reads all events in the namespace, and a run with 10,000 tasks leaves 20,000 and
    more: so a single list requests the events for many objects. `problems` says why events may be missing.
    """

    events: dict[str, list[Event]] = field(default_factory=lambda: defaultdict(list))
    problems: dict[str, str] = field(default_factory=dict)

    def about(self, uids: Collection[str]) -> list[str]:
        latest = [event for uid in uids for event in sorted(self.events.get(uid, []), key=_time)[-MOST_EVENTS:]]
        problems = sorted({problem for uid in uids if (problem := self.problems.get(uid))})
        return [*map(_line, sorted(latest, key=_time)), *problems]


def begin_reading_warnings(
    api: Api, pool: ThreadPoolExecutor, uids: Collection[str], until: float
) -> Callable[[], Warnings]:
    """Start reading at once; the returned function waits for the warnings."""
    warnings = Warnings()
    readings = [pool.submit(_read, api, part, warnings, until) for part in _parts(uids)]

    def wait_for_warnings() -> Warnings:
        for reading in readings:
            reading.result()
        return warnings

    return wait_for_warnings


def _read(api: Api, uids: Collection[str], into: Warnings, until: float) -> None:
    chosen = WARNING if len(uids) > 1 else f"involvedObject.uid={next(iter(uids))},{WARNING}"
    try:
        for page in api.pages(api.core_path("events"), {"fieldSelector": chosen}, until=until):
            for event in EVENTS.page(page).whole:
                about = event.involved_object.uid if event.involved_object else None
                if about and about in uids:
                    into.events[about].append(event)
    except TemporaryError as error:
        into.problems.update(dict.fromkeys(uids, f"events not read: {error.message}"[:LONGEST_EVENT]))


def _parts(uids: Collection[str]) -> Iterator[Collection[str]]:
    if len(uids) > FEW:
        yield set(uids)
    else:
        yield from ({uid} for uid in uids)


def _time(event: Event) -> float:
    return event.seen_at.timestamp() if event.seen_at else 0.0


def _line(event: Event) -> str:
    at = f"{event.seen_at.isoformat(timespec='seconds')} " if event.seen_at else ""
    times = f" ({event.count} times)" if event.count and event.count > 1 else ""
    return f"{at}{event.reason or 'Warning'}: {(event.message or '').strip()}"[:LONGEST_EVENT] + times
