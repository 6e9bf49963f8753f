"""Turns flows into text: lists, a flow with its sub-workflows, members, explanations and answers to requests.

A waiting member's cause comes with the command that helps.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime

import click

from crawler_lifecycle.base.names import parent_path
from crawler_lifecycle.base.words import counted
from crawler_lifecycle.console.common import plain
from crawler_lifecycle.console.words import coloured, duration, facts, fitted, is_odd, moment_text, rfc3339, table
from crawler_lifecycle.flows.cli.manager_lines import (
    problem_lines,
    progress_line,
    settled,
    status_lines,
    sum_words,
    total,
)
from crawler_lifecycle.flows.model.manager_records import ManagerStatus
from crawler_lifecycle.flows.model.records import FlowAnswer, FlowStatus, FlowSummary, MemberRecord, Why
from crawler_lifecycle.flows.ports.records import AttemptRecord, FlowLine
from crawler_lifecycle.flows.rules.words import (
    BROKEN_MODULE,
    DEPENDENCIES,
    EXECUTING,
    HOST,
    NO_SUPERVISOR,
    SENTENCES,
    SENTENCES_WITH_NAME,
    SILENT_HOST,
    START,
    UNKNOWN_STEP,
)
from crawler_lifecycle.model.flow_states import FlowState, MemberState

# causes with a trouble: a person may have to act
TROUBLES = (NO_SUPERVISOR, START, UNKNOWN_STEP, HOST, SILENT_HOST, BROKEN_MODULE)
FLOW_COLUMNS = ("ID", "NAME", "STATE", "JOBS", "CREATED", "TOOK", "WAITS FOR")
EXPENDABLE = ("CREATED", "NAME", "TOOK")  # columns that a narrow terminal leaves out, in this order
JOB_COLUMNS = ("JOB", "WORK", "STATE", "ATTEMPT", "SINCE", "TOOK", "RUN", "WHY")
MOST_FAILED = 20  # members named in a summary; further members are counted
LONGEST_WHY = 80  # characters in a table
INDENT = "  "
# members under way come first, and then members with a problem
_ORDER = [
    MemberState.EXECUTING, MemberState.RETRYABLE, MemberState.DISCARDED, MemberState.AVAILABLE, MemberState.SCHEDULED,
    MemberState.SUSPENDED, MemberState.CANCELLED, MemberState.COMPLETED,
]  # fmt: skip


def cause_in_words(cause: str | None) -> str | None:
    """Return the cause, with its sentence for a trouble; None for `executing`, since the state says the same."""
    if cause is None or cause == EXECUTING:
        return None
    word, _, name = cause.partition(":")
    sentence = SENTENCES_WITH_NAME.get(word) if name else SENTENCES.get(word)
    if word not in TROUBLES or sentence is None:
        return cause
    return f"{word if word == BROKEN_MODULE else cause}: {sentence.format(name=name)}"


def counts(members: Mapping[MemberState, int]) -> str:
    """Return for example `2 executing, 5 completed`, in the order of MemberState."""
    return ", ".join(f"{members[state]} {state}" for state in MemberState if members.get(state)) or "none"


def list_lines(flows: Sequence[FlowSummary], now: datetime, width: int | None = None) -> Iterator[str]:
    """Yield the lines of a table, no wider than `width`."""
    rows: Sequence[Sequence[str]] = [FLOW_COLUMNS, *(_flow_row(flow, now, width) for flow in flows)]
    shown = rows if width is None else fitted(rows, width, EXPENDABLE)
    return table(shown, shown[0].index("STATE"))


def job_lines(jobs: Sequence[MemberRecord], now: datetime) -> Iterator[str]:
    unfinished = set[str]()  # jobs, and groups with such jobs
    for path in (job.path for job in jobs if not job.state.is_final):
        while path:
            unfinished.add(path)
            path = parent_path(path)  # noqa: PLW2901
    return table([JOB_COLUMNS, *(_job_row(job, now, unfinished) for job in jobs)], JOB_COLUMNS.index("STATE"))


def shown_job(job: MemberRecord) -> str:
    """Return the state; for a completed job with another outcome than the usual one, the outcome beside it."""
    is_completed = job.state is MemberState.COMPLETED
    return f"{job.state}, {job.outcome}" if is_completed and is_odd(job.outcome) else job.state


def attempt_lines(attempts: Mapping[str, Sequence[AttemptRecord]]) -> Iterator[str]:
    """Yield the attempts by job, each with the version of its code and with its error."""
    for path, records in attempts.items():
        yield click.style(path, bold=True)
        for record in records:
            end = coloured(record.kind or MemberState.EXECUTING)
            by = [
                record.outcome,
                record.host and f"host {record.host}",
                record.code_version and f"code {record.code_version}",
                f"run {record.run_id}" if record.run_id else None,
            ]
            yield f"{INDENT}attempt {record.attempt}  {end}  {plain(', '.join(filter(None, by)))}".rstrip()
            why = plain(record.error or record.reason or "")
            yield from (f"{INDENT * 2}{line}" for line in why.rstrip().splitlines())


def flow_lines(
    status: FlowStatus,
    jobs: Sequence[MemberRecord],
    timeline: Sequence[FlowLine],
    managers: Sequence[ManagerStatus] = (),
) -> Iterator[str]:
    """Yield the whole flow: its sums, its sub-workflows, its managers, its failed members, and its timeline."""
    yield f"{click.style(status.id, bold=True)}  {coloured(shown_flow(status, managers))}"
    yield from facts(
        [
            ("name", status.name),
            ("jobs", f"{status.total}: {counts(status.counts)}"),
            ("started", status.started_at and rfc3339(status.started_at)),
            ("stopped", status.stopped_at and rfc3339(status.stopped_at)),
            ("took", status.elapsed is not None and duration(status.elapsed)),
        ]
    )
    yield from sub_lines(status, INDENT)
    for manager in managers:
        yield from status_lines(manager)
    yield from failed_lines(jobs)
    for entry in timeline:
        by = f" by {plain(entry.actor)}" if entry.actor else ""
        yield f"  {rfc3339(entry.at)}  {entry.event}{by}: {plain(entry.message)}"


def sub_lines(status: FlowStatus, indent: str) -> Iterator[str]:
    for name, sub in status.subs.items():
        yield f"{indent}{name}/  {coloured(sub.state)}  {counts(sub.counts)}"
        yield from sub_lines(sub, indent + INDENT)


def failed_lines(jobs: Sequence[MemberRecord]) -> Iterator[str]:
    """Yield members with a failure or a cancel of their own; their cancelled dependents are counted."""
    failed = [job for job in jobs if job.state in (MemberState.DISCARDED, MemberState.CANCELLED)]
    own = [job for job in failed if not (job.reason or "").startswith("dependency:")]
    for job in own[:MOST_FAILED]:
        yield f"  {coloured(job.state)} {job.path}: {_reason(job) or job.outcome or 'no reason is recorded'}"
    if len(own) > MOST_FAILED:
        yield f"  ... and {len(own) - MOST_FAILED} more"
    if len(failed) > len(own):
        yield f"  {counted(len(failed) - len(own), 'job')} cancelled after a dependency failed"


def why_lines(explanation: Why, indent: str = "") -> Iterator[str]:
    """Yield the member with its cause, and indented below its blocking members."""
    words = cause_in_words(explanation.cause)
    cause = f": {words}" if words else ""
    since = f" since {rfc3339(explanation.since)}" if explanation.since else ""
    until = f", until {rfc3339(explanation.until)}" if explanation.until else ""
    yield f"{indent}{explanation.path} is {coloured(explanation.state)}{since}{cause}{until}"
    for inner in explanation.because:
        yield from why_lines(inner, indent + INDENT)
    if explanation.more:
        yield f"{indent}{INDENT}... and {explanation.more} more"


def answer_lines(answer: FlowAnswer, effect: str) -> Iterator[str]:
    """Yield the effect of a request, and a note if the flow's supervisor learns about the request later."""
    yield f"flow {answer.flow_id}: {effect}"
    if not answer.nudged:
        yield f"  recorded, and takes effect later: {answer.problem}"


