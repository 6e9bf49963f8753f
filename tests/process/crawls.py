"""For crash tests: crawlers whose jobs write down themselves what they did, and the comparison with the database.

A job runs until the test tells it, by a file, with which code to end. Each job notes its
beginning and its end in a file that the product knows nothing of. Those of the crawler `big` leave a big file behind.
"""

import fcntl
import json
import math
import os
import signal
import zipfile
from collections import Counter
from collections.abc import AsyncIterator, Collection, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeVar
from uuid import UUID

import psutil
import pytest
from temporalio.api.enums.v1 import PendingActivityState
from temporalio.api.failure.v1 import Failure

from crawler_lifecycle.assembly.control import Control
from crawler_lifecycle.clusters.local.processes import survey
from crawler_lifecycle.clusters.local.records import JobFolder
from crawler_lifecycle.clusters.local.records import StartRecord as Runner
from crawler_lifecycle.errors import TemporaryError
from crawler_lifecycle.model.answers import Started
from crawler_lifecycle.model.looks import JobKey
from crawler_lifecycle.model.naming import RUN_WORKFLOW
from crawler_lifecycle.model.records import ALL_RUNS, RunDetails
from crawler_lifecycle.model.requests import RunRequest, StopRequest
from crawler_lifecycle.model.states import ExportState, RunStatus, TaskStatus
from tests.kit.service.embedded import Crawlctl, processes_of, stack_processes, up
from tests.kit.waiting import eventually, eventually_async

BIG_FILE = 2_000_000_000  # of holes; its archive takes seconds
PATIENCE = 75.0
AT_ONCE = {"CRAWLER_AUDIT__WORKFLOW_SECONDS": "0", "CRAWLER_AUDIT__HANDOVER_SECONDS": "0"}  # the audit acts at once
# The next attempt notes that it began beside a former attempt whose program lives.
SCRIPT = r"""
gate="$TRUTH/$CRAWL_RUN_UID.$CRAWL_TASK"
note() { echo "$CRAWL_TASK $CRAWL_ATTEMPT $1" >> "$TRUTH/$CRAWL_RUN_UID"; }
note began
former=1
while [ "$former" -lt "$CRAWL_ATTEMPT" ]; do
  pid=
  read -r pid 2> /dev/null < "$gate.$former.pid"
  grep -qz "^CRAWL_RUN_UID=$CRAWL_RUN_UID\$" "/proc/$pid/environ" 2> /dev/null && note beside
  former=$((former + 1))
done
echo $$ > "$gate.$CRAWL_ATTEMPT.pid"
[ -z "$SIZE" ] || dd if=/dev/zero of=big bs=1 count=0 "seek=$SIZE" 2> /dev/null
tries=0
until [ -e "$gate" ]; do
  tries=$((tries + 1)); [ $tries -lt 2400 ] || exit 99
  sleep "${PAUSE:-0.2}"
done
read -r code < "$gate"
note "$code"
exit "$code"
"""
A = TypeVar("A")
Span = tuple[float, float]  # seconds since 1970


@dataclass(frozen=True)
class Job:
    """What a job wrote down of itself."""

    began: int = 0
    ends: tuple[int, ...] = ()
    beside: int = 0  # former attempts that lived when it began


