"""Evidence for a local job: its last log lines and its record about the end."""

import signal
import socket
from pathlib import Path

from crawler_lifecycle.adapters import log_files
from crawler_lifecycle.adapters.local.records import Ended, JobFolder, Stop, Unreadable, utc_time
from crawler_lifecycle.adapters.local.results import result_of
from crawler_lifecycle.contract.steps.looks import TaskEvidence
from crawler_lifecycle.domain.looks import JobLook, JobPhase
from crawler_lifecycle.domain.words import utc_text

KILLED = 128 + signal.SIGKILL  # exit code of a killed program


def evidence(job: JobLook, folder: JobFolder, log: Path) -> TaskEvidence | None:
    """Return the job's evidence; None for a waiting job, which has no process and no log yet."""
    if job.phase is JobPhase.WAITING:
        return None
    return TaskEvidence(
        task=job.task,
        attempt=job.attempt,
        message=job.message,
        node=socket.gethostname(),
        log_tail=log_files.tail(log),
        events=_events(folder),
    )


def _events(folder: JobFolder) -> list[str]:
    """Return a line for every recorded step of the job, with its time. For an unreadable record, return the problem."""
    try:
        spec, started, stop, ended = folder.spec(), folder.started(), folder.stop(), folder.ended()
    except Unreadable as error:
        return [str(error)]
    steps: list[tuple[float, str]] = []
    if spec:
        steps.append((spec.claimed_at, "deployed"))
    if started:
        steps.append((started.at, f"started, process {started.pid or 'unknown'}"))
    if stop:
        steps.append((stop.at, "asked to end"))
    if ended:
        steps.append((ended.at, f"ended: {_how(ended, stop)}"))
    _, problem = result_of(folder) if ended else (None, None)
    lines = [f"{utc_text(utc_time(seconds), 'milliseconds')} {step}" for seconds, step in steps]
    return [*lines, problem] if problem else lines


def _how(ended: Ended, stop: Stop | None) -> str:
    """Return how the job ended. After our own SIGKILL, the exit code alone would leave the killer unknown."""
    was_killed = ended.code == KILLED and ended.stop_asked and stop is not None and stop.kill
    return "killed by the stop" if was_killed else ended.reason or "succeeded"
