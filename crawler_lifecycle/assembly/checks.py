"""The checks of `crawlctl doctor`: whether every part of the installation works, and the remedy for a fault."""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Protocol, runtime_checkable

from crawler_lifecycle.assembly.parts import Parts
from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.audits.commands import AuditCommands
from crawler_lifecycle.base.disk import check_room
from crawler_lifecycle.base.words import counted
from crawler_lifecycle.clusters.ports import Cluster
from crawler_lifecycle.context import ControlContext
from crawler_lifecycle.errors import LifecycleError, NotReady
from crawler_lifecycle.flows.ports.records import FlowRecords
from crawler_lifecycle.http.health import SLOW_SECONDS
from crawler_lifecycle.limits.commands import LimitCommands
from crawler_lifecycle.model.answers import Check
from crawler_lifecycle.model.audits import FindingKind
from crawler_lifecycle.runs.ports import Records, WaitingRuns
from crawler_lifecycle.runs.rules.outcome import IN_A_ROW
from crawler_lifecycle.schedules.commands.late_starts import late_starts
from crawler_lifecycle.settings import Settings, configuration, stack_file
from crawler_lifecycle.settings.installation import Installation
from crawler_lifecycle.settings.stack_processes import find
from crawler_lifecycle.temporal.connection import search_attribute_types
from crawler_lifecycle.temporal.engine import Engine
from crawler_lifecycle.temporal.worker_checks import check_archive_worker, check_worker

LEAST_RETENTION_DAYS = 7  # also for what the audit reads about lost supervisors after an outage of some days
LONG_WAIT = timedelta(seconds=30)  # of a step for a host; attention names the flow earlier, after HOST_PATIENCE
MOST_FINDINGS = 1000  # only failing workflows among the latest findings are reported
MOST_NAMED = 10  # runs or flows named in a message; further names are shown as "..."
STACK = "stack"
OF_THE_STACK = frozenset(
    {
        "temporal",
        "temporal retention",
        "search attributes",
        "starts",
        "worker",
        "archive worker",
        "scheduler service",
        "installation",
        "audit",
    }
)
# that any process can check: not its own folders and accounts
SHARED = OF_THE_STACK | {"database", "cluster", "limits", "hosts", "runs"}
OF_THE_DATABASE = frozenset({"database", "cluster", "limits", "hosts", "runs"})


async def check_all(
    context: ControlContext[SqlStore],
    parts: Parts,
    engine: Engine,
    audits: AuditCommands,
    limits: LimitCommands,
    *,
    is_shared: bool = False,
) -> list[Check]:
    """Run all checks at the same time: a part that hangs must not delay the checks for other parts.

    `is_shared`: only the parts in SHARED.
    """
    settings = context.installation.settings

    def in_thread(check: Callable[[Parts], str]) -> Callable[[], Awaitable[str]]:
        return lambda: context.checks.run(check, parts)

    # `context.database` and `context.scheduler` call a function in a thread, with the store or the scheduler service's
    # client. `in_thread` uses other threads, so that a database that hangs does not hold up the checks of other parts.
    checks: dict[str, Callable[[], Awaitable[str]]] = {
        "settings": _settings,
        "database": lambda: context.database(lambda store: _database(context.installation, store.records)),
        "disk": in_thread(lambda _: check_room(settings.local_folders)),
        STACK: in_thread(lambda _: check_stack(context.installation)),
        "temporal": lambda: _temporal(engine),
        "temporal retention": lambda: check_retention(engine, settings),
        "search attributes": lambda: _search_attributes(engine),
        "starts": lambda: _starts(engine, datetime.now(UTC)),
        "worker": lambda: check_worker(engine),
        "archive worker": lambda: check_archive_worker(engine),
        "scheduler service": lambda: context.scheduler(lambda scheduler: scheduler.check()),
        "installation": lambda: _installation(context),
        "cluster": in_thread(lambda parts: parts.cluster.check()),
        "events": in_thread(lambda parts: parts.announcer.check_events()),
        "archives": in_thread(lambda parts: parts.archiver.check_archives()),
        "notices": in_thread(lambda parts: parts.pusher.check()),
        "audit": audits.check,
        "limits": limits.check,
        "hosts": lambda: context.database(lambda store: _hosts(store.flow_records)),
        # `audits` has the store already, but reads the database, so the check needs a thread for the database
        "runs": lambda: context.database(lambda store: _runs(store.records, audits)),
    }
    if settings.cluster.kind == "kubernetes":
        checks["cluster rights"] = in_thread(lambda parts: _rights(parts.cluster))
    if is_shared:
        checks = {part: check for part, check in checks.items() if part in SHARED}
    outcomes = await asyncio.gather(*(_outcome(check) for check in checks.values()))
    return _with_causes(dict(zip(checks, outcomes, strict=True)))


