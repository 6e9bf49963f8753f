"""Does everything that is told of a run agree with what its jobs did? All that does not, as sentences.

The truth is what each job wrote down itself, on another disk, and what the cluster kept of its end.
"""

import json
import zipfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from temporalio.client import Client

from crawler_lifecycle.clusters.local.records import EndRecord, JobFolder
from crawler_lifecycle.model.answers import Started
from crawler_lifecycle.model.looks import JobKey
from crawler_lifecycle.model.naming import EXPORT_WORKFLOW, FLOW_WORKFLOW, RUN_WORKFLOW, event_id
from crawler_lifecycle.model.records import ALL_RUNS, ExportRecord, RunDetails, TaskRecord
from crawler_lifecycle.model.states import ExportState, Intent, RunStatus, TaskStatus
from tests.chaos.ground import Ground
from tests.kit.service.embedded import processes_of
from tests.process.crawls import Job
from tests.process.stops import STOPPED

CANNOT_HAVE_RUN = (126, 127, 128)
CLOSING = ("finished", "stopped")
Archives = Callable[[str], zipfile.ZipFile | None]  # by where an event says that it is
OF_A_RUN = f"ExecutionStatus = 'Running' AND WorkflowType IN ('{RUN_WORKFLOW}', '{EXPORT_WORKFLOW}', '{FLOW_WORKFLOW}')"


@dataclass(frozen=True)
class Told:
    """Of one run, by everybody."""

    details: RunDetails
    jobs: Mapping[JobKey, Job]
    ends: Mapping[JobKey, EndRecord | None]  # of every job that there is in the cluster
    events: list[dict[str, Any]]
    notices: list[dict[str, Any]]


def told(ground: Ground, run: Started) -> Told:
    folder = ground.state / "cluster" / "jobs" / run.run_uid
    ends = {_key(path): JobFolder(path).ended() for path in (folder.iterdir() if folder.exists() else ())}
    events, notices = ground.outside.events_of(run.run_uid), ground.outside.notices_of(run.run_uid)
    return Told(ground.site.details(run), ground.site.jobs(run), ends, events, notices)


def _key(job: Path) -> JobKey:
    _, task, attempt = job.name.rsplit("-", 2)
    return int(task), int(attempt)


def divergences(ground: Ground, run: Started) -> list[str]:
    """Of a run that is over, and handed over."""
    return compared(told(ground, run), ground.outside.archive)


def compared(seen: Told, archive: Archives) -> list[str]:
    return [
        *_of_tasks(seen),
        *_of_former_attempts(seen),
        *_of_the_run(seen),
        *_of_exports(seen, archive),
        *_of_notices(seen),
    ]


def _of_tasks(seen: Told) -> Iterator[str]:
    for task in seen.details.tasks:
        key = (task.task, task.attempt)
        expected = _expected(seen, task)
        if task.status not in expected:
            yield f"task {task.task} is {task.status} ({task.reason}), and by its own record {' or '.join(expected)}"
        end = seen.ends.get(key)
        if end and end.code is not None and task.exit_code != end.code:
            yield f"task {task.task} has exit code {task.exit_code}, and by its own record {end.code}"
    last = {task.task: task.attempt for task in seen.details.tasks}
    for key, end in seen.ends.items():
        yield from _of_a_job(key, end, seen.jobs.get(key, Job()), last)
    for number, attempt in seen.jobs.keys() - seen.ends.keys():
        yield f"task {number} ran as attempt {attempt}, of which the cluster has no record"


def _of_a_job(key: JobKey, end: EndRecord | None, job: Job, last: Mapping[int, int]) -> Iterator[str]:
    task, attempt = key
    if attempt > last.get(task, 0):
        yield f"task {task} has a job of attempt {attempt}, and its row is at {last.get(task)}"
    may_be_asked_after_its_end = end is not None and end.stop_asked
    if job.began > 1 or (len(job.ends) > 1 and not may_be_asked_after_its_end):
        yield f"task {task}, attempt {attempt}, has run {job.began} times and ended {len(job.ends)} times"
    has_run = end is not None and end.code is not None and end.code not in CANNOT_HAVE_RUN
    if end and has_run and not end.stop_asked and (job.began, job.ends) != (1, (end.code,)):
        yield f"task {task}, attempt {attempt}, noted {job}, and the cluster has {end.code}"
    if end and end.left_over:
        yield f"task {task}, attempt {attempt}, has left {end.left_over} processes"


