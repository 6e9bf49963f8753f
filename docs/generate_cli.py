"""The reference of `crawlctl`, made from its commands."""

import re
from collections.abc import Iterator

import click

from crawler_lifecycle.cli.program import main
from crawler_lifecycle.console.failures import EXIT_CODES, commands_in

EVERYWHERE = ("help", "api", "state", "json")  # options of every command, which the page explains once
ABOVE = """# Command line

All commands of `crawlctl`, as `--help` shows them. `--state`, `--json` and `--api` may stand before a command or after
it; every command has `--help`. [Use in scripts, and shell completion](../howto/command-line.md).
"""


def page() -> str:
    statuses = re.findall(r"^ *(\d+) +(.+)$", EXIT_CODES, re.MULTILINE)
    rows = "".join(f"| {status} | {meaning} |\n" for status, meaning in statuses)
    commands = "".join(_commands("crawlctl", main))
    return f"{ABOVE}\n## Exit status\n\n| status | meaning |\n| --- | --- |\n{rows}\n{commands}"


def _commands(path: str, group: click.Group) -> Iterator[str]:
    for name, command in sorted(commands_in(click.Context(group), group).items()):
        if command.hidden:
            continue
        whole = f"{path} {name}"
        yield f"{'##' if path == 'crawlctl' else '###'} {whole}\n\n{_described(command)}{_parameters(command)}"
        if isinstance(command, click.Group):
            yield from _commands(whole, command)


def _described(command: click.Command) -> str:
    """Return the help of the command; blocks that click would not wrap are code."""
    paragraphs = re.sub(r"\n +", "\n", (command.help or "").strip()).split("\n\n")
    return "".join(
        f"```\n{each[2:].strip()}\n```\n\n" if each.startswith("\b") else f"{_escaped(each)}\n\n" for each in paragraphs
    )


def _parameters(command: click.Command) -> str:
    context = click.Context(command, info_name=command.name)
    arguments = [each.make_metavar(context) for each in command.params if isinstance(each, click.Argument)]
    usage = " ".join(["OPTIONS", *arguments, *(["COMMAND"] if isinstance(command, click.Group) else [])])
    options = [
        record
        for each in command.params
        if isinstance(each, click.Option) and each.name not in EVERYWHERE and (record := each.get_help_record(context))
    ]
    rows = "".join(f"| `{names}` | {_escaped(meaning)} |\n" for names, meaning in options)
    table = f"| option | meaning |\n| --- | --- |\n{rows}\n" if rows else ""
    return f"Arguments: `{usage}`\n\n{table}" if arguments else table


def _escaped(text: str) -> str:
    return re.sub(r"(?<!`)([<>*_|\[\]])", r"\\\1", text).replace("\n", " ")
