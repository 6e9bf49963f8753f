"""Reports the failure of a command by an exit status, and by a line or (with --json) a JSON object on stderr."""

import json
import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

import click

from crawler_lifecycle import extras
from crawler_lifecycle.console.common import options_of_groups, plain, typed_arguments, with_state
from crawler_lifecycle.errors import BadInput, Conflict, LifecycleError, NotFound, Removed, TemporaryError

OK = 0
WRONG = 1
USAGE = 2
NOT_FOUND = 3
NOT_READY = 4
NOT_COMPLETED = 5
REFUSED = 6
DISAGREES = 7
INTERRUPTED = 130
EXIT_CODES = """\b
Exit status:
  0    done; a run or flow that was watched is completed
  1    something went wrong
  2    the command line is not acceptable
  3    there is no such run, task, schedule, flow or job
  4    a part of the installation does not answer or is not ready
  5    the run or flow ended, but is not completed
  6    refused at present: for example, the run is over already, or the name is taken
  7    database, Temporal and cluster disagree (audit)
  130  interrupted; a started run or flow continues
"""
# exit status -> field `error` in the JSON object; with any other status no error is printed
KINDS = {
    WRONG: "failed",
    USAGE: "bad_input",
    NOT_FOUND: "not_found",
    NOT_READY: "not_ready",
    REFUSED: "refused",
    INTERRUPTED: "interrupted",
}
# error class -> exit status; all other errors exit with WRONG
EXIT_STATUSES = ((BadInput, USAGE), (NotFound, NOT_FOUND), (Conflict, REFUSED), (TemporaryError, NOT_READY))
LONGEST_MESSAGE = 300  # characters; click repeats typed words, and the middle is cut out if the message is longer
LIMIT = re.compile(r"(?:at least|at most|not) -?\d+")  # in the words of contract.refusals
TYPED_COMMAND = "crawlctl.command"  # key in the context's `meta`; the value is the command that the user typed
# argument -> the group with its commands
GROUPS = {"run": "", "flow": "flow ", "schedule_id": "schedule "}
HAS_HINT = re.compile("`crawlctl|did you mean")
UNKNOWN = re.compile("there is no (run|flow|schedule)|is neither a RunID")  # in the words of NotFound


class Commands(click.Group):
    """A group for commands, which reports their failures without a traceback.

    The standard options may precede the command's name, too.
    """

    def __init__(self, *args: Any, **extra: Any) -> None:
        super().__init__(*args, **extra)
        own = {param.name for param in self.params}
        group: click.Command = options_of_groups(click.Command(None))
        self.params += [param for param in group.params if param.name not in own]

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        if os.environ.get("NO_COLOR"):
            extra["color"] = False
        as_json = wants_json(args) if parent is None else parent.meta["as_json"]
        with _reporting_failures(as_json, None):
            context = super().make_context(info_name, args, parent, **extra)
        context.meta["as_json"] = as_json
        return context

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the first sentence from every command's help, wrapped: click would cut a long sentence."""
        rows = [(name, command.get_short_help_str(LONGEST_MESSAGE)) for name, command in commands_in(ctx, self).items()]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            name, command, rest = super().resolve_command(ctx, args)
        except click.UsageError as error:
            if (message := error.format_message()).endswith("'."):  # click knows no near command in this group
                raise click.UsageError(message + _elsewhere(ctx, args[0]), ctx) from error
            raise
        ctx.meta[TYPED_COMMAND] = command
        return name, command, rest

    def invoke(self, ctx: click.Context) -> Any:
        with _reporting_failures(ctx.meta["as_json"], ctx):
            return super().invoke(ctx)


def _elsewhere(ctx: click.Context, name: str) -> str:
    """Return a hint such as ` Did you mean `crawlctl installation pause`?`; empty if no other group has the command."""
    root = ctx.find_root().command
    groups = {"crawlctl": root, **{f"crawlctl {group}": command for group, command in commands_in(ctx, root).items()}}
    hints = [f"`{words} {name}`" for words, group in groups.items() if name in commands_in(ctx, group)]
    return f" Did you mean {' or '.join(hints)}?" if hints else ""


def commands_in(ctx: click.Context, command: click.Command) -> Mapping[str, click.Command]:
    """Return the commands of a group by name; none for a single command."""
    if not isinstance(command, click.Group):
        return {}
    by_name = {name: command.get_command(ctx, name) for name in command.list_commands(ctx)}
    return {name: member for name, member in by_name.items() if member is not None}


def wants_json(words: Sequence[str]) -> bool:
    """Return whether --json is among the options, also in a command line with mistakes."""
    options = words[: words.index("--")] if "--" in words else words
    return "--json" in options


