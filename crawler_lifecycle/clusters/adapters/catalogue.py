"""The catalogue of crawlers and crawl managers, read from its file.

The file is TOML with a table `[crawlers.NAME]` for every crawler, with the fields of `model.deployment.Crawler`, and
a table `[managers.NAME]` for every crawl manager that other machines may start, with the fields of `ManagerEntry`.
In `command`, `{python}` means the service's own Python, and `{catalogue_folder}` means the file's folder; other
braces stay.
"""

import logging
import re
import shutil
import sys
import threading
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Field, ValidationError

from crawler_lifecycle.base.names import checked_name, did_you_mean
from crawler_lifecycle.base.refusals import expectation
from crawler_lifecycle.clusters import rules
from crawler_lifecycle.errors import BadInput, NotFound, NotReady
from crawler_lifecycle.model.deployment import Crawler, ManagerEntry
from crawler_lifecycle.model.requests import refusals_as_bad_input
from crawler_lifecycle.model.retries import RequestedRetries

logger = logging.getLogger(__name__)


def _without_nul(text: str) -> str:
    if "\0" in text:
        raise ValueError("must not contain a NUL character")
    return text


ProcessText = Annotated[str, AfterValidator(_without_nul)]
# names accepted by the check; the service takes every printable name
PLAIN_NAME = re.compile(r"^\w[\w./:@+%-]*$")
PLAIN_NAME_WORDS = "expected letters, digits and the characters _ . / : @ + % - and a letter or digit at the beginning"
VariableName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]


class _Entry(Crawler):
    """An entry as written in the file."""

    command: list[ProcessText] = Field(default_factory=list, max_length=256)
    environment: dict[VariableName, ProcessText] = Field(default_factory=dict)
    retries: RequestedRetries | None = None


@dataclass(frozen=True)
class _Entries:
    crawlers: dict[str, Crawler]
    managers: dict[str, ManagerEntry]


class Catalogue:
    """The file's present entries, or the last good entries while the file is broken. Every call reads the file."""

    @classmethod
    def load(cls, path: Path) -> "Catalogue":
        """Load the file. Raise NotReady for a broken file, in a message with file, entry and field."""
        content = _read(path)
        return cls(path, content, _parse(path, content))

    def __init__(self, path: Path, content: bytes, entries: "_Entries") -> None:
        self._path = path
        self._content: bytes | None = content
        self._entries = entries
        self._problem: str | None = None
        self._lock = threading.Lock()

    def names(self) -> list[str]:
        return sorted(self._current().crawlers)

    def labels(self) -> list[str]:
        return sorted({label for crawler in self._current().crawlers.values() for label in crawler.labels})

    def entry(self, name: str) -> Crawler:
        crawlers = self._current().crawlers
        entry = crawlers.get(name)
        if entry is None:
            raise NotFound(f"there is no crawler {name!r} in the catalogue{did_you_mean(name, sorted(crawlers))}")
        return entry

    def manager_names(self) -> list[str]:
        return sorted(self._current().managers)

    def manager(self, name: str) -> ManagerEntry:
        managers = self._current().managers
        entry = managers.get(name)
        if entry is None:
            raise NotFound(f"there is no crawl manager {name!r} in the catalogue{did_you_mean(name, sorted(managers))}")
        return entry

    def problem(self) -> str | None:
        """Return why the last good entries are in use; None if the present file is good."""
        self._current()
        return self._problem

    def _current(self) -> "_Entries":
        """Return the entries, parsed again if the file's content has changed.

        A file that cannot be read or parsed leaves the entries as they are, and sets the problem.
        """
        with self._lock:
            content = None  # if the file cannot be read now, the next readable content counts as changed
            try:
                content = _read(self._path)
                # contents are compared, and not the file's times: two edits may have the same time
                if content != self._content:
                    self._entries = _parse(self._path, content)
                    self._problem = None
                    logger.info("the catalogue was read again: %d crawlers", len(self._entries.crawlers))
            except NotReady as error:
                self._set_problem(error.message)
            self._content = content
            return self._entries

    def _set_problem(self, problem: str) -> None:
        """Set the problem, and log the problem if it is new."""
        if problem != self._problem:
            logger.error("%s; using the last good catalogue", problem)
        self._problem = problem


