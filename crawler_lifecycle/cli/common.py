"""What do all commands share: their options, their exit codes, how they fail?"""

import gc
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click

from crawler_lifecycle.errors import BadInput, LifecycleError, NotFound, Over, TemporaryError

OK, WRONG, USAGE, NOT_FOUND, NOT_READY, NOT_COMPLETED, IS_OVER, DISAGREES, INTERRUPTED = 0, 1, 2, 3, 4, 5, 6, 7, 130
EXIT_CODES = """\b
Exit status:
  0    done; a run that was watched is COMPLETED
  1    something went wrong
  2    what was typed is not acceptable
  3    there is no such run or task
  4    a part of the installation does not answer or is not ready
  5    the run ended, but not COMPLETED
  6    the run was over already: nothing was stopped or resumed
  7    database, Temporal and cluster disagree (audit)
  130  interrupted; what was started goes on
"""
F = TypeVar("F", bound=Callable[..., Any])
RARELY = 100_000  # new objects
LONGEST_REFUSAL = 300  # what was typed is part of it
UNPRINTABLE = {code: "\N{REPLACEMENT CHARACTER}" for code in (*range(32), *range(127, 160)) if chr(code) not in "\t\n"}
SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


class Commands(click.Group):
    """An error is one line on stderr and an exit status, never a traceback or a lesson."""

    def make_context(self, *given: Any, **named: Any) -> click.Context:
        with _refusals_in_a_line():
            return super().make_context(*given, **named)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with _rare_collections(), _refusals_in_a_line():
                return super().invoke(ctx)
        except LifecycleError as error:
            _tell_error(error.message)
            raise click.exceptions.Exit(_exit_code(error)) from error
        except KeyboardInterrupt as interrupt:
            click.echo(err=True)
            raise click.exceptions.Exit(INTERRUPTED) from interrupt


@contextmanager
def _rare_collections() -> Iterator[None]:
    """A tenth of a cold start would go into looking for garbage among the classes that are just being imported."""
    before = gc.get_threshold()
    gc.set_threshold(RARELY, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


@contextmanager
def _refusals_in_a_line() -> Iterator[None]:
    """What click refuses by itself, which has four lines for it."""
    try:
        yield
    except click.exceptions.NoArgsIsHelpError:
        raise
    except click.UsageError as error:
        message = " ".join(error.format_message().split()).rstrip(".")
        if len(message) > LONGEST_REFUSAL:
            message = f"{message[: LONGEST_REFUSAL // 2]} ... {message[-LONGEST_REFUSAL // 2 :]}"
        more = f" (see `{error.ctx.command_path} --help`)" if error.ctx else ""
        _tell_error(message + more)
        raise click.exceptions.Exit(error.exit_code) from error


def _tell_error(message: str) -> None:
    click.echo(click.style("Error: ", fg="red") + plain(message), err=True)


def _exit_code(error: LifecycleError) -> int:
    families = ((BadInput, USAGE), (NotFound, NOT_FOUND), (Over, IS_OVER), (TemporaryError, NOT_READY))
    return next((code for family, code in families if isinstance(error, family)), WRONG)


class Duration(click.ParamType[int]):
    """`90`, `30s`, `2h`, `1h30m`, as seconds."""

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
            self.fail("expected the path of a folder, not nothing", param, ctx)
        return super().convert(value, param, ctx)


def state_option(command: F) -> F:
    return click.option(
        "--state",
        type=Folder(path_type=Path, file_okay=False),
        help="State folder of the embedded stack (default: $CRAWLER_STATE or ~/.local/state/crawler-lifecycle).",
    )(command)


def json_option(command: F) -> F:
    return click.option("--json", "as_json", is_flag=True, help="For programs.")(command)


def print_json(value: Any) -> None:
    """A model, or a list of them."""
    from pydantic_core import to_json

    click.echo(to_json(value).decode())


def as_typed() -> str:
    """How `crawlctl` is called from here: by its name if a shell finds it, else by where it is."""
    beside, here = Path(sys.executable).with_name("crawlctl"), Path.cwd()
    if shutil.which("crawlctl") or not beside.exists():
        return "crawlctl"
    return str(beside.relative_to(here) if here in beside.parents[1:] else beside)


def plain(value: Any) -> Any:
    """A text, or all texts of a model, as a terminal may get them: what a crawl printed must not steer it."""
    if type(value) is str:
        return value.replace("\r\n", "\n").translate(UNPRINTABLE)
    if isinstance(value, Mapping):
        return {plain(name): plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(plain(each) for each in value)
    if hasattr(value, "model_copy"):
        return value.model_copy(update={name: plain(each) for name, each in value})
    return value


def say(line: str) -> None:
    """To whoever watches; a terminal that was closed must not keep us from ending in order."""
    try:
        click.echo(line)
    except OSError:
        return


def tell_stderr(line: str) -> None:
    """With --json, stdout is for programs."""
    try:
        click.echo(line, err=True)
    except OSError:
        return
