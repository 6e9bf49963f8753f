"""Changed arguments in words, for a flow's timeline."""

import json
from collections.abc import Collection, Mapping, Sequence

from pydantic import JsonValue

from crawler_lifecycle.contract.flows.work import Work
from crawler_lifecycle.domain.flows.requesting import arguments_of

LONGEST_VALUE = 40  # characters
MOST_CHANGES = 10  # arguments for a job
MOST_JOBS = 10
UNSET = "unset"


def in_words(work: Work, former: JsonValue, changes: Mapping[str, JsonValue], removed: Collection[str] = ()) -> str:
    """Return for example `depth 2 -> 3, lang unset -> "de"`. `former`: None for the definition's arguments."""
    known = arguments_of(work) if former is None else former
    old = known if isinstance(known, dict) else {}
    changed = [name for name, value in changes.items() if name not in old or old[name] != value]
    words = [f"{_shortened(name)} {_value(old, name)} -> {_value(changes, name)}" for name in changed]
    words += [f"{_shortened(name)} {_value(old, name)} -> {UNSET}" for name in removed]
    return _listed(words, MOST_CHANGES, ", ") or "no other value"


def of_jobs(by_path: Mapping[str, str]) -> str:
    """Return the jobs with their changes, to append to a message; an empty text without jobs."""
    listed = _listed([f"{path}: {words}" for path, words in by_path.items()], MOST_JOBS, "; ")
    return f"; arguments of {listed}" if listed else ""


def _value(arguments: Mapping[str, JsonValue], name: str) -> str:
    return _shortened(json.dumps(arguments[name], ensure_ascii=False)) if name in arguments else UNSET


def _shortened(text: str) -> str:
    return text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 1]}…"


def _listed(words: Sequence[str], most: int, separator: str) -> str:
    more = [f"{len(words) - most} more"] if len(words) > most else []
    return separator.join([*words[:most], *more])
