"""Crawl managers' items in the commands for flows: by number, in lists, additions, retries, cancels."""

import json
import uuid
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from crawler_lifecycle.base.words import counted
from crawler_lifecycle.console.common import print_answer, user_name
from crawler_lifecycle.errors import BadInput, NotFound
from crawler_lifecycle.flows.cli.options import on_record, open_flows, print_effect, refuse_left_out

if TYPE_CHECKING:
    from crawler_lifecycle.flows.client import ApiFlows
    from crawler_lifecycle.flows.model.manager_records import ItemRecord
    from crawler_lifecycle.flows.model.requests import ItemFilter

PAGE = 1000  # items in a query
DELAYED = "delayed"  # state in lists; a delayed item is stored as waiting
CONTINUES = "the manager continues with all that it has not done"


def jobs_are_items(flows: "ApiFlows", flow: str, manager: str | None = None) -> bool:
    """Return whether JOBS of the flow mean items: its only job is a crawl manager, or the manager is named."""
    if manager is not None:
        return True
    overview = flows.show(flow)
    return overview["status"].total == 1 and bool(overview["managers"])


def is_decimal(word: str) -> bool:
    return word.isascii() and word.isdecimal()


def numbers(words: Sequence[str]) -> tuple[int, ...] | None:
    """Return items' numbers; None without words."""
    for word in words:
        if not (is_decimal(word) and 0 < int(word) < 1 << 31):
            raise BadInput("jobs", f"{word!r} is no number of an item; `crawlctl flow jobs` has the numbers")
    return tuple(map(int, words)) or None


class ListedItems:
    """A manager's items, by the options for `flow jobs`."""

    def __init__(self, flows: "ApiFlows", flow: str, chosen: "ItemFilter", states: Sequence[str] = ()) -> None:
        from crawler_lifecycle.model.manager_items import ItemState

        recorded = {ItemState.WAITING if state == DELAYED else ItemState(state) for state in states}
        self._flows, self._flow = flows, flow
        self._chosen = chosen.model_copy(update={"states": tuple(sorted(recorded))})
        self._is_without_waiting = DELAYED in states and ItemState.WAITING not in states

    def items(self, limit: int, after: int) -> "Iterator[ItemRecord]":
        """Return the items up to the limit."""
        size = PAGE if self._is_without_waiting else min(limit, PAGE)
        items = self._flows.items(self._flow, self._chosen, after=after, page_size=size)
        return islice((item for item in items if self._is_chosen(item)), limit)

    def _is_chosen(self, item: "ItemRecord") -> bool:
        """Return whether the item is in the chosen states. A delayed item is stored as waiting."""
        return item.is_delayed or item.state != "waiting" or not self._is_without_waiting


def refuse_unknown(flows: "ApiFlows", flow: str, words: Sequence[str], manager: str | None) -> None:
    """Raise NotFound for a number without an item."""
    from crawler_lifecycle.flows.model.requests import ItemFilter

    chosen = numbers(words) or ()
    if not chosen:
        return
    known = {item.number for item in flows.items(flow, ItemFilter(manager=manager, numbers=chosen))}
    missing = next((number for number in chosen if number not in known), None)
    if missing is not None:
        raise NotFound(f"flow {flow!r} has no item {missing}")


def print_items(listed: ListedItems, *, limit: int | None, after: int, as_csv: bool, as_json: bool) -> None:
    """Print the items as a table, as JSON or as CSV. Without a limit, a table has at most PAGE items."""
    from crawler_lifecycle.flows.cli.manager_lines import csv_text, item_lines

    if as_csv:
        click.echo(csv_text([], header=True), nl=False)
        for item in listed.items(limit or 1 << 31, after):
            click.echo(csv_text([item], header=False), nl=False)
        return
    items = list(listed.items(limit or PAGE, after))
    print_answer(items, lambda items: item_lines(items, datetime.now(UTC)), as_json=as_json)
    if not as_json and len(items) == (limit or PAGE):
        click.echo(f"The next page: --after {items[-1].number}")


