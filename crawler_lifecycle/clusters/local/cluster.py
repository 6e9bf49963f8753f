"""The port `Cluster` on one machine, where jobs are process groups, and the watch for changes to the jobs.

Every change to a job touches the file `changed/<run_uid>`. The file stays until a watcher has passed the change on, so
changes made while no watcher ran are reported, too.
"""

import logging
import signal
import socket
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from watchfiles import Change, watch

from crawler_lifecycle.base.words import utc_text
from crawler_lifecycle.clusters.adapters import log_files
from crawler_lifecycle.clusters.local import processes
from crawler_lifecycle.clusters.local.creation import create_once
from crawler_lifecycle.clusters.local.looking import LocalObserver, result_of
from crawler_lifecycle.clusters.local.placing import Placing
from crawler_lifecycle.clusters.local.records import (
    JOB_NAME,
    EndRecord,
    JobFolder,
    Layout,
    Stop,
    UnreadableRecord,
    job_name_of,
    names,
    utc_time,
)
from crawler_lifecycle.clusters.local.stopping import Stopper
from crawler_lifecycle.clusters.ports import NO_UIDS, KeepFacts, LogChunk, PlacesTaken, Uids, keep_no_facts
from crawler_lifecycle.errors import BadInput, NotFound, Refused, TemporaryError
from crawler_lifecycle.model.deployment import Deployment, DeploymentRequest
from crawler_lifecycle.model.looks import JobKey, JobLook, JobPhase, Look
from crawler_lifecycle.model.naming import checked_uid
from crawler_lifecycle.model.supervision import ListedJob
from crawler_lifecycle.model.task_changes import TaskEvidence

logger = logging.getLogger(__name__)
LONGEST_SILENCE_MS = 1000  # longest time without a change before an empty set is yielded
COLLECT_MS = 200  # changes within this time are yielded together
KILLED = 128 + signal.SIGKILL  # exit code of a killed program


def watch_runs(layout: Layout) -> Iterator[set[str]]:
    """Yield the touched run_uids, indefinitely; an empty set after every silent second.

    While the folder cannot be watched, log each new problem once, yield empty sets and try again.
    """
    last_logged = ""
    while True:
        try:
            yield from _watch_once(layout)
        except OSError as error:
            # looks continue without a watcher, and the obstacle may go away
            if str(error) != last_logged:
                last_logged = str(error)
                logger.warning("changes of local jobs cannot be watched: %s", last_logged)
            time.sleep(LONGEST_SILENCE_MS / 1000)  # no event shows when the folder can be watched again
            yield set()


def _watch_once(layout: Layout) -> Iterator[set[str]]:
    """Yield the touched run_uids (none after a silence), then remove their files.

    Return when the folder was replaced, because the watch sees the old folder only.
    """
    layout.make()
    folder = layout.changed
    watched_inode = folder.stat().st_ino
    for changes in watch(
        folder,
        watch_filter=lambda change, _: change is not Change.deleted,
        debounce=COLLECT_MS,
        rust_timeout=LONGEST_SILENCE_MS,
        yield_on_timeout=True,
        recursive=False,
    ):
        # The listing adds files from before the watch: such files give no event. The events add files touched again
        # just before their removal: such files are in no listing.
        touched = {Path(path).name for _, path in changes} | set(names(folder))
        yield {name for name in touched if _is_run_uid(name)}
        for name in touched:
            (folder / name).unlink(missing_ok=True)
        if not folder.exists() or folder.stat().st_ino != watched_inode:
            return


def _is_run_uid(name: str) -> bool:
    try:
        return checked_uid(name) == name
    except BadInput:
        return False


