"""The commands for limits and pauses, and the words for limits and for the wait for a permit."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from crawler_lifecycle.console.common import Command, open_connection, print_answer, standard_options, user_name
from crawler_lifecycle.console.failures import Commands
from crawler_lifecycle.console.words import rfc3339, table
from crawler_lifecycle.model.limits import INSTALLATION, LimitRecord, in_words
from crawler_lifecycle.model.records import Place, RunSummary
from crawler_lifecycle.model.states import Intent, RunStatus

if TYPE_CHECKING:
    from crawler_lifecycle.limits.client import ApiLimits

COLUMNS = ("SCOPE", "RUNS", "TASKS", "PLACES KEPT", "WEIGHT", "QUEUED RUNS", "PAUSED")
NONE = "none"  # an option's value that removes a limit


def limit_lines(records: Sequence[LimitRecord]) -> Iterator[str]:
    return table([COLUMNS, *(_row(record) for record in records)])


def _row(record: LimitRecord) -> tuple[str, ...]:
    return (
        INSTALLATION if record.scope == INSTALLATION else in_words(record.scope),
        f"{record.runs_begun}/{_cap(record.runs)}",
        f"{record.tasks_in_cluster}/{_cap(record.tasks)}",
        str(record.places_kept),
        _cap(record.weight),
        str(record.runs_held),
        "-" if record.paused_at is None else pause_words(record),
    )


def _cap(number: int | None) -> str:
    return "-" if number is None else str(number)


def pause_words(record: LimitRecord) -> str:
    reason = " ".join((record.paused_reason or "").split())
    return f"since {rfc3339(record.paused_at)} by {record.paused_by or 'an unnamed caller'}: {reason}"


def was_held(run: RunSummary) -> bool:
    """Return whether a limit or a pause holds the run without a permit, or held the run until a stop."""
    return run.held_by is not None and run.admitted_at is None


def permit_words(run: RunSummary, place: Place | None = None) -> str | None:
    """Return what holds a queued run, and its place; None unless the run waits for its permit.

    A reopened run whose main job succeeded before is PROCESSING, and waits all the same.
    """
    is_wanted = run.status in (RunStatus.INITIALIZING, RunStatus.PROCESSING) and run.intent is Intent.RUN
    if run.waiting_cause is None or not was_held(run) or not is_wanted:
        return None
    number = f", place {place.number or '1000+'} of {place.length}" if place else ""
    since = rfc3339(run.waiting_since)
    return f"{run.waiting_message}{number}, since {since}"


def held_children(run: RunSummary) -> str | None:
    """Return which scope holds the child tasks of a begun run; None if no scope does.

    A run without a permit says itself what holds the run with its tasks.
    """
    if run.held_by is None or run.admitted_at is None or run.status is not RunStatus.PROCESSING:
        return None
    return f"held by a limit or a pause of {in_words(run.held_by)}"


class Value(click.ParamType[int | str]):
    """An option's limit: a number, or `none`, which takes the limit away."""

    name = "number|none"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        try:
            return NONE if value == NONE else int(value)
        except ValueError:
            self.fail(f"{value!r} is neither a number nor `{NONE}`", param, ctx)


def scope_options(command: Command) -> Command:
    """Add the options for a scope, and for the recorded actor."""
    command = click.option("--actor", help="Name for the record; default: your login name.")(command)
    command = click.option("--label", help="Only runs with this label, e.g. site:example.com.")(command)
    return click.option("--crawler", help="Only runs of this crawler.")(command)


unknown_option = click.option(
    "--allow-unknown", is_flag=True, help="Accept a crawler or label before its first run, in no catalogue."
)


@click.group(cls=Commands, invoke_without_command=True)
@standard_options
@click.pass_context
def limits(ctx: click.Context, state: Path | None, as_json: bool) -> None:
    """Show or set limits on runs and tasks.

    A limit is for the installation, a crawler or a label; a label may also have a weight.

    \b
    Examples:
      crawlctl limits
      crawlctl limits set --tasks 500
      crawlctl limits set --label site:example.com --runs 2
      crawlctl limits set --label tenant:acme --weight 3 --allow-unknown
      crawlctl limits set --crawler bookshop --runs none
    """
    if ctx.invoked_subcommand is None:
        _print(_open_limits(state).all(), as_json=as_json)


@limits.command("set")
@scope_options
@click.option("--runs", type=Value(), help="Maximum number of concurrent runs.")
@click.option("--tasks", type=Value(), help="Most tasks in the cluster, with main tasks; at least 2.")
@click.option("--weight", type=Value(), help="Share of the cluster beside other labels; only with --label.")
@unknown_option
@standard_options
def set_limits(
    crawler: str | None,
    label: str | None,
    actor: str | None,
    allow_unknown: bool,
    state: Path | None,
    as_json: bool,
    **values: int | str | None,
) -> None:
    """Set limits; `none` removes a limit.

    Without --crawler and --label, the limits are for the installation. A lower limit ends nothing: runs and tasks
    above the limit continue, and new runs and tasks wait.
    """
    from crawler_lifecycle.model.limits import LimitChange
    from crawler_lifecycle.model.requests import refusals_as_bad_input

    named = {name: None if value == NONE else value for name, value in values.items() if value is not None}
    with refusals_as_bad_input():
        change = LimitChange.model_validate(
            {"crawler": crawler, "label": label, "allow_unknown": allow_unknown, **named}
        )
    _print(_open_limits(state).change(change, actor=actor or user_name()), as_json=as_json)


@click.group("installation", cls=Commands)
def installation() -> None:
    """Pause and resume work of the installation, a crawler or a label. `crawlctl status` shows the pauses.

    \b
    Examples:
      crawlctl installation pause --reason "the cluster is upgraded"
      crawlctl installation pause --label site:example.com --reason "the site asked us"
      crawlctl installation resume --label site:example.com
    """


@installation.command()
@scope_options
@click.option("--reason", required=True, help="Reason, for the readers of waiting runs.")
@unknown_option
@standard_options
def pause(
    crawler: str | None,
    label: str | None,
    actor: str | None,
    reason: str,
    allow_unknown: bool,
    state: Path | None,
    as_json: bool,
) -> None:
    """Let nothing new begin until a resume. Runs are accepted and wait, and jobs in the cluster continue."""
    from crawler_lifecycle.model.limits import PauseRequest
    from crawler_lifecycle.model.requests import refusals_as_bad_input

    with refusals_as_bad_input():
        request = PauseRequest(crawler=crawler, label=label, reason=reason, allow_unknown=allow_unknown)
    _print(_open_limits(state).pause(request, actor=actor or user_name()), as_json=as_json)


@installation.command()
@scope_options
@standard_options
def resume(crawler: str | None, label: str | None, actor: str | None, state: Path | None, as_json: bool) -> None:
    """End a pause. Queued runs begin as the limits allow."""
    from crawler_lifecycle.model.limits import ScopeName
    from crawler_lifecycle.model.requests import refusals_as_bad_input

    with refusals_as_bad_input():
        scope = ScopeName(crawler=crawler, label=label)
    _print(_open_limits(state).resume(scope, actor=actor or user_name()), as_json=as_json)


def _open_limits(state: Path | None) -> "ApiLimits":
    from crawler_lifecycle.limits.client import ApiLimits

    return ApiLimits(open_connection(state))


def _print(records: Sequence[LimitRecord], *, as_json: bool) -> None:
    print_answer(records, limit_lines, as_json=as_json)
