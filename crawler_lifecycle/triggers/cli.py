"""`crawlctl triggers check`: checks a mapping file, and shows the effect of an event."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from crawler_lifecycle.triggers.model import Rule

MISTAKES = 2  # exit status, as for `crawlctl crawlers --check`
FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.group()
def triggers() -> None:
    """Let EventBridge's events start and stop work."""


@triggers.command()
@click.argument("file", type=FILE)
@click.option("--event", "event_file", type=FILE, help="JSON file with an event: show its effect.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
@click.pass_context
def check(context: click.Context, file: Path, event_file: Path | None, as_json: bool) -> None:
    """Check the mapping FILE. Every mistake is a line, and the exit status after a mistake is 2.

    Nothing is started, and no installation is needed.

    \b
    Examples:
      crawlctl triggers check events.toml
      crawlctl triggers check events.toml --event order.json
    """
    from pydantic_core import to_json

    from crawler_lifecycle.triggers import mapping_file

    problems = mapping_file.mistakes_of(file)
    rules = [] if problems else mapping_file.read(file)
    would = _effect(rules, event_file) if event_file is not None and not problems else None
    if as_json:
        answer = {"file": str(file), "rules": [rule.name for rule in rules], "problems": problems, "event": would}
        click.echo(to_json(answer).decode())
    else:
        for line in problems or [f"{file} is valid: {', '.join(rule.name for rule in rules)}"]:
            click.echo(line)
        if would is not None:
            click.echo(f"rule {would['rule']}, {would['act']}: {to_json(would['request'], indent=2).decode()}")
    if problems:
        context.exit(MISTAKES)


def _effect(rules: "Sequence[Rule]", event_file: Path) -> dict[str, Any]:
    """Return the rule for the event, and the rule's request. BadInput if the event would be refused."""
    from crawler_lifecycle.contract.requests import parse
    from crawler_lifecycle.triggers.model import Event
    from crawler_lifecycle.triggers.requests import request_of, shown
    from crawler_lifecycle.triggers.rules import rule_for

    event = parse(Event, event_file.read_bytes())
    rule = rule_for(event, rules)
    return {"rule": rule.name, "act": rule.act.value, "request": shown(request_of(rule, event))}