def change_lines(flow: str, before: Mapping[str, MemberRecord], changed: Sequence[MemberRecord]) -> Iterator[str]:
    """Yield a line for every member with another state, in the order of the changes, for a log of lines."""
    for job in sorted(changed, key=lambda job: (job.since.timestamp() if job.since else 0.0, job.number)):
        old = before.get(job.path)
        is_new = old is None and job.state in (MemberState.SUSPENDED, MemberState.AVAILABLE)
        if is_new or (old is not None and (old.state, old.attempt) == (job.state, job.attempt)):
            continue
        run = f", run {job.run_id}" if job.run_id is not None else ""
        reason = f": {_reason(job)}" if job.reason and job.state is not MemberState.COMPLETED else ""
        yield f"{flow}  {coloured(shown_job(job), 9)}  {job.path} ({job.title}{run}){reason}"


def manager_change_lines(
    flow: str, before: Sequence[ManagerStatus], managers: Sequence[ManagerStatus]
) -> Iterator[str]:
    """Yield a line for every manager with other numbers, and the traceback of a new problem."""
    known = {manager.path: manager for manager in before}
    for manager in managers:
        old = known.get(manager.path)
        seen = None if old is None else (old.counts, old.closed_at)
        if seen != (manager.counts, manager.closed_at):
            yield progress_line(flow, manager)
        if manager.problem is not None and (old is None or old.problem != manager.problem):
            yield from problem_lines(manager.problem)


