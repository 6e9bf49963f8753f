"""Look at the local cluster: list the run's folder, and read one or two small files for every job.

Where the files do not show whether a job lives, the look makes a survey of the machine's processes. `facts_of` gives
the outcome facts of an ended job, from its record about the end and the result that its program wrote.
"""

import os
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace

from crawler_lifecycle.clusters.adapters.regular_files import NotRegular, open_regular
from crawler_lifecycle.clusters.local import processes
from crawler_lifecycle.clusters.local.records import (
    JOB_NAME,
    EndRecord,
    JobFolder,
    Layout,
    StartRecord,
    UnreadableRecord,
    job_name_of,
    names,
    utc_time,
)
from crawler_lifecycle.errors import BadInput, TemporaryError
from crawler_lifecycle.model.crawl_results import LARGEST_FILE, PROBLEM, CrawlResult, read_result, too_long
from crawler_lifecycle.model.looks import (
    LONGEST_MESSAGE,
    EndRequest,
    JobKey,
    JobLook,
    JobPhase,
    Look,
    OutcomeFacts,
    Pods,
)
from crawler_lifecycle.model.naming import job_name
from crawler_lifecycle.model.reasons import CAPACITY, POD_OVERDUE, RUNNER_LOST, STARTING


def facts_of(ended: EndRecord, folder: JobFolder) -> OutcomeFacts:
    result, _ = result_of(folder)
    return OutcomeFacts(
        job_uid=ended.uid,
        succeeded=ended.reason is None,
        told_to_end=ended.stop_asked,
        reason=ended.reason,
        exit_code=ended.code,
        message=ended.message[-LONGEST_MESSAGE:] if ended.message else None,
        started_at=utc_time(ended.started_at) if ended.started_at else None,
        ended_at=utc_time(ended.at),
        result=result,
    )


def result_of(folder: JobFolder) -> tuple[CrawlResult | None, str | None]:
    """Return the program's result and the problem. Both are None if the program wrote no result.

    The program owns the file: a link or a pipe in its place is not opened. Raise OSError for a passing problem of the
    disk, which must not look like a program without a result.
    """
    try:
        with os.fdopen(open_regular(folder.result_path), "rb") as file:
            content = file.read(LARGEST_FILE + 1)
            size = os.fstat(file.fileno()).st_size
    except FileNotFoundError:
        return None, None
    except (NotRegular, PermissionError) as error:
        return None, PROBLEM.format(f"it cannot be read: {error.strerror}")
    if len(content) > LARGEST_FILE:
        return None, PROBLEM.format(too_long(size))
    return read_result(content.decode(errors="replace"))


@dataclass(frozen=True, slots=True)
class LocalJob:
    """A job's key and folder; the folder may be absent."""

    task: int
    attempt: int
    folder: JobFolder

    @property
    def name(self) -> str:
        return self.folder.path.name


@dataclass(frozen=True, slots=True)
class _DoubtfulJob:
    """A job whose records do not show whether it lives. `look` describes the job by its records alone."""

    look: JobLook
    folder: JobFolder


