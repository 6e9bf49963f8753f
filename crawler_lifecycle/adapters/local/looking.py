"""Looks at the local cluster: a listing of the run's folder, and one or two small files for every job."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace

from crawler_lifecycle.adapters.local import processes
from crawler_lifecycle.adapters.local.layout import JOB_NAME, Layout, names
from crawler_lifecycle.adapters.local.records import Ended, JobFolder, Started, Unreadable, moment
from crawler_lifecycle.adapters.local.results import facts_of
from crawler_lifecycle.domain.looks import EndRequest, JobKey, JobLook, JobPhase, Look, Pods
from crawler_lifecycle.domain.naming import job_name
from crawler_lifecycle.domain.reasons import CAPACITY, POD_OVERDUE
from crawler_lifecycle.errors import BadInput, TemporaryError


@dataclass(frozen=True, slots=True)
class LocalJob:
    task: int
    attempt: int
    folder: JobFolder

    @property
    def name(self) -> str:
        return self.folder.path.name


@dataclass(frozen=True, slots=True)
class _Doubt:
    """A job whose records do not tell whether it lives: a survey of the machine's processes decides."""

    look: JobLook
    folder: JobFolder


class Observer:
    def __init__(self, layout: Layout, installation: str | None) -> None:
        self._layout = layout
        self._installation = installation

    def look(self, run_uid: str, tasks: Collection[int] | None = None) -> Look:
        """Look at the run. `tasks` limits the look to these tasks."""
        wanted = None if tasks is None else frozenset(tasks)
        try:
            coming = self._coming(run_uid)  # read first: a job created from now on is in the list below
            listed = [job for job in self._list(run_uid) if wanted is None or job.task in wanted]
            jobs = self._look_at_all(listed)
            self._refuse_if_away()
        except (TemporaryError, BadInput) as error:
            return Look(complete=False, problem=error.message)
        existing = {(job.task, job.attempt) for job in listed}
        for key, job in coming.items():
            if key not in existing and (wanted is None or key[0] in wanted):
                jobs[key] = job
        return Look(complete=True, jobs=jobs)

    def look_at_jobs(self, run_uid: str, jobs: Iterable[JobKey]) -> dict[JobKey, JobLook]:
        """Look at these jobs by task and attempt; absent jobs are left out."""
        return self._look_at_all(self._local_job(run_uid, task, attempt) for task, attempt in jobs)

    def folder(self, run_uid: str, task: int, attempt: int) -> JobFolder | None:
        """Return the job's folder if the folder exists and belongs to this installation."""
        folder = self._local_job(run_uid, task, attempt).folder
        return folder if folder.path.exists() and self._is_ours(folder.installation) else None

    def _is_ours(self, installation: str | None) -> bool:
        """Return whether the job is ours. Without an installation on record it belongs to all who know its run."""
        return installation is None or self._installation in (None, installation)

    def _local_job(self, run_uid: str, task: int, attempt: int) -> LocalJob:
        return LocalJob(task, attempt, JobFolder(self._layout.run(run_uid) / job_name(run_uid, task, attempt)))

    def _look_at_all(self, listed: Iterable[LocalJob]) -> dict[JobKey, JobLook]:
        jobs: dict[JobKey, JobLook] = {}
        doubts: list[_Doubt] = []
        waiting = _Waiting(self._layout)
        for job in listed:
            try:
                seen = self._look_at(job, waiting)
            except (Unreadable, OSError) as error:
                seen = self._look_at_unreadable(job, str(error))
            if isinstance(seen, _Doubt):
                doubts.append(seen)
            elif seen:
                jobs[job.task, job.attempt] = seen
        if doubts:
            # the survey comes after all checks for runners: a runner could start a process after an earlier survey, and
            # be dead at its check
            survey = processes.survey()
            jobs.update({(doubt.look.task, doubt.look.attempt): _judge(doubt, survey) for doubt in doubts})
        return jobs

    def _coming(self, run_uid: str) -> dict[JobKey, JobLook]:
        """Return jobs that may be created at this moment: their place in the queue exists before their folder."""
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
            if (key := _key_of(run_uid, name))
        }

    def _list(self, run_uid: str) -> Iterator[LocalJob]:
        folder = self._layout.run(run_uid)
        try:
            listed = names(folder)
        except FileNotFoundError:
            self._refuse_if_away()
            return
        except OSError as error:
            raise TemporaryError(f"the jobs of run {run_uid} cannot be listed: {error}") from error
        for name in listed:
            if key := _key_of(run_uid, name):
                yield LocalJob(*key, JobFolder(folder / name))

    def _refuse_if_away(self) -> None:
        """Raise if the root is away, or went away during the look: unseen jobs are not gone."""
        if not self._layout.jobs.is_dir():
            raise TemporaryError(self._layout.missing)

    def _look_at(self, job: LocalJob, waiting: "_Waiting") -> "JobLook | _Doubt | None":
        folder = job.folder
        ended = folder.ended()
        if not ended and (started := folder.started()):
            if not self._is_ours(started.installation):
                return None
            look = _running(job, started)
            if folder.has_runner:
                return look
            ended = folder.ended()  # the job may have ended between the two reads
            if not ended:
                return _Doubt(look, folder)
        if ended:
            return _ended(job, ended) if self._is_ours(ended.installation) else None
        spec = folder.spec()
        if spec is None and folder.path.exists():
            raise Unreadable(f"{folder.path} has no spec.json")
        if spec is None or not self._is_ours(spec.installation):
            return None
        cause = CAPACITY if waiting.has(spec.place) else "starting"
        return JobLook(job.task, job.attempt, spec.uid, job.name, JobPhase.WAITING, cause=cause)

    def _look_at_unreadable(self, job: LocalJob, problem: str) -> "JobLook | _Doubt | None":
        folder = job.folder
        look = JobLook(job.task, job.attempt, "", job.name, JobPhase.UNCLEAR, message=problem)
        try:
            if not self._is_ours(folder.installation):
                return None
            # the runner is checked last: a job with these records gets no new runner, so the answer stays true
            cannot_be_started = folder.stop_asked or folder.has_started or folder.has_ended
            if not cannot_be_started or folder.has_runner:
                return look
            ended = _end_of(folder)  # the job may have ended since
        except OSError:
            return look
        return _ended(job, ended) if ended else _Doubt(look, folder)


