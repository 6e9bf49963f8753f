"""Evidence for a local job: its last log lines and its record about the end."""

import socket
from pathlib import Path

from crawler_lifecycle.adapters import log_files
from crawler_lifecycle.adapters.local.records import JobFolder, Unreadable, moment
from crawler_lifecycle.adapters.local.results import result_of
from crawler_lifecycle.contract.steps.looks import TaskEvidence
from crawler_lifecycle.domain.looks import JobLook, JobPhase


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
    """Return the job's recorded steps with their times. An unreadable record gives the problem instead."""
    try:
        spec, started, stop, ended = folder.spec(), folder.started(), folder.stop(), folder.ended()
    except Unreadable as error:
        return [str(error)]
    recorded = [
        (spec and spec.claimed_at, "deployed"),
        (started and started.at, f"started, process {started.pid or 'unknown'}" if started else ""),
        (stop and stop.at, "asked to end"),
        (ended and ended.at, f"ended: {ended.reason or 'succeeded'}" if ended else ""),
    ]
    _, problem = result_of(folder) if ended else (None, None)
    events = [f"{moment(at).isoformat(timespec='milliseconds')} {event}" for at, event in recorded if at]
    return [*events, problem] if problem else events
