"""Options and ways of printing for all commands."""

import getpass
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])
UNPRINTABLE = {code: "\N{REPLACEMENT CHARACTER}" for code in (*range(32), *range(127, 160)) if chr(code) not in "\t\n"}
SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


class Duration(click.ParamType[int]):
    """A time as `90`, `30s`, `2h` or `1h30m`, in seconds."""

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
    name = "name=value"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        key, equals, text = value.partition("=")
        if not key or not equals:
            self.fail(f"{value!r} is not of the form name=value", param, ctx)
        return key, text


class Folder(click.Path):
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not str(value).strip():
            self.fail("expected the path of a folder", param, ctx)
        return super().convert(value, param, ctx)


def state_option(command: Command) -> Command:
    return click.option(
        "--state",
        type=Folder(path_type=Path, file_okay=False),
        help="State folder of the embedded stack (default: $CRAWLER_STATE or ~/.local/state/crawler-lifecycle).",
    )(command)


def json_option(command: Command) -> Command:
    return click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")(command)


def standard_options(command: Command) -> Command:
    return state_option(json_option(command))


def print_json(value: Any) -> None:
    from pydantic_core import to_json

    click.echo(to_json(value).decode())


def print_answer(answer: Any, lines: Callable[[Any], Iterable[str]], *, as_json: bool) -> None:
    """Print models as JSON, or as the lines of text that the function makes of them."""
    if as_json:
        print_json(answer)
    else:
        for line in lines(plain(answer)):
            click.echo(line)


def user_name() -> str:
    """Return the user's login name. A user id without a name, as in a container, is a number."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # KeyError before Python 3.13
        return f"uid {os.getuid()}"


def as_typed() -> str:
    """Return how a user calls `crawlctl` from the present folder: by its name if a shell finds it, else by its path."""
    beside, folder = Path(sys.executable).with_name("crawlctl"), Path.cwd()
    if shutil.which("crawlctl") or not beside.exists():
        return "crawlctl"
    return str(beside.relative_to(folder) if folder in beside.parents[1:] else beside)


def plain(value: Any) -> Any:
    """Return a text, or a model with all its texts, without control characters. A crawl's output must not steer the
    terminal."""
    if type(value) is str:
        return value.replace("\r\n", "\n").translate(UNPRINTABLE)
    if isinstance(value, Mapping):
        return {plain(name): plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(plain(item) for item in value)
    if hasattr(value, "model_copy"):
        return value.model_copy(update={name: plain(item) for name, item in value})
    return value


def say(line: str) -> None:
    """Print a line. A closed terminal must not keep a stack from ending in order."""
    try:
        click.echo(line)
    except OSError:
        return


def tell_stderr(line: str) -> None:
    """Print a line on stderr: with --json, stdout is for programs."""
    try:
        click.echo(line, err=True)
    except OSError:
        return