async def _outcome(check: Callable[[], Awaitable[str]]) -> str | LifecycleError:
    try:
        return await check()
    except LifecycleError as error:
        return error


def _with_causes(outcomes: Mapping[str, str | LifecycleError]) -> list[Check]:
    """Return the checks. A part names the stack if the stack is down, or the first part with the same fault."""
    stack = outcomes.get(STACK)
    lost_parts = stack.parts if isinstance(stack, StackDown) else frozenset[str]()
    checks, first_parts = list[Check](), dict[str, str]()
    for part, outcome in outcomes.items():
        if isinstance(outcome, str):
            checks.append(Check(part=part, ok=True, line=outcome))
            continue
        first = STACK if part in lost_parts else first_parts.setdefault(outcome.message, part)
        because_of = first if first != part else None
        checks.append(Check(part=part, ok=False, line=outcome.message, because_of=because_of))
    return checks


async def _settings() -> str:
    if problems := configuration.misspelt(os.environ):
        raise NotReady("; ".join(problems))
    return "no variable is misspelt"


def _database(installation: Installation, records: Records) -> str:
    with _refused_if_slow(
        f"the database at {installation.database_name}", "look for locks, other loads and the server's disk"
    ):
        uid = records.installation()
        records.check_write()
    warning = installation.settings.database.warning
    return f"{installation.database_name}, installation {uid}" + (f"; {warning}" if warning else "")


async def _installation(context: ControlContext[SqlStore]) -> str:
    """Raise NotReady if the scheduler service serves only another installation: it would refuse our deployments."""
    served = await context.scheduler(lambda scheduler: scheduler.only_installation())
    own = await context.database(lambda store: store.records.installation())
    if served not in (None, own):
        raise NotReady(
            f"the scheduler service deploys for installation {served} only, and this one is {own}: start another "
            "service for this installation, or take CRAWLER_CLUSTER__INSTALLATION from that service"
        )
    return f"{own}, " + ("the only one that the scheduler service serves" if served else "served like any other")


def _hosts(records: FlowRecords) -> str:
    total, flows = records.without_host(datetime.now(UTC) - LONG_WAIT, limit=MOST_NAMED)
    if not total:
        return "no flow waits for a host of steps"
    more = ", ..." if total > len(flows) else ""
    raise NotReady(
        f"no host takes the steps of {counted(total, 'flow')} ({', '.join(flows)}{more}): start "
        "`crawlctl host MODULE` or `crawlctl up --flows FILE`"
    )


def _runs(records: Records, audits: AuditCommands) -> str:
    """Raise NotReady for failing workflows and obstructed runs; name runs without room and failing crawlers, too."""
    problems = [*_failing_workflows(audits), *_waiting("with a job that cannot start", records.obstructed(MOST_NAMED))]
    named = [*_waiting("without room", records.saturated(MOST_NAMED)), *_failing_crawlers(records)]
    if problems:
        raise NotReady("; ".join([*problems, *named]))
    return "; ".join(["every workflow makes progress, and no job is kept from its start", *named])


def _waiting(how: str, waiting: WaitingRuns) -> Iterator[str]:
    if waiting.total:
        first, runs = waiting.longest[0], _named([run.run_id for run in waiting.longest], waiting.total)
        cause = f"run {first.run_id} of crawler {first.crawler}: {first.waiting_cause}: {first.waiting_message}"
        yield f"{counted(waiting.total, 'run')} {how} ({runs}). The first, {cause}"


def _failing_crawlers(records: Records) -> Iterator[str]:
    for crawler in records.failing_crawlers()[:MOST_NAMED]:
        latest = crawler.ends[0].run_id
        yield f"the last {IN_A_ROW} runs of crawler {crawler.crawler} failed: see `crawlctl show {latest}`"


def _failing_workflows(audits: AuditCommands) -> Iterator[str]:
    """Yield the open findings about failing workflows. Workers update these findings also between audits."""
    findings = audits.overview(audits=0, findings=MOST_FINDINGS).findings
    failures = [finding for finding in findings if finding.kind is FindingKind.WORKFLOW_FAILING]
    open_failures = [finding for finding in failures if finding.closed_at is None]
    if open_failures:
        runs = _named([finding.run_id for finding in open_failures[:MOST_NAMED]], len(open_failures))
        first = f"run {open_failures[0].run_id}: {open_failures[0].message}"
        yield f"{counted(len(open_failures), 'run')} cannot continue ({runs}). The first, {first}"