class _Waiting:
    """The queue of waiting jobs, listed only if a job in the run waits."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._places: set[str] | None = None

    def has(self, place: str) -> bool:
        if self._places is None:
            self._places = set(names(self._layout.waiting))
        return place in self._places


def _key_of(run_uid: str, name: str) -> JobKey | None:
    """Return task and attempt if the name belongs to a job in the run."""
    parts = JOB_NAME.fullmatch(name)
    return (int(parts[2]), int(parts[3])) if parts and parts[1] == run_uid.replace("-", "") else None


def _end_of(folder: JobFolder) -> Ended | None:
    try:
        return folder.ended()
    except Unreadable:
        return None


def _running(job: LocalJob, started: Started) -> JobLook:
    stop_asked = job.folder.stop_asked
    return JobLook(
        job.task,
        job.attempt,
        started.uid,
        job.name,
        JobPhase.ENDING if stop_asked else JobPhase.RUNNING,
        started_at=moment(started.at),
        end_request=EndRequest.by(stop_asked),
    )


def _ended(job: LocalJob, ended: Ended) -> JobLook | _Doubt:
    look = JobLook(
        job.task,
        job.attempt,
        ended.uid,
        job.name,
        JobPhase.FAILED if ended.reason else JobPhase.SUCCEEDED,
        reason=ended.reason,
        exit_code=ended.code,
        message=ended.message,
        started_at=moment(ended.started_at) if ended.started_at else None,
        ended_at=moment(ended.at),
        pods=Pods.MAY_RUN if ended.left_over else Pods.NONE,
        end_request=EndRequest.by(ended.stop_asked),
        facts=facts_of(ended, job.folder),
    )
    return _Doubt(look, job.folder) if ended.left_over else look


def _judge(doubt: _Doubt, survey: list[processes.Seen]) -> JobLook:
    """Decide by the living processes. Processes that outlived the program make the job overdue: only force helps."""
    living = doubt.folder.processes(survey)
    remains = replace(doubt.look, pods=Pods.MAY_RUN if living else Pods.NONE)
    if remains.phase is JobPhase.UNCLEAR:
        return remains
    if living:
        remains = replace(remains, cause=POD_OVERDUE)
    if remains.phase.has_ended:
        return remains
    if doubt.folder.goes_on_in(living):
        return replace(doubt.look, cause="runner_lost")
    message = "the runner was killed, and so was the job or its end was not seen: nobody knows the result"
    return replace(remains, phase=JobPhase.VANISHED, reason="runner_lost", message=message)