def print_attempts(flows: "ApiFlows", flow: str, words: Sequence[str], manager: str | None, *, as_json: bool) -> None:
    """Print the attempts of items."""
    from crawler_lifecycle.flows.cli.manager_lines import item_attempt_lines

    chosen = numbers(words) or ()
    attempts = [attempt for number in chosen for attempt in flows.item_attempts(flow, number, manager)]
    print_answer(attempts, lambda attempts: item_attempt_lines(attempts, datetime.now(UTC)), as_json=as_json)


def add_items(
    flow: str,
    texts: Sequence[str],
    file: Path | None,
    spider: str | None,
    key: str | None,
    manager: str | None,
    actor: str | None,
    state: Path | None,
    *,
    as_json: bool,
) -> None:
    """Add items to the flow's crawl manager, once under a key.

    Items without a spider get `spider`, by default the crawler of the manager's first item.
    """
    from crawler_lifecycle.flows.model.requests import ItemFilter

    flows = open_flows(state)
    items = [*(_object("--item", text) for text in texts), *(() if file is None else _objects(file))]
    if spider is None:
        first = next(flows.items(flow, ItemFilter(manager=manager), page_size=1), None)
        spider = None if first is None else first.crawler
    if spider is not None:
        items = [{"spider": spider, **item} for item in items]
    answer = flows.add_items(flow, key or str(uuid.uuid4()), items, manager=manager, actor=actor or user_name())
    effect = f"{counted(answer.count, 'item')} added" if answer.changed else f"nothing added, the key {key!r} was used"
    print_effect(answer, effect, as_json=as_json)


def _objects(file: Path) -> Iterator[Any]:
    """Yield the JSON objects in a file: an object per line, or a JSON list."""
    try:
        text = file.read_text()
    except (OSError, ValueError) as error:
        raise BadInput("--items", f"{file} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    if text.lstrip().startswith("["):
        try:
            yield from json.loads(text)
        except ValueError as error:
            raise BadInput("--items", f"{file} is no JSON: {error}") from error
        return
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            yield _object(f"--items {file}, line {number}", line)


def _object(option: str, text: str) -> Any:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise BadInput(option, f"is no JSON: {error}") from error
    if not isinstance(value, dict):
        raise BadInput(option, "expected a JSON object with parameters")
    return value


def retry_items(
    flow: str,
    words: Sequence[str],
    arguments: Sequence[tuple[str, str]],
    spider: str | None,
    manager: str | None,
    actor: str | None,
    state: Path | None,
    *,
    as_json: bool,
) -> None:
    from crawler_lifecycle.flows.model.requests import RetryItems
    from crawler_lifecycle.model.requests import refusals_as_bad_input

    with refusals_as_bad_input():
        request = RetryItems(
            numbers=numbers(words),
            arguments=dict(arguments) or None,
            spider=spider,
            manager=manager,
            **on_record(actor),
        )
    flows = open_flows(state)
    answer = flows.change(flow, request)
    effect = f"{counted(answer.count, 'item')} retried" + _then(flows, flow, is_reopened=answer.reopened)
    print_effect(answer, effect, as_json=as_json)
    refuse_left_out(answer, "not retried", as_json=as_json)


def _then(flows: "ApiFlows", flow: str, *, is_reopened: bool) -> str:
    """Return what an ended manager does after a retry."""
    if not is_reopened:
        return ""
    is_paused = flows.show(flow)["status"].state == "paused"
    return "; " + (f"{CONTINUES} after `crawlctl flow resume {flow}`: the flow is paused" if is_paused else CONTINUES)


def cancel_items(
    flow: str, words: Sequence[str], manager: str | None, actor: str | None, state: Path | None, *, as_json: bool
) -> None:
    from crawler_lifecycle.flows.model.requests import CancelItems
    from crawler_lifecycle.model.requests import refusals_as_bad_input

    with refusals_as_bad_input():
        request = CancelItems(numbers=numbers(words), manager=manager, **on_record(actor))
    answer = open_flows(state).change(flow, request)
    print_effect(answer, f"{counted(answer.count, 'item')} cancelled, crawls under way continue", as_json=as_json)
    refuse_left_out(answer, "not cancelled", as_json=as_json)
