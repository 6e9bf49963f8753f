"""A manager's command line, and the command line of the process or the flow."""

import argparse
import json
import logging
import os
import re
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NoReturn

from crawler_lifecycle.errors import BadInput
from crawler_lifecycle.managers.authors.parameters import check_parts

FLOW_ID = "--flow-id"
OF_AN_OPTION = re.compile(r"argument (?P<names>\S+): (?P<expected>.*)", re.DOTALL)  # argparse's message

_given: ContextVar[Sequence[str] | None] = ContextVar("command line of the manager", default=None)


class BadArguments(BadInput):
    """A manager's parser refuses the arguments. `sentence` is the line that the parser would print.

    The field is the refused option, or `arguments` if the parser names none.
    """

    def __init__(self, program: str, message: str) -> None:
        option = OF_AN_OPTION.fullmatch(message)
        if option is None:
            super().__init__("arguments", message)
        else:
            super().__init__(max(option["names"].split("/"), key=len), option["expected"])
        self.sentence = f"{program}: error: {message}"


class ManagerParser(argparse.ArgumentParser):
    """A parser that raises BadArguments for a command line of a flow. For the process's own line, the process exits."""

    def error(self, message: str) -> NoReturn:
        if _given.get() is None:
            super().error(message)
        raise BadArguments(self.prog, message)


def program_name(manager: str) -> str | None:
    """Return the manager's name for the parser; None for the process's own command line."""
    return None if _given.get() is None else manager


@contextmanager
def command_line(arguments: Sequence[str]) -> Iterator[None]:
    """Let managers take these arguments instead of the process's during the block."""
    token = _given.set(arguments)
    try:
        yield
    finally:
        _given.reset(token)


def given() -> list[str]:
    arguments = _given.get()
    return list(sys.argv[1:] if arguments is None else arguments)


def without_flow_id(arguments: Sequence[str]) -> list[str]:
    """Return the arguments without the flow's id, which the flow itself has: `--flow-id ID` or `--flow-id=ID`."""
    end = list(arguments).index("--") if "--" in arguments else len(arguments)
    is_name = [word == FLOW_ID and place < end for place, word in enumerate(arguments)]
    return [
        word
        for place, word in enumerate(arguments)
        if not is_name[place] and not (place and is_name[place - 1])
        if not (word.startswith(f"{FLOW_ID}=") and place < end)
    ]


def number_of_jobs(text: str) -> int:
    """Return the number of an option. 0: no job starts."""
    try:
        number = int(text)
    except ValueError:
        number = -1
    if number < 0:
        raise argparse.ArgumentTypeError(f"expected a whole number from 0 on, not {text!r}")
    return number


def json_object(text: str) -> str:
    """Return the option's text if it is a JSON object."""
    try:
        value = json.loads(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"is no JSON: {error}") from error
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError("expected a JSON object")
    return text


def spider_arguments(text: str) -> str:
    """Return the option's text if it is a JSON object with arguments for every spider."""
    value = json.loads(json_object(text))
    if "spider" in value:
        raise argparse.ArgumentTypeError("names a spider, which is an argument of its own")
    try:
        check_parts(value)
    except BadInput as error:
        raise argparse.ArgumentTypeError(f"{error.field}: {error.message}") from error
    return text


def variables(text: str) -> dict[str, str]:
    """Return the variables in `name:value,...` or `name=value`."""
    if "=" in text and ":" not in text.partition("=")[0]:
        pairs = [text.partition("=")]
    else:
        pairs = [part.partition(":") for part in text.split(",")]
    if any(not name or not mark for name, mark, _ in pairs):
        raise argparse.ArgumentTypeError("expected name:value,... or name=value")
    return {name.strip(): value.strip() for name, _, value in pairs}


def with_program(
    parser: argparse.ArgumentParser, arguments: Sequence[str], programs: Mapping[str, Mapping[str, Any]]
) -> list[str]:
    """Return the arguments with those of the program alias in front, so that explicit arguments win."""
    aliases = ManagerParser(prog=parser.prog, add_help=False)
    aliases.add_argument("-g", "--program")
    aliases.add_argument("-v", "--program-variables", type=variables, action="append", default=[])
    chosen, rest = aliases.parse_known_args(arguments)
    if chosen.program is None:
        return list(rest)
    if chosen.program not in programs:
        parser.error(f"program {chosen.program!r} is unknown; known are: {', '.join(sorted(programs)) or 'none'}")
    values = {name: value for given_values in chosen.program_variables for name, value in given_values.items()}
    line = programs[chosen.program]["command_line"]
    words = shlex.split(line) if isinstance(line, str) else list(line)
    try:
        filled = [word.format(**values) for word in words]
    except (KeyError, ValueError, IndexError, AttributeError) as error:
        name = error.args[0] if isinstance(error, KeyError) else ""
        if str(name).isidentifier():
            parser.error(f"program {chosen.program!r} needs the variable {name!r}: -v {name}:VALUE")
        parser.error(
            f"program {chosen.program!r}: write braces that stand for themselves twice, {{{{ and }}}}: {error}"
        )
    return [*filled, *rest]


def get_kumo_loglevel(default: str = "INFO") -> int:
    """Return the number of the level in the variable LOG_LEVEL, such as `DEBUG` or `10`."""
    name = (os.environ.get("LOG_LEVEL") or default).strip().upper()
    levels = logging.getLevelNamesMapping()
    if name.isdigit():
        return int(name)
    return levels.get(name, levels[default])
