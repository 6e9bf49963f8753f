"""For tests of stopping and resuming: jobs that take a stop in their own ways, Temporal's own tool, and the
comparison of what is told of a run that was stopped with what its jobs really did."""

import asyncio
import json
import os
import shutil
import signal
import sqlite3
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from pathlib import Path

import psutil
from temporalio.client import WorkflowExecutionStatus

from crawler_lifecycle.assembly.control import Control
from crawler_lifecycle.clusters.local.placing import RUNNER
from crawler_lifecycle.model.answers import Started
from crawler_lifecycle.model.records import RunDetails
from crawler_lifecycle.model.requests import StopRequest
from crawler_lifecycle.model.states import ExportState, RunStatus, StopPhase, TaskStatus
from tests.kit.service.embedded import crawlctl, environment
from tests.kit.waiting import eventually, eventually_async
from tests.process.crawls import PATIENCE, Site

CRAWLERS = {
    "polite": "trap 'note 143; exit 143' TERM\n",
    "stubborn": "trap 'touch \"$gate.asked\"' TERM\n",
    "obliging": "trap 'note 0; exit 0' TERM\n",
    # leaves behind a process in a session of its own that does not listen, and whose parent is gone: the runner ends it
    # with its job, and where that was killed the run's next look has it ended
    "parent": """
(setsid sh -c 'trap "" TERM; echo $$ > "$TRUTH/$CRAWL_RUN_UID.child"; exec sleep 1000' &)
until [ -s "$TRUTH/$CRAWL_RUN_UID.child" ]; do sleep 0.1; done
""",
}
STOPPED = ("stopped", "stopped_forced")
AFTER_AN_END = ("delivered", "undelivered", "not_removed")  # notices not taken at once, and jobs that stay for now


async def command(site: Site, *words: str) -> tuple[int, str]:
    """`crawlctl` as a person types it: its status, and all that it said."""
    async with crawlctl(site.state.parent, *words, "--state", str(site.state)) as under_way:
        status = await under_way.end()
    return status, under_way.output


def answer(said: str) -> list[str]:
    """The lines that a command said, without the line that a stop says while a busy machine lets it wait."""
    return [line for line in said.splitlines() if not line.endswith("answers slowly, waiting for it ...")]


async def temporal(site: Site, *words: str) -> None:
    """Temporal's own command, on the site's server."""
    program = shutil.which("temporal") or str(Path(sys.executable).with_name("temporal"))
    address = site.control.installation.temporal["TEMPORAL_ADDRESS"]
    process = await asyncio.create_subprocess_exec(
        *(program, "workflow", *words, "--address", address),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env=environment(site.state.parent),
    )
    async with asyncio.timeout(PATIENCE):
        told, _ = await process.communicate()
    assert process.returncode == 0, told.decode()


async def terminate(site: Site, run: Started) -> None:
    await temporal(site, "terminate", "--workflow-id", run.workflow_id, "--reason", "a test")
    assert await workflow_status(site, run.workflow_id) is WorkflowExecutionStatus.TERMINATED


async def workflow_status(site: Site, workflow_id: str) -> WorkflowExecutionStatus | None:
    client = await site.control.engine.client()
    return (await client.get_workflow_handle(workflow_id).describe()).status


async def until_closed(site: Site, workflow_id: str) -> WorkflowExecutionStatus:
    async def closed() -> WorkflowExecutionStatus | None:
        status = await workflow_status(site, workflow_id)
        return None if status is WorkflowExecutionStatus.RUNNING else status

    status = await eventually_async(closed, patience=PATIENCE)
    assert status is not None
    return status


def another_control(site: Site) -> Control:
    """As another program has it: with no connection yet."""
    return Control.open(site.state)


@contextmanager
def frozen(*pids: int) -> Iterator[None]:
    """These processes stand still, and go on afterwards."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


@contextmanager
def frozen_without_lock(site: Site, part: str) -> Iterator[None]:
    """This part stands still, and not in a transaction: SQLite has one lock for all who write."""
    with closing(sqlite3.connect(site.state / "crawler.db", timeout=PATIENCE, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with frozen(site.pid(part)):
            other.execute("ROLLBACK")
            yield


@asynccontextmanager
async def missing(site: Site, part: str) -> AsyncIterator[None]:
    """This part of the stack is dead, and nobody starts it again before the block ends."""
    with frozen(site.command.process.pid):
        killed = site.kill(part)
        yield
    await site.until_replaced(part, killed)


async def end_runs(site: Site, *runs: Started) -> None:
    """Those whose tests were not chosen, or failed."""
    for run in runs:
        if not site.details(run).run.status.is_over:
            await site.control.runs.stop(run.run_id, StopRequest(force=True))
            await site.until_over(run)


def events(details: RunDetails) -> list[str]:
    return [line.event for line in details.log]


async def until_event(site: Site, run: Started, event: str) -> RunDetails:
    def told() -> RunDetails | None:
        details = site.details(run)
        return details if event in events(details) else None

    found: RunDetails = await eventually(told, patience=PATIENCE)
    return found


async def assert_stopped(site: Site, run: Started, reason: str = "stopped", *, ends: int = 1) -> RunDetails:
    """The run ended as its jobs did: what they left running, wrote and exited with is what everybody is told.

    `ends`: how often it has ended by now."""
    details = await site.until_over(run)
    assert [task.status for task in details.tasks] == [
        _status(site, run, task.attempt, task.task) for task in details.tasks
    ]
    succeeded = all(task.status is TaskStatus.SUCCEEDED for task in details.tasks)
    expected = (RunStatus.COMPLETED, "all_succeeded") if succeeded else (RunStatus.FAILED, reason)
    assert (details.run.status, details.run.reason) == expected
    assert (details.run.end_number, events(details).count("ended")) == (ends, ends)
    told = [event for event in events(details) if event not in AFTER_AN_END]
    assert told[-2:] == [StopPhase.PROVED, "ended"]
    assert Counter((each.kind, each.state) for each in details.exports) == {
        ("run_ended", ExportState.DONE): ends,
        ("files_ready", ExportState.DONE): ends,
    }
    closing = [line["kind"] for line in notices(site, run) if line["kind"] in ("stopped", "finished")]
    assert closing[ends - 1 :] == ["finished" if succeeded or reason not in STOPPED else "stopped"]
    assert _of_jobs(site, run) == [], "the proof said that nothing is left"
    await eventually(lambda: not site.processes(run), patience=PATIENCE)
    return details


def _of_jobs(site: Site, run: Started) -> list[list[str]]:
    """The commands of the run's processes without its runners: they start waiting jobs after the end of their own."""
    commands = []
    for process in site.processes(run):
        with suppress(psutil.NoSuchProcess):
            commands.append(process.cmdline())
    return [command for command in commands if command and RUNNER not in command]


def notices(site: Site, run: Started) -> list[dict[str, str]]:
    return site.lines("notices.jsonl", run)


def _status(site: Site, run: Started, attempt: int, task: int) -> TaskStatus:
    """What the task's runner wrote down of its end, which must be what the job itself noted, if it could."""
    path = site.job_folder(run, task, attempt) / "exit.json"
    noted = site.jobs(run).get((task, attempt))
    if not path.exists():
        assert noted is None
        return TaskStatus.STOPPED  # it never had a job
    record = json.loads(path.read_text())
    assert noted is None or noted.ends in ((), (record["code"],))
    if record["stop_asked"]:
        return TaskStatus.STOPPED
    return TaskStatus.FAILED if record["code"] else TaskStatus.SUCCEEDED