@dataclass
class Site:
    """A stack, the folder where its jobs write the truth, and the runs that were asked for."""

    state: Path
    truth: Path
    command: Crawlctl
    control: Control
    asked: list[int] = field(default_factory=list)

    async def start(self, crawler: str = "gated", **request: object) -> Started:
        started = await self.control.runs.start(RunRequest.model_validate({"crawler": crawler, **request}))
        self.asked.append(started.run_id)
        return started

    async def submit(self, workflow_id: str, crawler: str = "gated", **request: object) -> str:
        """Only given to Temporal; nobody waits for the run to exist. Answers the first execution run id."""
        asked = RunRequest.model_validate({"crawler": crawler, **request})
        handle = await self.control.engine.start(RUN_WORKFLOW, asked, workflow_id, "a crash test")
        return str(handle.first_execution_run_id)

    async def submitted(self, workflow_id: str, first_execution_run_id: str) -> Started:
        async def begun() -> Started | None:
            with suppress(TemporaryError):  # the worker that makes a run of it may have to be started first
                return await self.control.runs.wait_started(workflow_id, first_execution_run_id)
            return None

        started = await eventually_async(begun, patience=PATIENCE)
        assert started
        self.asked.append(started.run_id)
        return started

    def release(self, run: Started, *tasks: int, codes: Mapping[int, int] | None = None) -> None:
        """Lets these tasks of the run end, with these codes (default: 0)."""
        for task in tasks:
            gate = self.truth / f"{run.run_uid}.{task}"
            draft = gate.with_suffix(".draft")
            draft.write_text(f"{(codes or {}).get(task, 0)}\n")
            draft.rename(gate)

    def hold(self, run: Started, task: int) -> None:
        """Let the task's next attempt wait until it is released."""
        (self.truth / f"{run.run_uid}.{task}").unlink()

    def details(self, run: Started) -> RunDetails:
        return self.control.runs.show(run.run_id)

    def statuses(self, run: Started) -> list[TaskStatus]:
        return [task.status for task in self.details(run).tasks]

    async def until_running(self, run: Started, tasks: int) -> None:
        """All tasks run, and the run knows it."""
        await eventually(lambda: self.statuses(run) == [TaskStatus.RUNNING] * tasks, patience=PATIENCE)
        await eventually(lambda: len(self.jobs(run)) == tasks, patience=PATIENCE)

    async def until_crawls(self, flow: str, path: str) -> Started:
        """Return the run of the last attempt of a flow's crawl, when the run's only task is running."""

        def run_of_attempt() -> Started | None:
            attempts = self.control.flows.attempts(flow, path)
            run_id = attempts[-1].run_id if attempts else None
            if run_id is None:
                return None
            record = self.control.runs.show(run_id).run
            return Started(
                workflow_id=record.workflow_id,
                first_execution_run_id=record.first_execution_run_id,
                run_id=record.run_id,
                run_uid=record.run_uid,
            )

        run: Started = await eventually(run_of_attempt, patience=PATIENCE)
        await self.until_running(run, 1)
        return run

    async def until_over(self, run: Started, patience: float = PATIENCE) -> RunDetails:
        def over() -> RunDetails | None:
            details = self.details(run)
            return details if details.run.status.is_over and details.is_handed_over else None

        found: RunDetails = await eventually(over, patience=patience)
        return found

    async def end_all(self) -> None:
        """Runs that were left, by a test that failed or by whoever made requests at random."""
        for run in self.control.runs.select(ALL_RUNS, limit=1000):
            if not run.status.is_over and self.control.runs.show(run.run_id).tasks[0].job_name:
                await self.control.runs.stop(run.run_id, StopRequest(force=True))
                await eventually(partial(self._is_over, run.run_id), patience=PATIENCE)

    def _is_over(self, run_id: int) -> bool:
        return self.control.runs.overview(run_id).run.status.is_over

    def jobs(self, run: Started) -> dict[JobKey, Job]:
        """By task and attempt, as the jobs themselves tell it."""
        path = self.truth / run.run_uid
        lines = [line.split() for line in path.read_text().splitlines()] if path.exists() else []
        keys = {(int(task), int(attempt)) for task, attempt, _ in lines}
        told = {key: [word for task, attempt, word in lines if (int(task), int(attempt)) == key] for key in keys}
        return {
            key: Job(words.count("began"), tuple(int(word) for word in words if word.isdigit()), words.count("beside"))
            for key, words in told.items()
        }

    # The local cluster's folders

    def job_folder(self, run: Started, task: int, attempt: int = 1) -> Path:
        return self.state / "cluster" / "jobs" / run.run_uid / f"crawl-{UUID(run.run_uid).hex}-{task}-{attempt}"

    def runner(self, run: Started, task: int) -> int:
        pid: int = json.loads((self.job_folder(run, task) / "started.json").read_text())["runner_pid"]
        return pid

    async def lose(self, run: Started, task: int, attempt: int = 1) -> None:
        """Kill the runner first, so that no record tells the end; then the program with its children at once."""
        folder = JobFolder(self.job_folder(run, task, attempt))

        def on_record() -> Runner | None:
            started = folder.started()
            return started if started and started.first else None

        started = await eventually(on_record, patience=PATIENCE)
        assert started.first
        os.kill(started.runner_pid, signal.SIGKILL)
        await eventually(lambda: not folder.has_runner, patience=PATIENCE)
        os.killpg(started.first.pid, signal.SIGKILL)
        await eventually(lambda: not folder.processes(survey()), patience=PATIENCE)

    def spans(self, run: Started) -> dict[JobKey, Span]:
        """Return the beginning and the end of every job, by the records. A lost job ends with the next attempt."""
        jobs = {key: JobFolder(self.job_folder(run, *key)) for key in self.jobs(run)}
        begun = {key: started.at for key, job in jobs.items() if (started := job.started())}
        return {key: (began, self._ended_at(jobs[key], key, begun)) for key, began in begun.items()}

    def _ended_at(self, job: JobFolder, key: JobKey, begun: Mapping[JobKey, float]) -> float:
        task, attempt = key
        ended = job.ended()
        return ended.at if ended else begun.get((task, attempt + 1), math.inf)

    @property
    def placing_lock(self) -> Path:
        """Nothing is deployed while somebody holds it."""
        return self.state / "cluster" / "placing.lock"

    def forget_changes(self, run: Started) -> None:
        """As if a watcher had been told, and had died before it did anything."""
        (self.state / "cluster" / "changed" / run.run_uid).unlink(missing_ok=True)

    # Temporal

    async def under_way(self, workflow_id: str, activity: str) -> None:
        """Until a worker has this activity in hand."""
        client = await self.control.engine.client()

        async def started() -> bool:
            description = await client.get_workflow_handle(workflow_id).describe()
            return any(
                pending.activity_type.name == activity
                and pending.state == PendingActivityState.PENDING_ACTIVITY_STATE_STARTED
                for pending in description.raw_description.pending_activities
            )

        await eventually_async(started, patience=PATIENCE)

    async def nudge(self, *runs: Started) -> None:
        """As the watcher does: what they wait for is asked for now."""
        client = await self.control.engine.client()
        for run in runs:
            await client.get_workflow_handle(run.workflow_id).signal("nudge", 1)

    async def troubles(self, run: Started) -> list[str]:
        """What its activities that are tried again failed with. (The server cuts off long ones, from the outside.)"""
        client = await self.control.engine.client()
        description = await client.get_workflow_handle(run.workflow_id).describe()
        pending = description.raw_description.pending_activities
        return [message for each in pending for message in _chain(each.last_failure)]

    async def attempts(self, workflow_id: str) -> dict[str, list[int]]:
        """Which attempt of each activity brought its end, in the workflow's history."""
        client = await self.control.engine.client()
        names: dict[int, str] = {}
        attempts: dict[str, list[int]] = {}
        async for event in client.get_workflow_handle(workflow_id).fetch_history_events():
            if event.HasField("activity_task_scheduled_event_attributes"):
                names[event.event_id] = event.activity_task_scheduled_event_attributes.activity_type.name
            if event.HasField("activity_task_started_event_attributes"):
                started = event.activity_task_started_event_attributes
                attempts.setdefault(names[started.scheduled_event_id], []).append(started.attempt)
        return attempts

    # Faults

    def pid(self, part: str) -> int:
        return stack_processes(self.state)[part]

    def kill(self, part: str) -> int:
        pid = self.pid(part)
        os.kill(pid, signal.SIGKILL)
        return pid

    async def until_replaced(self, part: str, killed: int) -> None:
        """The one that was killed is gone, and the stack has started another."""
        await eventually(lambda: not psutil.pid_exists(killed), patience=PATIENCE)
        await eventually(lambda: self.pid(part) != killed and psutil.pid_exists(self.pid(part)), patience=PATIENCE)

    # What must hold at the end of a run, whatever happened

    async def assert_true(self, run: Started, codes: Mapping[int, int | None]) -> RunDetails:
        """The run ended with these codes (None: nobody knows), and everything that is told of it agrees."""
        details = await self.until_over(run)
        self._assert_statuses(run, details, codes)
        self._assert_records(run, details)
        self._assert_exports(run, details)
        await eventually(lambda: not self.processes(run), patience=20)
        assert details.run.run_id in self.asked
        return details

    def assert_one_history_per_request(self) -> None:
        listed = [run.run_id for run in self.control.runs.select(ALL_RUNS, limit=1000)]
        assert sorted(listed) == sorted(self.asked)

    def processes(self, run: Started) -> list[psutil.Process]:
        return processes_of(Path(run.run_uid)) + processes_of(Path(UUID(run.run_uid).hex))

    def _assert_statuses(self, run: Started, details: RunDetails, codes: Mapping[int, int | None]) -> None:
        expected = {task: _status(code) for task, code in codes.items()}
        assert {task.task: task.status for task in details.tasks} == expected
        known = {task: code for task, code in codes.items() if code is not None}
        assert {task.task: task.exit_code for task in details.tasks if task.task in known} == known
        assert {task.attempt for task in details.tasks} == {1}
        completed = all(code == 0 for code in codes.values())
        assert details.run.status is (RunStatus.COMPLETED if completed else RunStatus.FAILED)
        jobs = self.jobs(run)
        assert set(jobs) == {(task, 1) for task in codes}
        assert {task: job.began for (task, _), job in jobs.items()} == dict.fromkeys(codes, 1)
        assert {task: job.ends for (task, _), job in jobs.items() if task in known} == {
            task: (code,) for task, code in known.items()
        }

    def _assert_records(self, run: Started, details: RunDetails) -> None:
        """One job for each task and attempt; what its runner wrote down is what the database says."""
        folder = self.state / "cluster" / "jobs" / run.run_uid
        jobs = {(task.job_name, task.exit_code, task.reason) for task in details.tasks if task.exit_code is not None}
        ended = {path.parent.name: json.loads(path.read_text()) for path in folder.glob("*/exit.json")}
        assert {(name, each["code"], each["reason"]) for name, each in ended.items()} == jobs
        assert {path.name for path in folder.iterdir()} == {task.job_name for task in details.tasks}
        begun = [(task.started_at, task.finished_at) for task in details.tasks if task.started_at and task.finished_at]
        seconds = sum(max(0.0, (finished - started).total_seconds()) for started, finished in begun)
        assert details.run.task_seconds == pytest.approx(seconds, abs=0.01 * (1 + len(begun)))

    def _assert_exports(self, run: Started, details: RunDetails) -> None:
        assert [(each.kind, each.state) for each in sorted(details.exports, key=lambda each: each.kind)] == [
            ("files_ready", ExportState.DONE),
            ("run_ended", ExportState.DONE),
        ]
        events = self.lines("events.jsonl", run)
        assert {line["event_id"] for line in events} == {each.event_id for each in details.exports}
        assert Counter(line["kind"] for line in events) == {"run_ended": 1, "files_ready": 1}
        assert {line["status"] for line in events} == {details.run.status}
        notices = Counter(line["kind"] for line in self.lines("notices.jsonl", run))
        assert (notices["started"], notices["finished"], notices["stopped"]) == (1, 1, 0)
        location = next(str(each.location) for each in details.exports if each.kind == "files_ready")
        assert details.run.archived_bytes == Path(location).stat().st_size
        with zipfile.ZipFile(location) as archive:
            logs = {name for name in archive.namelist() if name.startswith("files/logs/")}
        assert logs == {f"files/logs/{task.task}-1.log" for task in details.tasks}

    def lines(self, name: str, run: Started) -> list[dict[str, str]]:
        """Return the run's lines of a file among the exports."""
        return [line for line in self.all_lines(name) if line.get("run_uid") == run.run_uid]

    def all_lines(self, name: str) -> list[dict[str, str]]:
        """Return the lines of a file among the exports. A line without its end is still being written."""
        path = self.state / "exports" / name
        written, _, _ = path.read_bytes().rpartition(b"\n") if path.exists() else (b"", b"", b"")
        return [json.loads(line) for line in written.splitlines()]


