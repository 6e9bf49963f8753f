"""Tell steps where the files of crawls' runs are, on a machine with the folder for runs' files."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from pydantic import JsonValue

from crawler_lifecycle.clusters.adapters.regular_files import files_of
from crawler_lifecycle.flows.ports.steps import NO_READS, StepLedger, StepsBegun
from crawler_lifecycle.flows.rules.messages import AttemptRef, FlowRef

RECEIPT = {"run_id", "run_uid", "files"}  # fields of a crawl's and of a task's receipt


def with_files(ledger: StepLedger, folder: Path) -> StepLedger:
    """Return the ledger, whose receipts name the folders of their runs below this folder."""
    return cast(StepLedger, _LedgerWithFiles(ledger, folder))


class _LedgerWithFiles:
    """A ledger whose receipts name folders. Calls of further methods go to the wrapped ledger."""

    def __init__(self, ledger: StepLedger, folder: Path) -> None:
        self._ledger = ledger
        self._folder = folder

    def begin(
        self, flow: FlowRef, door: int, starts: Sequence[AttemptRef], token: str, host: str,
        code_version: str | None = None, reads: Mapping[int, int] = NO_READS, *, in_process: bool = False,
    ) -> StepsBegun:  # fmt: skip
        begun = self._ledger.begin(flow, door, starts, token, host, code_version, reads, in_process=in_process)
        mine = [replace(step, arguments=with_folder(step.arguments, self._folder)) for step in begun.mine]
        return replace(begun, mine=mine)

    def results(
        self, flow_uid: str, numbers: Collection[int], reads: Mapping[int, int] = NO_READS
    ) -> Mapping[int, JsonValue]:
        results = self._ledger.results(flow_uid, numbers, reads)
        return {number: with_folder(value, self._folder) for number, value in results.items()}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)


def with_folder(value: JsonValue, folder: Path) -> JsonValue:
    """Return a receipt with the folder of its run's files, if this machine has the folder; else the value."""
    if not isinstance(value, dict) or not value.keys() >= RECEIPT or value["files"] is not None:
        return value
    files = files_of(folder, str(value["run_uid"]))
    return value if files is None else {**value, "files": str(files)}


def with_folders(value: JsonValue, folder: Path) -> JsonValue:
    """Return results, nested for sub-workflows, with the folders of their receipts."""
    if not isinstance(value, dict):
        return value
    if value.keys() >= RECEIPT:
        return with_folder(value, folder)
    return {name: with_folders(inner, folder) for name, inner in value.items()}
