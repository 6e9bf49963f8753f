"""How does a request become a job, once per key?"""

import hashlib
import json
import shutil
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

from crawler_lifecycle.adapters.local.layout import Layout, checked, log_name
from crawler_lifecycle.adapters.local.placing import Placing, place_name
from crawler_lifecycle.adapters.local.processes import MARK, NAME
from crawler_lifecycle.adapters.local.records import JobFolder, Spec, Unreadable
from crawler_lifecycle.contract.deployment import Deployment, DeploymentRequest
from crawler_lifecycle.domain.naming import job_name
from crawler_lifecycle.errors import Conflict, Refused, TemporaryError

LONGEST_STRING = 128 * 1024 - 1  # what Linux passes to a program in one piece
# From the SIGTERM at a job's deadline to its SIGKILL, for a request that leaves it open. Those for runs of ours never
# do; whoever else asks the scheduler service may, and a deadline has to end what does not listen all the same.
GRACE_SECONDS = 30


def claim(request: DeploymentRequest, layout: Layout, files: Path, placing: Placing) -> Deployment:
    """The job of the request's key, made and queued unless it is there. Only inside `placing.exclusive`."""
    spec = new_spec(request, files)
    folder = JobFolder(layout.job(spec.name))
    try:
        known = folder.spec()
    except Unreadable as error:
        raise TemporaryError(f"the job of {request.key} cannot be read: {error}") from error
    if known is None:
        # first: a place without a job is cleared, a job without a place would wait for ever; and a look that comes
        # between the question whether it is too late and the job is told by the place that it may come
        placing.enqueue(spec)
        if _is_late(request):
            placing.withdraw(spec)
            raise TemporaryError(f"the claim on {request.key} has run out: it has to be claimed again")
        _make(folder, spec, layout)
        return Deployment(key=spec.key, job_name=spec.name, job_uid=spec.uid, created=True)
    if known.installation != spec.installation:
        raise Conflict(f"{request.key} belongs to another installation, {known.installation}")
    if known.request_hash != spec.request_hash:
        raise Conflict(f"{request.key} was deployed already, for another request")
    if not folder.has_started and not folder.has_ended and not folder.has_runner:
        placing.enqueue(known)
    return Deployment(key=known.key, job_name=known.name, job_uid=known.uid, created=False)


def new_spec(request: DeploymentRequest, files: Path) -> Spec:
    folder = files / checked(request.run_uid)
    uid = str(uuid4())
    name = job_name(request.run_uid, request.task, request.attempt)
    now = time.time_ns()
    spec = Spec(
        uid=uid,
        key=request.key,
        installation=request.installation,
        run_uid=request.run_uid,
        name=name,
        request_hash=request_hash(request),
        claimed_at=now / 1e9,
        place=place_name(now, name),
        command=_command(request),
        environment=_environment(request, folder, uid, name),
        files=str(folder),
        log=str(folder / log_name(request.task, request.attempt)),
        deadline_seconds=request.deadline_seconds,
        grace_seconds=request.grace_seconds or request.crawler.grace_seconds or GRACE_SECONDS,
    )
    _refuse_what_no_program_can_get(spec)
    return spec


def _is_late(request: DeploymentRequest) -> bool:
    """Whoever asked may have been stopped for long, and the run proved over since."""
    return request.not_after is not None and request.not_after <= datetime.now(UTC)


def request_hash(request: DeploymentRequest) -> str:
    """The same for the same request on every try, also after new fields with defaults were added."""
    values = request.model_dump(mode="json", exclude_defaults=True, exclude={"not_after"})
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def _command(request: DeploymentRequest) -> list[str]:
    crawler = request.crawler
    if not crawler.command:
        raise Refused(f"crawler {crawler.name!r} has no command: the local cluster runs programs, not images")
    flags: list[str] = []
    if crawler.argument_flag:
        for name, value in request.arguments.items():
            flags += [crawler.argument_flag, f"{name}={value}"]
    return [*crawler.command, *flags]


def _environment(request: DeploymentRequest, folder: Path, uid: str, name: str) -> dict[str, str]:
    return {
        **request.crawler.environment,
        "CRAWL_RUN_ID": str(request.run_id),
        "CRAWL_RUN_UID": request.run_uid,
        "CRAWL_TASK": str(request.task),
        "CRAWL_TASKS": str(request.tasks),
        "CRAWL_ATTEMPT": str(request.attempt),
        "CRAWL_ARGUMENTS": json.dumps(request.arguments, ensure_ascii=False),
        "CRAWL_FILES": str(folder),
        MARK: uid,
        NAME: name,
    }


def _refuse_what_no_program_can_get(spec: Spec) -> None:
    for name, value in spec.environment.items():
        if not name or "=" in name or "\0" in name + value:
            raise Refused(f"environment: {name!r} cannot be set: a name without '=' and no zero bytes were expected")
        if len(f"{name}={value}".encode()) >= LONGEST_STRING:
            raise Refused(f"environment: {name} is longer than the {LONGEST_STRING} bytes a program can be given")
    for part in spec.command:
        if "\0" in part:
            raise Refused(f"command: {part!r} has a zero byte")
        if len(part.encode()) >= LONGEST_STRING:
            raise Refused(f"command: a part is longer than the {LONGEST_STRING} bytes a program can be given")
    if not spec.command[0]:
        raise Refused("command: the name of the program is empty")


def _make(folder: JobFolder, spec: Spec, layout: Layout) -> None:
    """All at once: the finished folder gets its name, which only works if nobody has it."""
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