def _read(path: Path) -> bytes:
    """Return the file's content, or raise NotReady."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise NotReady(f"{path}: cannot be read as the crawler catalogue: {error.strerror or error}") from error


def problems_of(path: Path) -> list[str]:
    """Return a line for every problem in a catalogue file, also for programs and files missing on this machine."""
    try:
        tables, problems = _tables(path, _read(path))
    except NotReady as error:
        return [error.message]
    for name, table in tables["crawlers"].items():
        if not PLAIN_NAME.match(name):
            problems.append(f"{_place(path, name)}name: {PLAIN_NAME_WORDS}")
        problems += _problems_of_entry(path, name, table)
    for name, table in tables["managers"].items():
        try:
            _manager(path, name, table)
        except NotReady as error:
            problems += _mistakes(error)
    return problems


def _mistakes(error: NotReady) -> list[str]:
    """Return a line for every wrong field in an entry: the error itself has the first field alone."""
    refusal = error.__cause__
    library = None if refusal is None else refusal.__cause__
    if not isinstance(library, ValidationError):
        return [error.message]
    place = error.message.removesuffix(_one_line(refusal))
    places = [
        (".".join(str(part) for part in mistake["loc"] if part != "[key]"), mistake)
        for mistake in library.errors(include_url=False)
    ]
    return [f"{place}{field}: {_one_line(expectation(mistake))}" for field, mistake in places]


def _problems_of_entry(path: Path, name: str, table: Any) -> Iterator[str]:
    """Yield the entry's problems. The first part of a command is the program."""
    entry, wrong_fields = None, set[str]()
    while entry is None:
        try:
            entry = _entry(path, name, _repaired(table, wrong_fields))
        except NotReady as error:
            mistakes = {line: _top_field(path, name, line) for line in _mistakes(error)}
            further = set(mistakes.values()) - wrong_fields
            yield from (line for line, field in mistakes.items() if field in further)
            if not isinstance(table, dict) or not further:
                return
            wrong_fields |= further  # they may hide mistakes in other fields
    if entry.image or "command" in wrong_fields:
        return  # programs and files are in the image
    if shutil.which(entry.command[0]) is None:
        yield f"{path}: crawlers.{name}: command: there is no program {entry.command[0]!r} on this machine"
    for written_part, part in zip(table["command"], entry.command, strict=True):
        if written_part.startswith("{catalogue_folder}") and not Path(part).exists():
            yield f"{path}: crawlers.{name}: command: there is no file {part}"


def _repaired(table: Any, wrong_fields: set[str]) -> Any:
    """Return the entry without its wrong fields, but with a command."""
    if not wrong_fields:
        return table
    command = {"command": [sys.executable]} if "command" in wrong_fields else {}
    return {field: value for field, value in table.items() if field not in wrong_fields} | command


def _top_field(path: Path, name: str, problem: str) -> str:
    """Return the entry's field in the problem's line."""
    return re.split("[.:]", problem.removeprefix(_place(path, name)), maxsplit=1)[0]


def _place(path: Path, name: str) -> str:
    return f"{path}: crawlers.{_one_line(name)[:150]}: "


def _parse(path: Path, content: bytes) -> _Entries:
    tables, problems = _tables(path, content)
    if problems:
        raise NotReady(problems[0])
    return _Entries(
        {name: _entry(path, name, table) for name, table in tables["crawlers"].items()},
        {name: _manager(path, name, table) for name, table in tables["managers"].items()},
    )


def _tables(path: Path, content: bytes) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """Return the tables by kind and name, and the mistakes in the kinds. Raise NotReady without TOML."""
    try:
        document = tomllib.loads(content.decode())
    except (ValueError, RecursionError) as error:
        raise NotReady(f"{path}: not a TOML file: {_one_line(error)}") from error
    tables, managers = document.pop("crawlers", None), document.pop("managers", {})
    problems = [
        f"{path}: {_one_line(name)[:150]}: unknown; expected tables [crawlers.NAME] and [managers.NAME] only"
        for name in sorted(document)
    ]
    if not isinstance(tables, dict) or not tables:
        problems.append(f"{path}: crawlers: expected at least one table [crawlers.NAME]")
        tables = {}
    if not isinstance(managers, dict):
        problems.append(f"{path}: managers: expected tables [managers.NAME]")
        managers = {}
    return {"crawlers": tables, "managers": managers}, problems


def _manager(path: Path, name: str, table: Any) -> ManagerEntry:
    """Return the manager's entry. The manager has the table's name unless the entry names another."""
    place = f"{path}: managers.{_one_line(name)[:150]}"
    if not isinstance(table, dict):
        raise NotReady(f"{place}: expected a table")
    try:
        with refusals_as_bad_input():
            entry = ManagerEntry.model_validate({"name": name, **table}, extra="forbid", strict=True)
        checked_name("name", entry.name)
    except BadInput as error:
        raise NotReady(f"{place}: {_one_line(error)}") from error
    return entry


def _entry(path: Path, name: str, table: Any) -> Crawler:
    """Return the entry. Raise NotReady for a field that is not valid."""
    try:
        return _validated(path, name, table)
    except BadInput as error:
        raise NotReady(_place(path, name) + _one_line(error)) from error


def _validated(path: Path, name: str, table: Any) -> Crawler:
    """Return the entry, with the braces in its command replaced. Raise BadInput for a field that is not valid."""
    if not isinstance(table, dict):
        raise BadInput("entry", "expected a table")
    if "name" in table:
        raise BadInput("name", "the name of the table is the crawler's name; leave this out")
    with refusals_as_bad_input():
        # in the entry and in every model below, an unknown field or a wrong type is an error
        entry = _Entry.model_validate({**table, "name": name}, extra="forbid", strict=True)
    if not (entry.image or (entry.command and entry.command[0])):
        raise BadInput("command", "expected the program to run, or an `image`")
    if refusal := rules.refusal(entry.pod):
        field, reason = refusal
        raise BadInput(f"pod.{field}", reason)
    return Crawler.model_validate(entry.model_dump() | {"command": [_expanded(path, part) for part in entry.command]})


def _expanded(path: Path, part: str) -> str:
    """Replace the braces in a part of a command, in one pass: the folder's name may itself contain such braces."""
    meanings = {"{python}": sys.executable, "{catalogue_folder}": str(path.resolve().parent)}
    return re.sub("|".join(map(re.escape, meanings)), lambda match: meanings[match[0]], part)


def _one_line(text: object) -> str:
    return " ".join(str(text).split())
