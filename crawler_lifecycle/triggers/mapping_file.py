"""The mapping file: TOML with a table `[rules.NAME]` for every rule. The first fitting rule counts.

A rule has a `pattern`, and a table `start_run`, `stop_run`, `start_flow` or `start_manager`.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from crawler_lifecycle.errors import NotReady
from crawler_lifecycle.triggers.model import Act, TriggerRule
from crawler_lifecycle.triggers.requests import request_mistakes
from crawler_lifecycle.triggers.rules import Mistakes, pattern_mistakes

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def read(path: Path) -> Sequence[TriggerRule]:
    """Return the rules. NotReady for a file with a mistake: no event is answered until the file is mended."""
    document = _document(path)
    if lines := list(_lines(path, document)):
        more = f" (and {len(lines) - 1} more; `crawlctl triggers check` lists them)" if len(lines) > 1 else ""
        raise NotReady(lines[0] + more)
    return [_rule(name, table) for name, table in document["rules"].items()]


def mistakes_of(path: Path) -> list[str]:
    """Return a line for every mistake in the file."""
    try:
        return list(_lines(path, _document(path)))
    except NotReady as error:
        return [error.message]


def _document(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_bytes().decode())
    except OSError as error:
        raise NotReady(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise NotReady(f"{path}: not a TOML file: {' '.join(str(error).split())}") from error


def _lines(path: Path, document: Mapping[str, Any]) -> Iterator[str]:
    return (f"{path}: {field}: {expected}" for field, expected in _mistakes(document))


def _mistakes(document: Mapping[str, Any]) -> Mistakes:
    yield from ((name, "expected tables [rules.NAME] only") for name in document if name != "rules")
    rules = document.get("rules")
    if not isinstance(rules, dict) or not rules:
        yield "rules", "expected at least one table [rules.NAME]"
        return
    for name, table in rules.items():
        place = f"rules.{' '.join(name.split())[:100]}"
        if not NAME.fullmatch(name):
            yield place, "expected a name of letters, digits and . _ - with a letter or digit at the beginning"
        elif not isinstance(table, dict):
            yield place, "expected a table"
        else:
            yield from ((f"{place}.{field}", expected) for field, expected in _rule_mistakes(table))


def _rule_mistakes(table: Mapping[str, Any]) -> Mistakes:
    yield from ((name, "is not a known field") for name in table if name != "pattern" and name not in set(Act))
    yield from pattern_mistakes(table.get("pattern"))
    acts = [act for act in Act if act in table]
    if len(acts) != 1:
        yield "act", f"expected exactly one of the tables {', '.join(Act)}"
    for act in acts:
        yield from request_mistakes(act, table[act])


def _rule(name: str, table: Mapping[str, Any]) -> TriggerRule:
    act = next(act for act in Act if act in table)
    return TriggerRule(name, table["pattern"], act, table[act])
