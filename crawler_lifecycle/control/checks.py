"""Is every part of the installation there, and what is to be mended where it is not?"""

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import psutil

from crawler_lifecycle import configuration
from crawler_lifecycle.adapters.disk import check_room
from crawler_lifecycle.contract.audits import FindingKind
from crawler_lifecycle.contract.base import Message
from crawler_lifecycle.control import stack_file
from crawler_lifecycle.control.engine import search_attribute_types
from crawler_lifecycle.domain.words import counted
from crawler_lifecycle.errors import LifecycleError, NotReady

if TYPE_CHECKING:
    from crawler_lifecycle.control.control import Control


MOST_FINDINGS = 1000


class Check(Message):
    part: str
    ok: bool
    line: str


async def check_all(control: "Control") -> list[Check]:
    """Each part by itself: one that is down does not hide the others."""
    parts: list[tuple[str, Callable[[], Awaitable[str]]]] = [
        ("settings", _settings),
        ("database", lambda: asyncio.to_thread(_database, control)),
        ("disk", lambda: asyncio.to_thread(_disk, control)),
        ("temporal", lambda: _temporal(control)),
        ("search attributes", lambda: _search_attributes(control)),
        ("worker", lambda: _worker(control)),
        ("stack", lambda: asyncio.to_thread(_stack, control)),
        ("scheduler service", lambda: asyncio.to_thread(_scheduler, control)),
        ("installation", lambda: asyncio.to_thread(_installation, control)),
        ("cluster", lambda: asyncio.to_thread(_cluster, control)),
        ("events", lambda: asyncio.to_thread(_events, control)),
        ("archives", lambda: asyncio.to_thread(_archives, control)),
        ("notices", lambda: asyncio.to_thread(_notices, control)),
        ("audit", lambda: _audit(control)),
        ("runs", lambda: asyncio.to_thread(_runs, control)),
    ]
    if control.installation.settings.cluster.kind == "kubernetes":
        parts.append(("cluster rights", lambda: asyncio.to_thread(_rights, control)))
    return list(await asyncio.gather(*(_checked(part, check) for part, check in parts)))


async def _checked(part: str, check: Callable[[], Awaitable[str]]) -> Check:
    try:
        return Check(part=part, ok=True, line=await check())
    except LifecycleError as error:
        return Check(part=part, ok=False, line=error.message)


async def _settings() -> str:
    if problems := configuration.misspelt(os.environ):
        raise NotReady("; ".join(problems))
    return "no variable is misspelt"


def _database(control: "Control") -> str:
    return f"{control.database_name}, installation {control.records.installation()}"


def _disk(control: "Control") -> str:
    return check_room(control.installation.settings.local_folders)


def _stack(control: "Control") -> str:
    """Dispatcher and watcher have no door of their own; the embedded stack knows its processes."""
    stack = stack_file.read(control.installation.settings.state)
    if stack is None:
        return "none on this state folder: its parts are looked after elsewhere"
    dead = [process.name for process in stack.processes if not psutil.pid_exists(process.pid)]
    if dead:
        raise NotReady(f"{', '.join(dead)} of the stack have ended: `crawlctl up` starts them again, or is not running")
    return ", ".join(process.name for process in stack.processes)


def _scheduler(control: "Control") -> str:
    return control.deployer.check()


def _installation(control: "Control") -> str:
    """A scheduler service refuses every deployment of an installation that it does not serve."""
    served, own = control.deployer.only_installation(), control.records.installation()
    if served not in (None, own):
        raise NotReady(
            f"the scheduler service deploys for installation {served} only, and this one is {own}: start another "
            "service for this installation, or take CRAWLER_CLUSTER__INSTALLATION from that service"
        )
    return f"{own}, " + ("the only one that the scheduler service serves" if served else "served like any other")


async def _audit(control: "Control") -> str:
    return await control.audits.check()


def _runs(control: "Control") -> str:
    """A worker searches for failing workflows all the time and keeps what it finds."""
    findings = control.audits.overview(audits=0, findings=MOST_FINDINGS).findings
    failing = [entry for entry in findings if entry.kind is FindingKind.WORKFLOW_FAILING and entry.closed_at is None]
    if failing:
        runs = ", ".join(str(finding.run_id) for finding in failing[:10]) + (", ..." if len(failing) > 10 else "")
        first = f"run {failing[0].run_id}: {failing[0].message}"
        raise NotReady(f"{counted(len(failing), 'run')} cannot go on ({runs}). The first, {first}")
    return "no workflow of a run fails its tasks"


def _cluster(control: "Control") -> str:
    return control.cluster.check()


@runtime_checkable
class GrantsRights(Protocol):
    """A cluster in which somebody decides what we may do."""

    def check_rights(self) -> str: ...


def _rights(control: "Control") -> str:
    cluster = control.cluster
    return cluster.check_rights() if isinstance(cluster, GrantsRights) else "none needed"


def _events(control: "Control") -> str:
    return control.parts.exporter.check_events()


def _archives(control: "Control") -> str:
    return control.parts.exporter.check_archives()


def _notices(control: "Control") -> str:
    return control.parts.pusher.check()


async def _temporal(control: "Control") -> str:
    await control.engine.ping()
    return f"{control.engine.address}, namespace {control.engine.namespace}"


async def _search_attributes(control: "Control") -> str:
    known = await control.engine.search_attributes()
    missing = {name: kind for name, kind in search_attribute_types().items() if name not in known}
    if missing:
        options = " ".join(f"--name {name} --type {kind}" for name, kind in missing.items())
        return (
            f"runs work, but Temporal's lists cannot filter by {', '.join(missing)}, which are not registered: "
            f"temporal operator search-attribute create {options}"
        )
    return ", ".join(search_attribute_types())


async def _worker(control: "Control") -> str:
    pollers = await control.engine.pollers()
    if not pollers:
        raise NotReady(
            f"nobody asks task queue {control.engine.task_queue} for work: start `python -m workers.lifecycle`"
        )
    return f"task queue {control.engine.task_queue}: {', '.join(sorted(pollers))}"
