"""Create the local job for a deployment request: one job for a key, however often the request is repeated."""

import shutil
import tempfile
import time
from pathlib import Path
from uuid import uuid4

from crawler_lifecycle.clusters.adapters import job_request
from crawler_lifecycle.clusters.adapters.log_files import log_name
from crawler_lifecycle.clusters.local.placing import Placing, place_name
from crawler_lifecycle.clusters.local.processes import NAME_VARIABLE, UID_VARIABLE
from crawler_lifecycle.clusters.local.records import JobFolder, Layout, Spec, UnreadableRecord
from crawler_lifecycle.errors import Conflict, Refused, TemporaryError
from crawler_lifecycle.model.deployment import Deployment, DeploymentRequest
from crawler_lifecycle.model.naming import checked_uid, job_name


def create_once(request: DeploymentRequest, layout: Layout, files: Path, placing: Placing) -> Deployment:
    """Return the job for the request's key. Create the job, with a place in the queue, unless the job exists.

    Raise Conflict if the existing job is from another request or installation, and TemporaryError if its record cannot
    be read or the request's claim has expired. Callers hold `placing.exclusive`.
    """
    spec = new_spec(request, files, layout)
    folder = JobFolder(layout.job(spec.name))
    try:
        existing = folder.spec()
    except UnreadableRecord as error:
        raise TemporaryError(f"the job of {request.key} cannot be read: {error}") from error
    if existing is None:
        # The place comes before the job. A place without a job is cleared later, but a job without a place would wait
        # forever. The place comes before the check of the claim, too: the place shows looks that a job may appear.
        placing.enqueue(spec)
        try:
            job_request.refuse_if_late(request)
        except TemporaryError:
            placing.withdraw(spec)
            raise
        _make(folder, spec, layout)
        return Deployment(key=spec.key, job_name=spec.name, job_uid=spec.uid, created=True)
    if existing.installation != spec.installation:
        raise Conflict(f"{request.key} belongs to another installation, {existing.installation}")
    if existing.request_hash != spec.request_hash:
        raise Conflict(f"{request.key} was deployed already, for another request")
    if not folder.has_started and not folder.has_ended and not folder.has_runner:
        placing.enqueue(existing)  # a no-op unless the place was lost: without a place the job would wait forever
    return Deployment(key=existing.key, job_name=existing.name, job_uid=existing.uid, created=False)


def new_spec(request: DeploymentRequest, files: Path, layout: Layout) -> Spec:
    """Return the record of a new job, with a new uid. Raise Refused if the request can start no program here."""
    folder = files / checked_uid(request.run_uid)
    uid = str(uuid4())
    name = job_name(request.run_uid, request.task, request.attempt)
    result = JobFolder(layout.job(name)).result_path
    now = time.time_ns()
    spec = Spec(
        uid=uid,
        key=request.key,
        installation=request.installation,
        run_uid=request.run_uid,
        name=name,
        request_hash=job_request.request_hash(request),
        claimed_at=now / 1e9,
        place=place_name(now, name),
        command=_command(request),
        environment=job_request.environment_of(request, str(folder), str(result))
        | {UID_VARIABLE: uid, NAME_VARIABLE: name},
        files=str(folder),
        log=str(folder / log_name(request.task, request.attempt)),
        deadline_seconds=request.deadline_seconds,
        grace_seconds=job_request.grace_seconds(request),
    )
    job_request.refuse_unusable_texts(spec.environment, spec.command)
    return spec


def _command(request: DeploymentRequest) -> list[str]:
    crawler = request.crawler
    if not crawler.command:
        raise Refused(f"crawler {crawler.name!r} has no command: the local cluster runs programs, not images")
    return [*crawler.command, *job_request.arguments_of(request)]


def _make(folder: JobFolder, spec: Spec, layout: Layout) -> None:
    """Create the job's folder atomically: write a draft, then rename the draft, which fails if the job exists."""
    Path(spec.files).mkdir(parents=True, exist_ok=True)
    folder.path.parent.mkdir(exist_ok=True)
    draft = Path(tempfile.mkdtemp(dir=layout.new))
    try:
        JobFolder(draft).write(spec)
        (draft / "lock").touch()
        draft.rename(folder.path)
    except OSError:
        shutil.rmtree(draft, ignore_errors=True)
        raise
