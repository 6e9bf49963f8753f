"""The checks of `crawlctl doctor`: whether every part of the installation works, and the remedy for a fault."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Protocol, runtime_checkable

import psutil

from crawler_lifecycle import configuration
from crawler_lifecycle.adapters.disk import check_room
from crawler_lifecycle.bootstrap.parts import Parts
from crawler_lifecycle.contract.audits import FindingKind
from crawler_lifecycle.contract.base import Message
from crawler_lifecycle.control import stack_file
from crawler_lifecycle.control.audits import AuditCommands
from crawler_lifecycle.control.connection import search_attribute_types
from crawler_lifecycle.control.context import Context
from crawler_lifecycle.control.engine import Engine
from crawler_lifecycle.control.installation import Installation
from crawler_lifecycle.control.limits import LimitCommands
from crawler_lifecycle.domain.naming import archive_queue
from crawler_lifecycle.domain.words import counted
from crawler_lifecycle.errors import LifecycleError, NotReady
from crawler_lifecycle.ports import Cluster, Records

MOST_FINDINGS = 1000  # only failing workflows among the latest findings are reported
MOST_NAMED = 10  # runs named in a message; further runs are shown as "..."


class Check(Message):
    """The result for a part. `line` describes the part or, unless `ok`, its fault and the remedy."""

    part: str
    ok: bool
    line: str


async def check_all(context: Context, engine: Engine, audits: AuditCommands, limits: LimitCommands) -> list[Check]:
    """Run all checks at the same time: a part that hangs must not delay the checks for other parts."""
    parts, settings = context.parts, context.installation.settings

    def in_thread(check: Callable[[Parts], str]) -> Callable[[], Awaitable[str]]:
        return lambda: context.checks.run(check, parts)

    # `context.database` and `context.scheduler` call a function in a thread, with the store or the scheduler service's
    # client. `in_thread` uses other threads, so that a database that hangs does not hold up the checks of other parts.
    checks: dict[str, Callable[[], Awaitable[str]]] = {
        "settings": _settings,
        "database": lambda: context.database(lambda store: _database(context.installation, store.records)),
        "disk": in_thread(lambda _: check_room(settings.local_folders)),
        "temporal": lambda: _temporal(engine),
        "search attributes": lambda: _search_attributes(engine),
        "worker": lambda: _worker(engine),
        "archive worker": lambda: _archive_worker(engine),
        "stack": in_thread(lambda _: _stack(settings.state)),
        "scheduler service": lambda: context.scheduler(lambda scheduler: scheduler.check()),
        "installation": lambda: _installation(context),
        "cluster": in_thread(lambda parts: parts.cluster.check()),
        "events": in_thread(lambda parts: parts.announcer.check_events()),
        "archives": in_thread(lambda parts: parts.archiver.check_archives()),
        "notices": in_thread(lambda parts: parts.pusher.check()),
        "audit": audits.check,
        "limits": limits.check,
        # `audits` has the store already, but reads the database, so the check needs a thread for the database
        "runs": lambda: context.database(lambda _: _failing_runs(audits)),
    }
    if settings.cluster.kind == "kubernetes":
        checks["cluster rights"] = in_thread(lambda parts: _rights(parts.cluster))
    return list(await asyncio.gather(*(_run_check(part, check) for part, check in checks.items())))


async def _run_check(part: str, check: Callable[[], Awaitable[str]]) -> Check:
    try:
        return Check(part=part, ok=True, line=await check())
    except LifecycleError as error:
        return Check(part=part, ok=False, line=error.message)


async def _settings() -> str:
    if problems := configuration.misspelt(os.environ):
        raise NotReady("; ".join(problems))
    return "no variable is misspelt"


def _database(installation: Installation, records: Records) -> str:
    return f"{installation.database_name}, installation {records.installation()}"


def _stack(state: Path) -> str:
    """Return the names of the stack's processes, or say that there is no stack. NotReady if a process has ended."""
    stack = stack_file.read(state)
    if stack is None:
        return "none on this state folder: its parts are looked after elsewhere"
    ended = [process.name for process in stack.processes if not psutil.pid_exists(process.pid)]
    if ended:
        raise NotReady(
            f"{', '.join(ended)} of the stack have ended: `crawlctl up` starts them again, or is not running"
        )
    return ", ".join(process.name for process in stack.processes)


async def _installation(context: Context) -> str:
    """Raise NotReady if the scheduler service serves only another installation: it would refuse our deployments."""
    served = await context.scheduler(lambda scheduler: scheduler.only_installation())
    own = await context.database(lambda store: store.records.installation())
    if served not in (None, own):
        raise NotReady(
            f"the scheduler service deploys for installation {served} only, and this one is {own}: start another "
            "service for this installation, or take CRAWLER_CLUSTER__INSTALLATION from that service"
        )
    return f"{own}, " + ("the only one that the scheduler service serves" if served else "served like any other")


def _failing_runs(audits: AuditCommands) -> str:
    """Raise NotReady for open findings about failing workflows. Workers update these findings also between audits."""
    findings = audits.overview(audits=0, findings=MOST_FINDINGS).findings
    failures = [finding for finding in findings if finding.kind is FindingKind.WORKFLOW_FAILING]
    open_failures = [finding for finding in failures if finding.closed_at is None]
    if not open_failures:
        return "no workflow of a run fails its workflow tasks"
    runs = ", ".join(str(finding.run_id) for finding in open_failures[:MOST_NAMED])
    more = ", ..." if len(open_failures) > MOST_NAMED else ""
    first = f"run {open_failures[0].run_id}: {open_failures[0].message}"
    raise NotReady(f"{counted(len(open_failures), 'run')} cannot go on ({runs}{more}). The first, {first}")


@runtime_checkable
class NeedsRights(Protocol):
    """A cluster in which the installation needs rights, such as Kubernetes. NotReady names the missing rights."""

    def check_rights(self) -> str: ...


def _rights(cluster: Cluster) -> str:
    return cluster.check_rights() if isinstance(cluster, NeedsRights) else "none needed"


async def _temporal(engine: Engine) -> str:
    await engine.ping()
    return f"{engine.address}, namespace {engine.namespace}"


async def _search_attributes(engine: Engine) -> str:
    if missing := await engine.missing_search_attributes():
        options = " ".join(f"--name {name} --type {kind}" for name, kind in missing.items())
        return (
            f"runs work, but Temporal's lists cannot filter by {', '.join(missing)}, which are not registered: "
            f"temporal operator search-attribute create {options}"
        )
    return ", ".join(search_attribute_types())


async def _worker(engine: Engine) -> str:
    pollers = await engine.pollers()
    if not pollers:
        raise NotReady(f"no worker asks task queue {engine.task_queue} for work: start `python -m workers.lifecycle`")
    return f"task queue {engine.task_queue}: {', '.join(sorted(pollers))}"


async def _archive_worker(engine: Engine) -> str:
    queue, pollers = archive_queue(engine.task_queue), await engine.archive_pollers()
    if not pollers:
        raise NotReady(f"no worker asks task queue {queue} for archives to make: start `python -m workers.lifecycle`")
    return f"task queue {queue}: {', '.join(sorted(pollers))}"
