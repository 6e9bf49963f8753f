import asyncio
from collections.abc import Iterable, Iterator

import pytest

from crawler_lifecycle.model.supervision import Nudge
from crawler_lifecycle.runs.processes import watcher as watching
from crawler_lifecycle.runs.processes.watcher import Watcher

pytestmark = pytest.mark.regression(
    "A nudge repeated at a watcher's start was repeated again after a search in which its run had not changed"
)

WAITING, OTHER = (Nudge(number, f"run-{number}", f"workflow-{number}", 1) for number in (1, 2))


class NoMoreChanges(Exception):
    """The play is over."""


class Unanswered:
    """Claims of two runs that never answer."""

    def unanswered_nudges(self) -> list[Nudge]:
        return [WAITING, OTHER]

    def claim_nudges(self, run_uids: Iterable[str]) -> list[Nudge]:
        return []

    def open_among(self, run_uids: Iterable[str]) -> set[str]:
        return set(run_uids)


class Changing:
    """A cluster in which these runs change, one after the other."""

    def __init__(self, *runs: str) -> None:
        self.runs = runs

    def changes(self) -> Iterator[set[str]]:
        yield set()
        for run in self.runs:
            yield {run}
        raise NoMoreChanges


async def test_a_nudge_is_repeated_once_whatever_changes_between(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "REPEAT_SECONDS", 0)
    sent: list[Nudge] = []

    async def send(nudge: Nudge) -> None:
        sent.append(nudge)

    watcher = Watcher(Unanswered(), Changing(OTHER.run_uid, WAITING.run_uid), send)  # type: ignore[arg-type]
    with pytest.raises(NoMoreChanges):
        await asyncio.wait_for(watcher.run(), 10)
    assert sent == [WAITING, OTHER]
