"""Helpers of all commands: options with their types, the connection to the HTTP API, and functions for printing.

A command finds the API by `--api`, by the stack on the state folder, or by `CRAWLER_REMOTE__URL`.
"""

import getpass
import os
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from crawler_lifecycle.errors import NotReady

if TYPE_CHECKING:
    from crawler_lifecycle.base.requesters import Requester
    from crawler_lifecycle.settings.processes import RemoteSettings
    from crawler_lifecycle.transport.connection import HttpConnection

TYPED_API = "crawlctl.api"  # key in the context's `meta`; the value is the typed --api
# commands on the installation itself, or on their own stack
DIRECT = ("up", "demo", "host", "doctor", "db", "token", "accept-namespace", "prune", "flow run")
WITHOUT_API = (
    "without an API work `up`, `demo`, `host`, `doctor`, `db`, `token`, `accept-namespace`, `prune`, `flow check`, "
    "`flow run` and `stop --direct`"
)
Command = TypeVar("Command", bound=Callable[..., Any])
CONTROL_CODES = (*range(32), *range(127, 160))
# characters with an effect on their neighbours: hidden text, reversed order; the page shows the same codes
HIDING_CODES = (0xAD, 0x61C, 0x200B, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2060, 0x2070), 0xFEFF)
REPLACEMENTS = {
    **{code: "\N{REPLACEMENT CHARACTER}" for code in CONTROL_CODES if chr(code) not in "\t\n"},
    **{code: f"[U+{code:04X}]" for code in HIDING_CODES},
}
TYPED_STATE = "crawlctl.state"  # key in the context's `meta`; the value is the typed state folder
TYPED_ARGUMENTS = "crawlctl.arguments"  # key in the context's `meta`; the value has the command's arguments by name
WANTS_JSON = "crawlctl.json"  # key in the context's `meta`; the value is true if --json was typed
COMMAND_IN_MESSAGE = re.compile(r"(?<=`)crawlctl [^`]+(?=`)")
SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}  # of a duration's units


def typed_api() -> str | None:
    context = click.get_current_context(silent=True)
    return context.meta.get(TYPED_API) if context else None


def is_direct(words: str) -> bool:
    """Return whether the command, such as `flow run`, works without the API."""
    return any(words == name or words.startswith(f"{name} ") for name in DIRECT)


def open_connection(state: Path | None, *, seconds: float | None = None) -> "HttpConnection":
    """Return the connection to the chosen API. NotReady without an API's address or token.

    `seconds` limits a request; default: the setting.
    """
    from crawler_lifecycle.transport.connection import HttpConnection, address_of, token_of

    settings = _settings(state)
    connection = HttpConnection(
        address_of(settings), token_of(settings), seconds or settings.seconds, settings.authorities
    )
    connection.advice = f"`--api`, `--state` or CRAWLER_REMOTE__URL chooses an API; {WITHOUT_API}"
    return connection


def _settings(state: Path | None) -> "RemoteSettings":
    from crawler_lifecycle.settings import configuration, stack_file
    from crawler_lifecycle.settings.installation import state_folder

    typed = typed_api()
    if typed is not None and state is not None:
        raise click.UsageError("--api and --state exclude each other")
    remote = configuration.load().remote
    if typed is not None:
        return remote.model_copy(update={"url": typed})
    if state is None and remote.url is not None:
        return remote
    folder = state_folder(state)
    stack = stack_file.read(folder)
    if stack is None:
        raise NotReady(
            f"no HTTP API is known: set CRAWLER_REMOTE__URL and CRAWLER_REMOTE__TOKEN_FILE, or start a stack on "
            f"{folder} with `crawlctl up`; {WITHOUT_API}"
        )
    own = {"url": stack.environment["CRAWLER_API__URL"], "token_file": folder / stack_file.API_TOKEN_FILE}
    return remote.model_copy(update=own | {"authorities": None})


class Duration(click.ParamType[int]):
    """An option's duration such as `30s`, `2h` or `1h30m`; the value is the number of seconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        if re.fullmatch(r"[0-9]{1,12}", value):
            if int(value) == 0:
                return 0
            self.fail(f"{value} has no unit: say {value}s, {value}m, {value}h or {value}d", param, ctx)
        parts = re.fullmatch(r"(?:[0-9]{1,9}[smhd])+", value)
        if not parts:
            self.fail(f"{value!r} is not a duration such as 30s, 15m or 1h30m", param, ctx)
        return sum(int(number) * SECONDS[unit] for number, unit in re.findall(r"([0-9]+)([smhd])", value))


class Moment(click.DateTime):
    """An option's time; a time without a zone is taken as UTC."""

    def __init__(self) -> None:
        super().__init__(["%Y-%m-%dT%H:%M:%S%z", "%Y-%m-%dT%H:%M%z", "%Y-%m-%d"])

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        moment: datetime = super().convert(value, param, ctx)
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


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