def most_at_once(spans: Collection[Span]) -> int:
    """Return the largest number of spans that overlap."""
    return max((sum(began <= moment < ended for began, ended in spans) for moment, _ in spans), default=0)


def _chain(failure: Failure) -> Iterator[str]:
    if failure.message:
        yield failure.message
        yield from _chain(failure.cause)


def _status(code: int | None) -> TaskStatus:
    if code is None:
        return TaskStatus.LOST
    return TaskStatus.FAILED if code else TaskStatus.SUCCEEDED


@asynccontextmanager
async def site(
    folder: Path, crawlers: Mapping[str, str] | None = None, settings: Mapping[str, str] | None = None
) -> AsyncIterator[Site]:
    """A stack of its own in this folder, that goes on with what is there; ended in order.

    `crawlers`: more of them, by what their jobs do before all others. `said`: what its environment says."""
    state, truth = folder / "state", folder / "truth"
    truth.mkdir(exist_ok=True)
    catalogue = folder / "catalogue.toml"
    catalogue.write_text(catalogue_of(truth, crawlers or {}))
    async with up(state, "--catalogue", str(catalogue), settings=settings) as command:
        yield Site(state, truth, command, Control.open(state))
        if command.process.returncode is None:
            assert await command.end(signal.SIGTERM) == 0