class LocalCluster:
    """Cluster of process groups. `installation` selects an installation's jobs; None selects all jobs."""

    records_stay = True

    def __init__(self, root: Path, files: Path, installation: str | None, capacity: int) -> None:
        self._layout = Layout(root.absolute())
        self._files = files.absolute()
        self._installation = installation
        self._placing = Placing(self._layout, capacity)
        self._observer = LocalObserver(self._layout, installation, capacity)
        self._stopper = Stopper(self._layout, self._placing)

    def deploy(self, request: DeploymentRequest) -> Deployment:
        """Create the request's job unless it exists, and start waiting jobs while there is room."""
        if self._installation not in (None, request.installation):
            raise Refused(f"installation: this cluster runs jobs of {self._installation}, not {request.installation}")
        with _errors_are_temporary("deploy"):
            self._layout.make()
            with self._placing.exclusive():
                deployment = create_once(request, self._layout, self._files, self._placing)
                self._placing.start_waiting()
            self._layout.announce_change(request.run_uid)
            return deployment

    def place_waiting(self) -> None:
        """Start waiting jobs while there is room. A later call repairs an interrupted start."""
        with _errors_are_temporary("start waiting jobs"):
            self._layout.make()
            with self._placing.exclusive():
                self._placing.start_waiting()

    def look(
        self,
        run_uid: str,
        watched: Collection[JobKey] = (),  # noqa: ARG002 (every job costs the same)
        tasks: Collection[int] | None = None,
        *,
        uids: Uids = NO_UIDS,  # noqa: ARG002 (records have no labels, which a person could edit)
    ) -> Look:
        return self._observer.look(run_uid, tasks)

    def inventory(self) -> Iterator[Sequence[ListedJob]]:
        with _errors_are_temporary("list its jobs"):
            yield living(self._layout, self._installation)

    def evidence(
        self,
        run_uid: str,
        jobs: Sequence[JobKey],
        *,
        hurried: bool = False,  # noqa: ARG002 (local files are read at once)
    ) -> list[TaskEvidence]:
        with _errors_are_temporary("collect evidence"):
            looks = self._observer.look_at_jobs(run_uid, jobs)
            items = (self._evidence_of(run_uid, job) for job in looks.values())
            return [item for item in items if item]

    def stop(
        self,
        run_uid: str,
        jobs: Sequence[JobKey],
        *,
        uids: Uids = NO_UIDS,  # noqa: ARG002
        hurried: bool = False,  # noqa: ARG002 (a local stop does not wait)
        keep: KeepFacts = keep_no_facts,  # noqa: ARG002 (a job's records outlive its end)
    ) -> dict[JobKey, str]:
        with _errors_are_temporary("stop jobs"):
            self._stopper.ask_to_end(self._folders(run_uid, jobs))
        return {}

    def give_up(self, run_uid: str, jobs: Sequence[JobLook]) -> set[JobKey]:  # noqa: ARG002
        """Return all jobs, and leave their ends to `stop`: here a job waits for a place only, and never in vain."""
        return {(job.task, job.attempt) for job in jobs}

    def kill(
        self,
        run_uid: str,
        jobs: Sequence[JobKey],
        *,
        uids: Uids = NO_UIDS,  # noqa: ARG002
        keep: KeepFacts = keep_no_facts,  # noqa: ARG002 (a job's records outlive its end)
    ) -> None:
        with _errors_are_temporary("kill jobs"):
            self._stopper.kill(self._folders(run_uid, jobs))

    def unreached(self, run_uid: str, jobs: Sequence[JobKey]) -> dict[JobKey, str]:  # noqa: ARG002
        """Return no job: a machine always reaches its own processes."""
        return {}

    def remove(self, run_uid: str, jobs: Sequence[JobKey], *, uids: Uids = NO_UIDS) -> int:  # noqa: ARG002
        """Do nothing: job records are small and stay, and logs are among the run's files already."""
        return 0

    def log(self, run_uid: str, task: int, attempt: int, offset: int) -> LogChunk:
        with _errors_are_temporary("read a log"):
            job = self._observer.look_at_jobs(run_uid, [(task, attempt)]).get((task, attempt))
            if job is None:
                raise NotFound(f"run {run_uid} has no job of task {task}, attempt {attempt}, in this cluster")
            # the phase is read before the log: a line printed in between is read again and never skipped
            return log_files.read_from(
                self._log_file(run_uid, task, attempt), offset, ended=job.phase.has_ended or job.gone
            )

    def changes(self) -> Iterator[set[str]]:
        return watch_runs(self._layout)

    def check(self) -> str:
        with _errors_are_temporary("use the state folder"):
            self._layout.make()
            self._files.mkdir(parents=True, exist_ok=True)
        places = self.places()
        in_words = f"{places.taken} of {places.total} places taken, {places.waiting} waiting"
        return f"local cluster in {self._layout.root}: {in_words}"

    def places(self) -> PlacesTaken:
        """Count the places without the lock: a reader must not delay starts. A job between two places may be missed."""
        with _errors_are_temporary("count its places"):
            if self._layout.is_away:
                raise FileNotFoundError(self._layout.missing)
            running, waiting = len(names(self._layout.running)), len(names(self._layout.waiting))
        return PlacesTaken(taken=running, total=self._placing.capacity, waiting=waiting)

    def _evidence_of(self, run_uid: str, job: JobLook) -> TaskEvidence | None:
        return evidence(job, JobFolder(self._layout.job(job.name)), self._log_file(run_uid, job.task, job.attempt))

    def _folders(self, run_uid: str, jobs: Sequence[JobKey]) -> list[JobFolder]:
        """Return these jobs' folders; absent jobs and foreign installations' jobs are left out."""
        folders = (self._observer.folder(run_uid, task, attempt) for task, attempt in jobs)
        return [folder for folder in folders if folder]

    def _log_file(self, run_uid: str, task: int, attempt: int) -> Path:
        return self._files / checked_uid(run_uid) / log_files.log_name(task, attempt)