@contextmanager
def _reporting_failures(as_json: bool, ctx: click.Context | None) -> Iterator[None]:
    """Print an error in the block and exit with its status. `ctx` is None before the command is known."""
    try:
        with extras.named():
            yield
    except click.exceptions.NoArgsIsHelpError:  # click prints the help
        raise
    except click.UsageError as error:
        hint = f" (see `{error.ctx.command_path} --help`)" if error.ctx and not as_json else ""
        option = _option_name(error.param) if isinstance(error, click.BadParameter) and error.param else None
        print_failure(_one_line(error) + hint, error.exit_code, as_json=as_json, option=option)
        raise click.exceptions.Exit(error.exit_code) from error
    except LifecycleError as error:
        message, option = _with_option_name(error, ctx.meta.get(TYPED_COMMAND) if ctx else None)
        status = next((status for error_class, status in EXIT_STATUSES if isinstance(error, error_class)), WRONG)
        hint = "" if as_json or HAS_HINT.search(message) else _next_command(error)
        print_failure(with_state(message + hint), status, as_json=as_json, option=option, code=error.code)
        raise click.exceptions.Exit(status) from error
    except KeyboardInterrupt as interrupt:
        if as_json:
            print_failure("interrupted", INTERRUPTED, as_json=True)
        else:
            click.echo(err=True)
        raise click.exceptions.Exit(INTERRUPTED) from interrupt


def _next_command(error: LifecycleError) -> str:
    """Return a hint such as ` (see `crawlctl show 7`)`, or an empty text."""
    if isinstance(error, BadInput) and "there is no crawler" in error.message:
        return " (see `crawlctl crawlers`)"
    if not isinstance(error, NotFound | Conflict) or isinstance(error, Removed):
        return ""
    for argument, group in GROUPS.items():
        if name := typed_arguments().get(argument):
            words = "list" if UNKNOWN.search(error.message) else f"show {shlex.quote(str(name))}"
            return f" (see `crawlctl {group}{words}`)"
    return ""


def print_failure(
    message: str, status: int, *, as_json: bool, option: str | None = None, code: str | None = None
) -> None:
    """Print the reason for this exit status. docs/howto/command-line.md describes the JSON object."""
    if as_json:
        failure = {"error": code or KINDS[status], "exit_status": status, "message": message, "option": option}
        click.echo(json.dumps(failure), err=True)
    else:
        click.echo(click.style("Error: ", fg="red") + plain(message), err=True)


def fail(message: str, status: int, *, as_json: bool) -> NoReturn:
    """Print the reason, and exit with the status. For answers that are printed already."""
    print_failure(message, status, as_json=as_json)
    raise click.exceptions.Exit(status)


def _one_line(error: click.UsageError) -> str:
    """Return the error's message in a line, cut to about LONGEST_MESSAGE characters."""
    message = " ".join(error.format_message().split()).rstrip(".")
    if len(message) <= LONGEST_MESSAGE:
        return message
    return f"{message[: LONGEST_MESSAGE // 2]} ... {message[-LONGEST_MESSAGE // 2 :]}"


def _with_option_name(error: LifecycleError, command: click.Command | None) -> tuple[str, str | None]:
    """Return the error's message, with the typed options in place of the request's fields, and the first option's name.

    The name is None if no option of the command has the first field.
    """
    if not isinstance(error, BadInput):
        return error.message, None
    named = [_as_option(field, expected, command) for field, expected in error.mistakes]
    mistakes = [(place, expected) for place, expected, _ in named]
    return BadInput(*mistakes[0], *mistakes[1:]).message, named[0][2]


def _as_option(whole_field: str, expected: str, command: click.Command | None) -> tuple[str, str, str | None]:
    """Return a mistake with the name of its option in place of the field, and the name; None without such an option."""
    field, _, inner_field = whole_field.partition(".")
    for param in command.params if command else ():
        if field in (param.name, f"{param.name}_seconds"):
            name = _option_name(param)
            # `--grace 5m` gives the field grace_seconds: the limit in "at least 1" is in seconds
            expected = LIMIT.sub(r"\g<0> s", expected) if field != param.name else expected
            # the place among repeated options says less than the value, which the message has
            is_named = inner_field and not inner_field.isdigit()
            return f"{name} {inner_field}" if is_named else name, expected, name
    return whole_field, expected, None


def _option_name(param: click.Parameter) -> str:
    """Return for example `--max-duration` for an option and `SCHEDULE` for an argument."""
    return (
        next((name for name in param.opts if name.startswith("--")), param.opts[0])
        if isinstance(param, click.Option)
        else param.human_readable_name
    )