def _named(run_ids: Sequence[int | None], total: int) -> str:
    return ", ".join(map(str, run_ids)) + (", ..." if total > len(run_ids) else "")


@runtime_checkable
class NeedsRights(Protocol):
    """A cluster in which the installation needs rights, such as Kubernetes. NotReady names the missing rights."""

    def check_rights(self) -> str: ...


def _rights(cluster: Cluster) -> str:
    return cluster.check_rights() if isinstance(cluster, NeedsRights) else "none needed"


async def _temporal(engine: Engine) -> str:
    with _refused_if_slow(
        f"Temporal at {engine.address}", "check its database, its workers and the namespace's limits"
    ):
        await engine.ping()
    return f"{engine.address}, namespace {engine.namespace}"


@contextmanager
def _refused_if_slow(part: str, remedy: str) -> Iterator[None]:
    """Raise NotReady if the block takes longer than SLOW_SECONDS."""
    began = time.monotonic()
    yield
    if (seconds := time.monotonic() - began) > SLOW_SECONDS:
        raise NotReady(f"{part} is slow: an answer took {seconds:.1f} s; {remedy}")


async def _starts(engine: Engine, now: datetime) -> str:
    """Raise NotReady for accepted requests without runs, and for a schedule that has not fired in time."""
    if await engine.missing_search_attributes():
        return "unknown without the search attributes"
    if problems := (await late_starts(engine, now)).problems:
        raise NotReady("; ".join(problems))
    return "all accepted requests are runs, and no schedule is late"


async def check_retention(engine: Engine, settings: Settings) -> str:
    """Raise NotReady if Temporal forgets closed workflows before the audit and the lists of occurrences need them."""
    days = max(LEAST_RETENTION_DAYS, settings.kubernetes.keep_days if settings.cluster.kind == "kubernetes" else 0)
    retention = await engine.retention()
    if retention < timedelta(days=days):
        raise NotReady(
            f"namespace {engine.namespace} keeps closed workflows for {counted(retention.days, 'day')}, and the audit "
            f"and the results of schedules need {days} days: temporal operator namespace update "
            f"--namespace {engine.namespace} --retention {days}d"
        )
    return f"closed workflows stay for {counted(retention.days, 'day')}"


async def _search_attributes(engine: Engine) -> str:
    if missing := await engine.missing_search_attributes():
        options = " ".join(f"--name {name} --type {kind}" for name, kind in missing.items())
        return (
            f"runs work, but Temporal's lists cannot filter by {', '.join(missing)}, which are not registered: "
            f"temporal operator search-attribute create {options}"
        )
    return ", ".join(search_attribute_types())


class StackDown(NotReady):
    """The stack does not run, and the settings name no other installation. `parts` cannot be checked without it."""

    def __init__(self, message: str, parts: frozenset[str] = OF_THE_STACK) -> None:
        super().__init__(message)
        self.parts = parts


def check_stack(installation: Installation) -> str:
    """Return the names of the stack's processes, or say that there is no stack. NotReady if a process has ended."""
    state = installation.settings.state
    stack = stack_file.read(state)
    if stack is None:
        if not _is_configured_elsewhere(installation):
            raise _missing_stack(installation)
        return "none on this state folder: its parts are looked after elsewhere"
    ended = [process.name for process in stack.processes if find(process) is None]
    if len(ended) == len(stack.processes):
        raise StackDown(f"every process of the stack on {state} has ended: start the stack again with `crawlctl up`")
    if ended:
        verb = "has" if len(ended) == 1 else "have"
        raise NotReady(
            f"{' and '.join(ended)} {verb} ended: `crawlctl up` restarts each part while it runs, and names the "
            "part's log; if it no longer runs, start it"
        )
    return ", ".join(process.name for process in stack.processes)


def _is_configured_elsewhere(installation: Installation) -> bool:
    """Return whether the settings name a scheduler service or a Temporal server."""
    has_scheduler = bool(installation.settings.scheduler.token.get_secret_value())
    return has_scheduler or "TEMPORAL_ADDRESS" in installation.temporal


def _missing_stack(installation: Installation) -> StackDown:
    """Return the fault of an installation without a stack. Without a state folder, there is no database either."""
    settings = installation.settings
    if settings.state.exists():
        return StackDown(f"no stack runs on {settings.state}: start one with `crawlctl up`")
    parts = OF_THE_STACK if settings.database.url else OF_THE_STACK | OF_THE_DATABASE
    return StackDown(f"there is no state folder {settings.state}: start a stack on it with `crawlctl up`", parts)