@contextmanager
def _errors_are_temporary(action: str) -> Iterator[None]:
    """Turn file system errors and unreadable records into TemporaryError. `action` says what failed."""
    try:
        yield
    except (OSError, UnreadableRecord) as error:
        raise TemporaryError(f"the local cluster cannot {action}: {error}") from error


def living(layout: Layout, installation: str | None) -> list[ListedJob]:
    """Return the jobs whose record names the installation; with None, return the jobs of all installations.

    Raise FileNotFoundError while the folder is not mounted: an empty inventory would look like an empty cluster.
    """
    if layout.is_away:
        raise FileNotFoundError(layout.missing)
    places = [*_places(layout.waiting), *_places(layout.running)]
    names_with_place = {job_name_of(place) for place in places}
    names_with_process = {process.job_name for process in processes.survey() if process.job_name}
    jobs = (_listed(layout, name, installation) for name in sorted(names_with_place | names_with_process))
    return [job for job in jobs if job]


def _places(folder: Path) -> list[str]:
    try:
        return names(folder)
    except FileNotFoundError:
        return []  # no job was ever deployed


def _listed(layout: Layout, name: str, installation: str | None) -> ListedJob | None:
    """Return the job; None for another installation's job, and for a job without a record in our folder.

    A job without a record belongs to another local cluster on this machine, or is still in creation.
    """
    match = JOB_NAME.fullmatch(name)
    if match is None:
        return None
    job = JobFolder(layout.job(name))
    recorded_installation = job.installation
    if recorded_installation is None or installation not in (None, recorded_installation):
        return None
    key = (int(match[2]), int(match[3]))  # task and attempt
    return ListedJob(name, run_uid=job.path.parent.name, key=key, made_at=_made_at(job))


def _made_at(job: JobFolder) -> datetime | None:
    try:
        spec = job.spec()
    except UnreadableRecord:
        return None
    return utc_time(spec.claimed_at) if spec else None


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
    except UnreadableRecord as error:
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


def _how(ended: EndRecord, stop: Stop | None) -> str:
    """Return how the job ended. After our own SIGKILL, the exit code alone would leave the killer unknown."""
    was_killed = ended.code == KILLED and ended.stop_asked and stop is not None and stop.kill
    return "killed by the stop" if was_killed else ended.reason or "succeeded"