def state_option(command: Command, *, expose_value: bool = True) -> Command:
    return click.option(
        "--state",
        type=Folder(path_type=Path, file_okay=False),
        callback=_remember(TYPED_STATE),
        expose_value=expose_value,
        help="State folder of the embedded stack (default: $CRAWLER_STATE or ~/.local/state/crawler-lifecycle).",
    )(command)


def _remember(key: str) -> Callable[[click.Context, click.Parameter, Any], Any]:
    """Return a callback that keeps an option's value in the `meta` shared by a command line's contexts.

    So the option may come before or after the command; the last value counts. The command's arguments are kept, too.
    """

    def remember(ctx: click.Context, _: click.Parameter, value: Any) -> Any:
        if value is not None and value is not False:
            ctx.meta[key] = value
        ctx.meta[TYPED_ARGUMENTS] = ctx.params
        return ctx.meta.get(key, value)

    return remember


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
    """Return the command with --api, unless the command is direct."""
    program, _, words = command.partition(" ")
    return command if is_direct(words) else f"{program} --api {shlex.quote(api)} {words}"


def typed_arguments() -> Mapping[str, Any]:
    """Return the typed arguments and options by name."""
    context = click.get_current_context(silent=True)
    return context.meta.get(TYPED_ARGUMENTS, {}) if context else {}


def json_option(command: Command, *, expose_value: bool = True) -> Command:
    return click.option(
        "--json",
        "as_json",
        is_flag=True,
        callback=_remember(WANTS_JSON),
        expose_value=expose_value,
        help="Print JSON, for programs.",
    )(command)


def api_option(command: Command) -> Command:
    return click.option(
        "--api",
        metavar="URL",
        callback=_choose_api,
        expose_value=False,
        help="Address of the HTTP API, for the token in CRAWLER_REMOTE__TOKEN_FILE or CRAWLER_REMOTE__TOKEN (default: "
        "$CRAWLER_REMOTE__URL, or the API of the stack on the state folder).",
    )(command)


def _choose_api(ctx: click.Context, param: click.Parameter, api: str | None) -> None:
    """Keep the URL. UsageError for a direct command."""
    words = ctx.command_path.partition(" ")[2]
    if _remember(TYPED_API)(ctx, param, api) is not None and is_direct(words):
        raise click.UsageError(
            f"`{words}` works on the installation itself: call it without --api, on a machine of the installation"
        )


def standard_options(command: Command) -> Command:
    return api_option(state_option(json_option(command)))


def verbose_option(command: Command) -> Command:
    return click.option(
        "-v", "--verbose", is_flag=True, help="Show the stages and the times of the next looks at the cluster, too."
    )(command)


def options_of_groups(command: Command) -> Command:
    """Add the standard options for the place before a command. The command's callback gets the values."""
    return api_option(state_option(json_option(command, expose_value=False), expose_value=False))


def requester(actor: str | None = None) -> "Requester":
    """Return the requester of the command: by default the user."""
    from crawler_lifecycle.base.requesters import Requester

    return Requester(actor or user_name(), door="crawlctl")


def print_json(value: Any) -> None:
    from pydantic_core import to_json

    click.echo(to_json(value).decode())


def terminal_width() -> int | None:
    """Return the width for tables. None: the output goes to a file or a program, and has no limit."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def print_answer(answer: Any, lines: Callable[[Any], Iterable[str]], *, as_json: bool) -> None:
    """Print the answer as JSON, or as text: the function `lines` turns the answer into lines."""
    with until_reader_leaves():
        if as_json:
            print_json(answer)
        else:
            for line in lines(plain(answer)):
                click.echo(line)


@contextmanager
def until_reader_leaves() -> Iterator[None]:
    """End the command with status 0 if its reader, such as `head`, has read enough."""
    try:
        yield
    except BrokenPipeError:
        raise click.exceptions.Exit(0) from None


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

    Characters for hidden or reversed text are shown by code, such as `[U+202E]`.

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