def _of_former_attempts(seen: Told) -> Iterator[str]:
    """Compare the attempts before the last with their jobs. Only the retries of a run that ended once are counted."""
    for task in seen.details.tasks:
        for former in task.former_attempts:
            what, key = f"task {task.task}, attempt {former.attempt},", (task.task, former.attempt)
            if key not in seen.ends:
                yield f"{what} is on record and has no job"
            elif former.status not in _ends_of_a_former_attempt(seen.ends[key]):
                yield f"{what} is {former.status} ({former.reason}), and by its own record {seen.ends[key]}"
        retries = task.infrastructure_failures + task.program_failures
        attempts = [former.attempt for former in task.former_attempts]
        if seen.details.run.end_number == 1 and not attempts == list(range(1, task.attempt)) == list(
            range(1, retries + 1)
        ):
            yield f"task {task.task} is at attempt {task.attempt} after {retries} retries, and has had {attempts}"
    for (number, attempt), job in seen.jobs.items():
        if job.beside:
            yield f"task {number}, attempt {attempt}, began while a former attempt lived"


def _ends_of_a_former_attempt(end: EndRecord | None) -> tuple[TaskStatus, ...]:
    if end is None or end.stop_asked:
        return (TaskStatus.LOST, TaskStatus.STOPPED) if end is None else (TaskStatus.STOPPED, TaskStatus.FAILED)
    return (TaskStatus.FAILED,) if end.reason else (TaskStatus.SUCCEEDED,)


def _expected(seen: Told, task: TaskRecord) -> tuple[TaskStatus, ...]:
    key = (task.task, task.attempt)
    is_stopped = seen.details.run.intent is not Intent.RUN
    if key not in seen.ends:
        return (TaskStatus.STOPPED,) if is_stopped or seen.details.run.reason in STOPPED else ()
    end = seen.ends[key]
    if end is None:  # its runner was killed: nobody knows how it ended
        return (TaskStatus.STOPPED, TaskStatus.LOST) if is_stopped else (TaskStatus.LOST,)
    if end.stop_asked and is_stopped:
        return (TaskStatus.STOPPED,)
    return (TaskStatus.FAILED,) if end.reason else (TaskStatus.SUCCEEDED,)


def _of_the_run(seen: Told) -> Iterator[str]:
    run, statuses = seen.details.run, [task.status for task in seen.details.tasks]
    succeeded = all(status is TaskStatus.SUCCEEDED for status in statuses)
    if run.status is not (RunStatus.COMPLETED if succeeded else RunStatus.FAILED):
        yield f"it is {run.status} ({run.reason}), and its tasks are {', '.join(statuses)}"
    if (run.reason in STOPPED) != (TaskStatus.STOPPED in statuses):
        yield f"its reason is {run.reason}, and its tasks are {', '.join(statuses)}"
    if len(statuses) != (run.request.tasks or 1):
        yield f"it has {len(statuses)} tasks, and {run.request.tasks or 1} were asked for"
    ended = sum(line.event == "ended" for line in seen.details.log)
    if ended != run.end_number:
        yield f"it has ended {run.end_number} times, and its log says so {ended} times"


def _of_exports(seen: Told, archive: Archives) -> Iterator[str]:
    run = seen.details.run
    by_end = {
        event_id(run.run_uid, kind, end): (kind, end)
        for kind in ("run_ended", "files_ready")
        for end in range(1, run.end_number + 1)
    }
    rows = {each.event_id: each for each in seen.details.exports}
    arrived = defaultdict(list)
    for event in seen.events:
        arrived[event["event_id"]].append(event)
    if unknown := (rows.keys() | arrived.keys()) - by_end.keys():
        yield f"there are exports of no end: {sorted(unknown)}"
    for each, (kind, end) in by_end.items():
        yield from _of_an_export(f"{kind} of end {end}", rows.get(each), arrived[each], archive)