class LocalObserver:
    """Observer for one installation's jobs; with None, for all jobs."""

    def __init__(self, layout: Layout, installation: str | None, capacity: int) -> None:
        self._layout = layout
        self._installation = installation
        self._capacity = capacity

    def look(self, run_uid: str, tasks: Collection[int] | None = None) -> Look:
        """Look at the run. `tasks` limits the look to these tasks. A problem makes the look incomplete."""
        wanted_tasks = None if tasks is None else frozenset(tasks)

        def is_wanted(task: int) -> bool:
            return wanted_tasks is None or task in wanted_tasks

        try:
            # read first: a job whose folder is created from now on is in the list below
            in_creation = self._jobs_in_creation(run_uid)
            listed = [job for job in self._listed_jobs(run_uid) if is_wanted(job.task)]
            jobs = self._look_at_all(listed)
            self._refuse_if_away()  # again: if the root folder was taken away during the look, every job seems absent
        except (TemporaryError, BadInput) as error:
            return Look(complete=False, problem=error.message)
        listed_keys = {(job.task, job.attempt) for job in listed}
        for key, job in in_creation.items():
            if key not in listed_keys and is_wanted(job.task):
                jobs[key] = job
        return Look(complete=True, jobs=jobs)

    def look_at_jobs(self, run_uid: str, jobs: Iterable[JobKey]) -> dict[JobKey, JobLook]:
        """Look at the jobs with these keys; absent jobs are left out."""
        return self._look_at_all(self._local_job(run_uid, task, attempt) for task, attempt in jobs)

    def folder(self, run_uid: str, task: int, attempt: int) -> JobFolder | None:
        """Return the job's folder if the folder exists and belongs to this installation."""
        folder = self._local_job(run_uid, task, attempt).folder
        return folder if folder.path.exists() and self._is_ours(folder.installation) else None

    def _is_ours(self, installation: str | None) -> bool:
        """Return whether a job with this recorded installation is ours, as is every job without an installation."""
        return installation is None or self._installation in (None, installation)

    def _local_job(self, run_uid: str, task: int, attempt: int) -> LocalJob:
        return LocalJob(task, attempt, JobFolder(self._layout.run(run_uid) / job_name(run_uid, task, attempt)))

    def _look_at_all(self, listed: Iterable[LocalJob]) -> dict[JobKey, JobLook]:
        """Look at our jobs among the listed jobs. Decide all doubtful jobs by one survey."""
        jobs: dict[JobKey, JobLook] = {}
        doubtful_jobs: list[_DoubtfulJob] = []
        waiting = _WaitingPlaces(self._layout)
        for job in listed:
            try:
                look = self._look_at(job, waiting)
            except (UnreadableRecord, OSError) as error:
                look = self._look_at_unreadable(job, str(error))
            if isinstance(look, _DoubtfulJob):
                doubtful_jobs.append(look)
            elif look:
                jobs[job.task, job.attempt] = look
        if doubtful_jobs:
            # after all checks for runners: an earlier survey would miss a process that a runner starts after the survey
            # and before its own death
            survey = processes.survey()
            for doubtful in doubtful_jobs:
                jobs[doubtful.look.task, doubtful.look.attempt] = _decide(doubtful, survey)
        return jobs

    def _jobs_in_creation(self, run_uid: str) -> dict[JobKey, JobLook]:
        """Return the run's jobs with a place in the queue. A job in creation has a place, but no folder yet."""
        try:
            places = names(self._layout.waiting)
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise TemporaryError(f"the waiting jobs cannot be listed: {error}") from error
        jobs: dict[JobKey, JobLook] = {}
        for name in map(job_name_of, places):
            if key := _job_key(run_uid, name):
                message = "it is just being made"
                jobs[key] = JobLook(*key, uid="", name=name, phase=JobPhase.UNCLEAR, message=message)
        return jobs

    def _listed_jobs(self, run_uid: str) -> Iterator[LocalJob]:
        folder = self._layout.run(run_uid)
        try:
            listed = names(folder)
        except FileNotFoundError:
            self._refuse_if_away()
            return
        except OSError as error:
            raise TemporaryError(f"the jobs of run {run_uid} cannot be listed: {error}") from error
        for name in listed:
            if key := _job_key(run_uid, name):
                yield LocalJob(*key, JobFolder(folder / name))

    def _refuse_if_away(self) -> None:
        """Raise TemporaryError if the root folder is absent: its jobs may still run."""
        if not self._layout.jobs.is_dir():
            raise TemporaryError(self._layout.missing)

    def _look_at(self, job: LocalJob, waiting: "_WaitingPlaces") -> "JobLook | _DoubtfulJob | None":
        """Look at a job by its records; None if the job is absent or not ours. UnreadableRecord if it is damaged."""
        folder = job.folder
        ended = folder.ended()
        if not ended and (started := folder.started()):
            if not self._is_ours(started.installation):
                return None
            look = _running_job(job, started)
            if folder.has_runner:
                return look
            ended = folder.ended()  # the job may have ended between the two reads
            if not ended:
                return _DoubtfulJob(look, folder)
        if ended:
            return _ended_job(job, ended) if self._is_ours(ended.installation) else None
        spec = folder.spec()
        if spec is None and folder.path.exists():
            raise UnreadableRecord(f"{folder.path} has no spec.json")
        if spec is None or not self._is_ours(spec.installation):
            return None
        cause, message = STARTING, None
        if waiting.has(spec.place):
            cause, message = CAPACITY, f"{self._capacity} of {self._capacity} places taken"
        return JobLook(job.task, job.attempt, spec.uid, job.name, JobPhase.WAITING, cause=cause, message=message)

    def _look_at_unreadable(self, job: LocalJob, problem: str) -> "JobLook | _DoubtfulJob | None":
        """Look at a job with an unreadable record; None if the job is not ours."""
        folder = job.folder
        look = JobLook(job.task, job.attempt, "", job.name, JobPhase.UNCLEAR, message=problem)
        try:
            if not self._is_ours(folder.installation):
                return None
            may_still_start = not (folder.stop_asked or folder.has_started or folder.has_ended)
            # the runner is checked last: no runner begins after a record excludes a start, so the answer stays true
            if may_still_start or folder.has_runner:
                return look  # unclear: a runner has the job, or may get the job
            ended = _readable_end(folder)  # the job may have ended after the first read
        except OSError:
            return look
        return _ended_job(job, ended) if ended else _DoubtfulJob(look, folder)