@asynccontextmanager
async def clean_site(
    folder: Path, crawlers: Mapping[str, str] | None = None, said: Mapping[str, str] | None = None
) -> AsyncIterator[Site]:
    """The same; at its end nothing is left running, and every request has made one run."""
    try:
        async with site(folder, crawlers, said) as running:
            yield running
            running.assert_one_history_per_request()
        await eventually(lambda: not processes_of(folder), patience=20)
    finally:
        end_all_of(folder)


def catalogue_of(truth: Path, more: Mapping[str, str]) -> str:
    crawlers = {"gated": ("", ""), "big": (BIG_FILE, ""), **{name: ("", first) for name, first in more.items()}}
    return "\n".join(
        f'[crawlers.{name}]\ncommand = ["/bin/sh", "-c", {json.dumps(first + SCRIPT)}]\n'
        f"environment = {{ TRUTH = {json.dumps(str(truth))}, SIZE = '{size}' }}\n"
        for name, (size, first) in crawlers.items()
    )


def end_all_of(folder: Path) -> None:
    """Whatever a failed test has left behind."""
    for process in processes_of(folder):
        if process.pid != os.getpid():
            with suppress(psutil.NoSuchProcess):
                process.kill()


@contextmanager
def held(lock: Path) -> Iterator[None]:
    """Whoever else wants this lock has to wait: a disk, or a cluster, that has become slow."""
    with lock.open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def moved(folder: Path) -> Iterator[None]:
    """It is away, as a file system that is not mounted."""
    elsewhere = folder.with_name(f"{folder.name}.away")
    folder.rename(elsewhere)
    try:
        yield
    finally:
        elsewhere.rename(folder)