def _of_an_export(
    what: str, row: ExportRecord | None, events: list[dict[str, Any]], archive: Archives
) -> Iterator[str]:
    if row is None or row.state is not ExportState.DONE:
        yield f"{what} is {row.state if row else 'missing'} in the database: {row.problem if row else ''}"
    if not events:
        yield f"{what} never came out of the bus"
    if len({json.dumps([each["status"], each["tasks"], each["end"]], sort_keys=True) for each in events}) > 1:
        yield f"{what} was told in different ways under one id: {events}"
    if what.startswith("files_ready") and events and events[-1]["files"]:
        yield from _of_an_archive(what, events[-1], archive(str(events[-1]["supporting_files"])))


def _of_an_archive(what: str, event: dict[str, Any], archive: zipfile.ZipFile | None) -> Iterator[str]:
    if archive is None:
        yield f"{what}: nothing is at {event['supporting_files']}"
    elif (bad := archive.testzip()) or json.loads(archive.read("manifest.json"))["count"] != event["files"]:
        yield f"{what}: the archive is damaged ({bad}), or another one"


def _of_notices(seen: Told) -> Iterator[str]:
    """However often they were sent, a receiver that knows ids has each once."""
    run = seen.details.run
    kinds = {notice["notice_id"]: notice["kind"] for notice in seen.notices}
    counted = Counter(kinds.values())
    closing = {event_id(run.run_uid, kind, end) for kind in CLOSING for end in range(1, run.end_number + 1)}
    told = [notice for notice in seen.notices if notice["kind"] in CLOSING]
    if sum(counted[kind] for kind in CLOSING) != run.end_number or not {each["notice_id"] for each in told} <= closing:
        yield f"it has ended {run.end_number} times, and its end was told as {dict(counted)}"
    if counted["started"] > run.end_number:
        yield f"its start was told {counted['started']} times, as if it were that many starts"
    expected = "stopped" if run.reason in STOPPED else "finished"
    if event_id(run.run_uid, expected, run.end_number) not in kinds:
        yield f"its last end ({run.reason}) was not told as `{expected}`"


# Of everything


async def left_over(ground: Ground, runs: list[int]) -> list[str]:
    """When every run is over."""
    listed = _all_runs(ground)
    found = [] if sorted(listed) == sorted(runs) else [f"asked for were {sorted(runs)}, and there are {sorted(listed)}"]
    folders = [ground.state / "cluster" / name for name in ("waiting", "running", "new")]
    queued = [str(path) for folder in folders if folder.exists() for path in folder.iterdir()]
    found += [f"the cluster's queues hold {queued}"] if queued else []
    alive = [str(process) for process in processes_of(ground.site.truth)]  # every process of a job is given it
    found += [f"processes of jobs are left: {alive}"] if alive else []
    still_open = await open_workflows(await ground.site.control.engine.client())
    found += [f"workflows are open: {still_open}"] if still_open else []
    return found


def _all_runs(ground: Ground) -> list[int]:
    found: list[int] = []
    while page := ground.site.control.runs.select(ALL_RUNS, limit=500, before=min(found) if found else None):
        found += [run.run_id for run in page]
    return found


async def open_workflows(client: Client) -> list[str]:
    return [each.id async for each in client.list_workflows(OF_A_RUN)]


def timeline(seen: Told) -> Iterator[str]:
    """For a person who has to find out what happened."""
    run = seen.details.run
    yield f"run {run.run_id} ({run.run_uid}, workflow {run.workflow_id}): {run.status}, {run.reason}, epoch {run.epoch}"
    for line in seen.details.log:
        yield f"  {line.at:%H:%M:%S.%f} {line.event}: {line.message} {line.actor or ''} {line.door or ''}".rstrip()
    for task in seen.details.tasks:
        yield f"  task {task.task}, attempt {task.attempt}: {task.status} {task.reason} {task.exit_code} {task.cause}"
    for key, end in sorted(seen.ends.items()):
        yield f"  job {key}: noted {seen.jobs.get(key)}, recorded {end}"
    for export in seen.details.exports:
        yield f"  {export.kind} {export.event_id}: {export.state} {export.problem or ''}".rstrip()
    yield f"  events {[(each['kind'], each['end']) for each in seen.events]}"
    yield f"  notices {[(each['kind'], each['at']) for each in seen.notices]}"
