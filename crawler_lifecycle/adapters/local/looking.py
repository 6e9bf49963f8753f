"""What does the local cluster show of a run: one listing of its folder, and one or two small files a job."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from crawler_lifecycle.adapters.local import processes
from crawler_lifecycle.adapters.local.layout import JOB_NAME, Layout, names
from crawler_lifecycle.adapters.local.records import Ended, JobFolder, Started, Unreadable
from crawler_lifecycle.domain.looks import JobLook, JobPhase, Look
from crawler_lifecycle.domain.naming import job_name
from crawler_lifecycle.errors import BadInput, TemporaryError


@dataclass(frozen=True, slots=True)
class Found:
    task: int
    attempt: int
    folder: JobFolder

    @property
    def name(self) -> str:
        return self.folder.path.name


@dataclass(frozen=True, slots=True)
class _Orphan:
    """A job that started and has neither a runner nor an end: its processes decide."""

    look: JobLook
    started: Started


class Looking:
    def __init__(self, layout: Layout, installation: str | None) -> None:
        self._layout = layout
        self._installation = installation

    def look(self, run_uid: str) -> Look:
        try:
            coming = self._coming(run_uid)  # first: what is listed afterwards has come
            listed = list(self._list(run_uid))
            jobs = self._see(listed)
        except (TemporaryError, BadInput) as error:
            return Look(complete=False, problem=error.message)
        there = {(found.task, found.attempt) for found in listed}
        return Look(complete=True, jobs=jobs | {key: job for key, job in coming.items() if key not in there})

    def some(self, run_uid: str, jobs: Iterable[tuple[int, int]]) -> dict[tuple[int, int], JobLook]:
        """Only these, by task and attempt; what is not there is left out."""
        return self._see(self._found(run_uid, task, attempt) for task, attempt in jobs)

    def folder(self, run_uid: str, task: int, attempt: int) -> JobFolder | None:
        """The job's folder, if there is one of our installation."""
        folder = self._found(run_uid, task, attempt).folder
        spec = folder.spec()
        return folder if spec and self._is_ours(spec.installation) else None

    def _is_ours(self, installation: str) -> bool:
        return self._installation in (None, installation)

    def _found(self, run_uid: str, task: int, attempt: int) -> Found:
        return Found(task, attempt, JobFolder(self._layout.run(run_uid) / job_name(run_uid, task, attempt)))

    def _see(self, listed: Iterable[Found]) -> dict[tuple[int, int], JobLook]:
        jobs: dict[tuple[int, int], JobLook] = {}
        orphans: list[_Orphan] = []
        waiting = _Waiting(self._layout)
        for found in listed:
            try:
                seen = self._job(found, waiting)
            except (Unreadable, OSError) as error:
                seen = JobLook(found.task, found.attempt, "", found.name, JobPhase.UNCLEAR, message=str(error))
            if isinstance(seen, _Orphan):
                orphans.append(seen)
            elif seen:
                jobs[found.task, found.attempt] = seen
        if orphans:
            # after the last of their runners was found dead: an older survey could miss what one of them started
            survey = processes.survey()
            jobs.update({(orphan.look.task, orphan.look.attempt): _judge(orphan, survey) for orphan in orphans})
        return jobs

    def _coming(self, run_uid: str) -> dict[tuple[int, int], JobLook]:
        """Jobs that may be just about to be made: their place in the queue is made before them."""
        try:
            places = names(self._layout.waiting)
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise TemporaryError(f"the waiting jobs cannot be listed: {error}") from error
        queued = (place.partition("-")[2] for place in places if run_uid.replace("-", "") in place)
        message = "it is just being made"
        return {
            key: JobLook(*key, uid="", name=name, phase=JobPhase.UNCLEAR, message=message)
            for name in queued
            if (key := _job_of(run_uid, name))
        }

    def _list(self, run_uid: str) -> Iterator[Found]:
        folder = self._layout.run(run_uid)
        try:
            listed = names(folder)
        except FileNotFoundError:
            if self._layout.root.is_dir():
                return
            raise TemporaryError(f"{self._layout.root} is missing: is the state folder mounted?") from None
        except OSError as error:
            raise TemporaryError(f"the jobs of run {run_uid} cannot be listed: {error}") from error
        for name in listed:
            if key := _job_of(run_uid, name):
                yield Found(*key, JobFolder(folder / name))

    def _job(self, found: Found, waiting: "_Waiting") -> "JobLook | _Orphan | None":
        folder = found.folder
        ended = folder.ended()
        if not ended and (started := folder.started()):
            if not self._is_ours(started.installation):
                return None
            look = _running(found, started)
            if folder.has_runner:
                return look
            ended = folder.ended()  # it may have ended between the two
            if not ended:
                return _Orphan(look, started)
        if ended:
            return _ended(found, ended) if self._is_ours(ended.installation) else None
        spec = folder.spec()
        if spec is None and folder.path.exists():
            raise Unreadable(f"{folder.path} has no spec.json")
        if spec is None or not self._is_ours(spec.installation):
            return None
        cause = "capacity" if waiting.has(spec.place) else "starting"
        return JobLook(found.task, found.attempt, spec.uid, found.name, JobPhase.WAITING, cause=cause)


class _Waiting:
    """The queue, listed only if a job of the run waits."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._places: set[str] | None = None

    def has(self, place: str) -> bool:
        if self._places is None:
            self._places = set(names(self._layout.waiting))
        return place in self._places


def _job_of(run_uid: str, name: str) -> tuple[int, int] | None:
    """Task and attempt, if this is the name of a job of the run."""
    parts = JOB_NAME.fullmatch(name)
    return (int(parts[2]), int(parts[3])) if parts and parts[1] == run_uid.replace("-", "") else None


def _running(found: Found, started: Started) -> JobLook:
    stop_asked = found.folder.stop_asked
    return JobLook(
        found.task,
        found.attempt,
        started.uid,
        found.name,
        JobPhase.ENDING if stop_asked else JobPhase.RUNNING,
        started_at=moment(started.at),
        stop_asked=stop_asked,
    )


def _ended(found: Found, ended: Ended) -> JobLook:
    return JobLook(
        found.task,
        found.attempt,
        ended.uid,
        found.name,
        JobPhase.FAILED if ended.reason else JobPhase.SUCCEEDED,
        reason=ended.reason,
        exit_code=ended.code,
        message=ended.message,
        started_at=moment(ended.started_at) if ended.started_at else None,
        ended_at=moment(ended.at),
        stop_asked=ended.stop_asked,
        gone=not ended.left_over,
    )


def _judge(orphan: _Orphan, survey: list[processes.Seen]) -> JobLook:
    if processes.of_job(survey, orphan.started.uid, orphan.started.first):
        return replace(orphan.look, cause="runner_lost")
    message = "the runner was killed, and so was the job or its end was not seen: nobody knows the result"
    return replace(orphan.look, phase=JobPhase.VANISHED, reason="runner_lost", message=message, gone=True)


def moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