class _WaitingPlaces:
    """The places of waiting jobs, listed at the first use: most runs have no waiting job."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._places: set[str] | None = None

    def has(self, place: str) -> bool:
        if self._places is None:
            self._places = set(names(self._layout.waiting))
        return place in self._places


def _job_key(run_uid: str, name: str) -> JobKey | None:
    """Return task and attempt from a job's name if the job is in the run, else None."""
    parts = JOB_NAME.fullmatch(name)
    if parts is None or parts[1] != run_uid.replace("-", ""):
        return None
    return int(parts[2]), int(parts[3])


def _readable_end(folder: JobFolder) -> EndRecord | None:
    """Return the end's record; None without a readable record."""
    try:
        return folder.ended()
    except UnreadableRecord:
        return None


def _running_job(job: LocalJob, started: StartRecord) -> JobLook:
    stop_asked = job.folder.stop_asked
    return JobLook(
        job.task,
        job.attempt,
        started.uid,
        job.name,
        JobPhase.ENDING if stop_asked else JobPhase.RUNNING,
        started_at=utc_time(started.at),
        end_request=EndRequest.by(stop_asked),
    )


def _ended_job(job: LocalJob, ended: EndRecord) -> JobLook | _DoubtfulJob:
    """Return the look at a job that has ended, doubtful if processes were left at the end."""
    look = JobLook(
        job.task,
        job.attempt,
        ended.uid,
        job.name,
        JobPhase.FAILED if ended.reason else JobPhase.SUCCEEDED,
        reason=ended.reason,
        exit_code=ended.code,
        message=ended.message,
        started_at=utc_time(ended.started_at) if ended.started_at else None,
        ended_at=utc_time(ended.at),
        pods=Pods.MAY_RUN if ended.left_over else Pods.NONE,
        end_request=EndRequest.by(ended.stop_asked),
        facts=facts_of(ended, job.folder),
    )
    return _DoubtfulJob(look, job.folder) if ended.left_over else look


def _decide(doubtful: _DoubtfulJob, survey: list[processes.SurveyedProcess]) -> JobLook:
    """Return the look at the job according to its living processes.

    Processes that outlived the job's program make the job overdue, because only a force ends them.
    """
    living = doubtful.folder.processes(survey)
    look = replace(doubtful.look, pods=Pods.MAY_RUN if living else Pods.NONE)
    if look.phase is JobPhase.UNCLEAR:
        return look
    if not look.phase.has_ended and doubtful.folder.program_is_among(living):
        return replace(look, cause=RUNNER_LOST)  # the program lives on without its runner
    if living:
        look = replace(look, cause=POD_OVERDUE)
    if look.phase.has_ended:
        return look
    message = "the runner was killed, and so was the job or its end was not seen: nobody knows the result"
    return replace(look, phase=JobPhase.VANISHED, reason=RUNNER_LOST, message=message)
