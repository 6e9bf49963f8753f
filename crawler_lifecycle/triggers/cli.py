"""The commands for events: `crawlctl triggers check` checks a mapping file, and shows the effect of an event."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from crawler_lifecycle.console.common import plain, print_json, standard_options
from crawler_lifecycle.console.failures import USAGE, Commands

if TYPE_CHECKING:
    from crawler_lifecycle.triggers.model import TriggerRule

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.group(cls=Commands)
def triggers() -> None:
    """Let EventBridge's events start and stop work."""


@triggers.command()
@click.argument("file", type=FILE)
@click.option("--event", "event_file", type=FILE, help="JSON file with an event: show its effect.")
@standard_options
def check(file: Path, event_file: Path | None, state: Path | None, as_json: bool) -> None:
    """Check the mapping FILE. Every mistake is a line, and the exit status after a mistake is 2.

    Nothing is started, and no installation is needed.

    \b
    Examples:
      crawlctl triggers check events.toml
      crawlctl triggers check events.toml --event order.json
    """
    from pydantic_core import to_json

    from crawler_lifecycle.triggers import mapping_file

    del state  # no installation is needed
    problems = mapping_file.mistakes_of(file)
    rules = [] if problems else mapping_file.read(file)
    effect = _effect(rules, event_file) if event_file is not None and not problems else None
    names = [rule.name for rule in rules]
    if as_json:
        print_json({"file": str(file), "rules": names, "problems": problems, "event": effect})
    else:
        for line in problems or [f"{file} is valid: {', '.join(names)}"]:
            click.echo(plain(line))
        if effect is not None:
            request = to_json(effect["request"], indent=2).decode()
            click.echo(plain(f"rule {effect['rule']}, {effect['act']}: {request}"))
    if problems:
        raise click.exceptions.Exit(USAGE)


def _effect(rules: "Sequence[TriggerRule]", event_file: Path) -> dict[str, Any]:
    """Return the rule for the event, and the rule's request. BadInput if the API would refuse the event."""
    from crawler_lifecycle.model.requests import parse
    from crawler_lifecycle.triggers.model import Event
    from crawler_lifecycle.triggers.requests import request_of, shown
    from crawler_lifecycle.triggers.rules import rule_for

    event = parse(Event, event_file.read_bytes())
    rule = rule_for(event, rules)
    return {"rule": rule.name, "act": rule.act.value, "request": shown(request_of(rule, event))}
