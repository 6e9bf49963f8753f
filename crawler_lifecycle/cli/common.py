"""Helpers of all commands: options with their types, access to an installation, and functions for printing."""

import getpass
import os
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from crawler_lifecycle.cli.remote.choice import open_api, refuse_api, typed_api

if TYPE_CHECKING:
    from crawler_lifecycle.cli.access import Access, LimitAccess, RunAccess
    from crawler_lifecycle.control.context import Context
    from crawler_lifecycle.control.control import Control

Command = TypeVar("Command", bound=Callable[..., Any])
CONTROL_CODES = (*range(32), *range(127, 160))
REPLACEMENTS = {code: "\N{REPLACEMENT CHARACTER}" for code in CONTROL_CODES if chr(code) not in "\t\n"}
TYPED_STATE = "crawlctl.state"  # key in the context's `meta`; the value is the typed state folder
COMMAND_IN_MESSAGE = re.compile(r"(?<=`)crawlctl [^`]+(?=`)")
# commands that use neither database nor API, or only the installation's own database
WITHOUT_API = ("accept-namespace", "db", "demo", "doctor", "token", "up")
SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}  # of a duration's units


class Duration(click.ParamType[int]):
    """An option's duration such as `90`, `30s`, `2h` or `1h30m`; the value is the number of seconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        if re.fullmatch(r"[0-9]{1,12}", value):
            return int(value)
        parts = re.fullmatch(r"(?:[0-9]{1,9}[smhd])+", value)
        if not parts:
            self.fail(f"{value!r} is not a duration such as 30s, 15m or 1h30m", param, ctx)
        return sum(int(number) * SECONDS[unit] for number, unit in re.findall(r"([0-9]+)([smhd])", value))


class KeyValue(click.ParamType[tuple[str, str]]):
    """An option of the form `name=value`; the value may be empty and may contain `=`."""

    name = "name=value"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        key, equals, text = value.partition("=")
        if not key or not equals:
            self.fail(f"{value!r} is not of the form name=value", param, ctx)
        return key, text


class Folder(click.Path):
    """A folder's path. An empty text is refused: as a path, it would mean the present folder."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not str(value).strip():
            self.fail("expected the path of a folder", param, ctx)
        return super().convert(value, param, ctx)


def state_option(command: Command) -> Command:
    return click.option(
        "--state",
        type=Folder(path_type=Path, file_okay=False),
        callback=_remember_state,
        help="State folder of the embedded stack (default: $CRAWLER_STATE or ~/.local/state/crawler-lifecycle).",
    )(command)


def _remember_state(ctx: click.Context, _: click.Parameter, state: Path | None) -> Path | None:
    ctx.meta[TYPED_STATE] = state
    return state


def with_state(message: str) -> str:
    """Return the message with the typed --state or --api in every `crawlctl` command: a reader can copy commands."""
    context = click.get_current_context(silent=True)
    state = context.meta.get(TYPED_STATE) if context else None
    if api := typed_api():
        return COMMAND_IN_MESSAGE.sub(lambda command: _with_api(command[0], api), message)
    if state is None:
        return message
    return COMMAND_IN_MESSAGE.sub(lambda command: f"{command[0]} --state {shlex.quote(str(state))}", message)


def _with_api(command: str, api: str) -> str:
    """Return the command with --api, unless the command works only on the installation's own machines."""
    program, name, *words = command.split(" ")
    return command if name in WITHOUT_API else " ".join([program, "--api", shlex.quote(api), name, *words])


def json_option(command: Command) -> Command:
    return click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")(command)


def standard_options(command: Command) -> Command:
    return state_option(json_option(command))


def open_access(state: Path | None) -> "Access":
    """Return the commands for the installation: over the HTTP API if an API is chosen."""
    if (api := open_api(state)) is not None:
        from crawler_lifecycle.cli.remote.access import Remote

        return Remote(api)
    return open_control(state)


def open_control(state: Path | None) -> "Control":
    """Return all commands for the installation itself. BadInput if an API is chosen."""
    from crawler_lifecycle.control.control import Control

    refuse_api(state)
    return Control.open(state)


def open_context(state: Path | None) -> "Context":
    """Return the installation with its adapters. BadInput if an API is chosen."""
    from crawler_lifecycle.control.context import Context

    refuse_api(state)
    return Context.open(state)


def open_reader(state: Path | None) -> "RunAccess":
    """Return the commands that only read runs. Their modules import no Temporal client, so they start sooner."""
    if (api := open_api(state)) is not None:
        from crawler_lifecycle.cli.remote.runs import RemoteRuns

        return RemoteRuns(api)
    from crawler_lifecycle.control.context import Context
    from crawler_lifecycle.control.reading import RunReader

    return RunReader(Context.open(state))


def open_limits(state: Path | None) -> "LimitAccess":
    """Return the commands for limits, which need the database and no Temporal client."""
    if (api := open_api(state)) is not None:
        from crawler_lifecycle.cli.remote.access import RemoteLimits

        return RemoteLimits(api)
    from crawler_lifecycle.control.context import Context
    from crawler_lifecycle.control.limits import LimitCommands

    return LimitCommands(Context.open(state))


def print_json(value: Any) -> None:
    from pydantic_core import to_json

    click.echo(to_json(value).decode())


def print_answer(answer: Any, lines: Callable[[Any], Iterable[str]], *, as_json: bool) -> None:
    """Print the answer as JSON, or as text: the function `lines` turns the answer into lines."""
    if as_json:
        print_json(answer)
    else:
        for line in lines(plain(answer)):
            click.echo(line)


def user_name() -> str:
    """Return the user's login name; in a container the user may have no name: then return the number of the user."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # KeyError before Python 3.13
        return f"uid {os.getuid()}"


def crawlctl_command() -> str:
    """Return how to call `crawlctl` from the present folder: by its name if a shell finds it, else by its path."""
    program, folder = Path(sys.executable).with_name("crawlctl"), Path.cwd()
    if shutil.which("crawlctl") or not program.exists():
        return "crawlctl"
    # relative to the program's own folder, the path is only a name, and a shell would not find the program
    is_relative_path_usable = folder in program.parents[1:]
    return str(program.relative_to(folder) if is_relative_path_usable else program)


def plain(value: Any) -> Any:
    """Return the value with all control characters replaced: a crawl's output must not control the terminal.

    Texts are replaced in mappings, lists, tuples and pydantic models, too.
    """
    if type(value) is str:
        return value.replace("\r\n", "\n").translate(REPLACEMENTS)
    if isinstance(value, Mapping):
        return {plain(name): plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(plain(item) for item in value)
    if hasattr(value, "model_copy"):
        return value.model_copy(update={name: plain(item) for name, item in value})
    return value


def print_line(line: str) -> None:
    """Print a line if possible. An error at a closed terminal would keep a stack from ending in order."""
    try:
        click.echo(line)
    except OSError:
        return


def print_to_stderr(line: str) -> None:
    """Print a line on stderr if possible. With --json, stdout is only for programs."""
    try:
        click.echo(line, err=True)
    except OSError:
        return