def progress_lines(
    status: FlowStatus, jobs: Mapping[str, MemberRecord], most: int, managers: Sequence[ManagerStatus] = ()
) -> Iterator[str]:
    """Yield the flow's present state: sums, and a limited number of members, first the members under way."""
    took = "" if status.elapsed is None else f"  {duration(status.elapsed)}"
    name = click.style(f"flow {status.name or status.id}", bold=True)
    yield f"{name}  {coloured(shown_flow(status, managers))}{took}"
    for manager in managers:
        is_final = manager.is_exhausted or manager.closed_at is not None  # otherwise more items may come
        bar = f"{_bar(settled(manager.counts), total(manager.counts))} " if is_final else ""
        yield f"  {bar}{progress_line(manager.path, manager)}"
        if manager.problem is not None:
            yield from problem_lines(manager.problem)
    done = sum(status.counts.get(state, 0) for state in MemberState if state.is_final)
    yield f"  {_bar(done, status.total)} {done}/{status.total}  {counts(status.counts)}"
    shown = sorted(jobs.values(), key=lambda job: (_ORDER.index(job.state), job.number))
    width = max((len(job.path) for job in shown[:most]), default=0)
    for job in shown[:most]:
        words = _reason(job) or cause_in_words(job.cause) or ""
        yield f"  {coloured(shown_job(job), 9)}  {job.path.ljust(width)}  {job.title}  {_shortened(words)}".rstrip()
    if len(shown) > most:
        yield f"  ... {len(shown) - most} more"


def end_line(status: FlowStatus, managers: Sequence[ManagerStatus] = ()) -> str:
    took = "" if status.elapsed is None else f" after {duration(status.elapsed)}"
    if not status.state.is_final:
        return f"flow {status.id} is {coloured(status.state)}{took}: {counts(status.counts)}"
    return f"flow {status.id} ended {coloured(shown_flow(status, managers))}{took}: {counts(status.counts)}"


def shown_flow(status: FlowStatus, managers: Sequence[ManagerStatus]) -> str:
    """Return the state; for a completed flow, also the reasons of its managers' ends other than the usual one."""
    reasons = {manager.close_reason for manager in managers if is_odd(manager.close_reason)}
    return ", ".join((status.state, *sorted(filter(None, reasons)))) if is_success(status.state) else status.state


def is_success(state: FlowState) -> bool:
    return state is FlowState.COMPLETED


def _flow_row(flow: FlowSummary, now: datetime, width: int | None) -> tuple[str, ...]:
    took = "-" if flow.started_at is None else duration((flow.stopped_at or now) - flow.started_at)
    jobs = counts(flow.counts) if flow.items is None else sum_words(flow.items)
    waits = ", ".join(map(_wait, flow.waits_for)) or "-"
    created = moment_text(flow.created_at, now, width)
    return flow.id, flow.name or "-", _shown_state(flow), jobs, created, took, waits


def _shown_state(flow: FlowSummary) -> str:
    """Return the state; for a completed flow whose manager has failed items, `failures` beside it."""
    failures = flow.items is not None and flow.items.failures
    return f"{flow.state}, failures" if failures and is_success(flow.state) else flow.state


def _wait(wait: str) -> str:
    word, _, name = wait.partition(":")
    return f"a host of {name}" if word == HOST else f"a decision about {name}"


def _job_row(job: MemberRecord, now: datetime, unfinished: Collection[str]) -> tuple[str, ...]:
    took = "-" if job.began_at is None else duration((job.ended_at or now) - job.began_at)
    run = "-" if job.run_id is None else str(job.run_id)
    attempt = f"{job.attempt or '-'}"
    why = _shortened(_reason(job) or _dependencies(job, unfinished) or cause_in_words(job.cause) or "")
    return job.path, f"{job.kind} {job.title}", shown_job(job), attempt, rfc3339(job.since), took, run, why


def _dependencies(job: MemberRecord, unfinished: Collection[str]) -> str | None:
    """Return for example `waits for merge`; None unless the job waits for a dependency in the same list."""
    awaited = [dep for dep in job.deps if dep in unfinished] if job.cause == DEPENDENCIES else []
    return f"waits for {', '.join(awaited)}" if awaited else None


def _reason(job: MemberRecord) -> str | None:
    return f"{job.reason}: {job.problem}" if job.reason and job.problem else job.reason


def _bar(done: int, total: int, width: int = 30) -> str:
    full = width * done // total if total else width
    return f"[{'#' * full}{'.' * (width - full)}]"


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LONGEST_WHY else f"{line[: LONGEST_WHY - 1]}…"
