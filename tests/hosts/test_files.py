"""Receipts name the folder with the run's files, if the machine has the folder."""

from pathlib import Path
from typing import Any, cast

from pydantic import JsonValue

from crawler_lifecycle.flows.authors.files import with_files, with_folders
from crawler_lifecycle.flows.ports.steps import BegunStep, StepLedger, StepsBegun
from crawler_lifecycle.flows.rules.messages import AttemptRef, FlowRef

UID = "0f6e7a52-3a3c-4a35-8d2f-4b1f64c1f0c9"
RECEIPT = {"run_id": 7, "run_uid": UID, "files": None}


class Ledger:
    """The two methods that return receipts, and another one."""

    def begin(self, *_: Any, **__: Any) -> StepsBegun:
        start = AttemptRef(number=0, generation=1, attempt=1)
        step: Any = {"start": start, "path": "a", "definition": None, "arguments": RECEIPT, "flow_id": "f"}
        return StepsBegun(mine=[BegunStep(**step, flow_name=None, flow_uid="u", is_grafter=False, deaths=0)])

    def results(self, flow_uid: str, numbers: Any, reads: Any) -> Any:
        return {0: RECEIPT, 1: {**RECEIPT, "files": "/kept"}, 2: {"run_uid": UID}, 3: [RECEIPT], 4: None}

    def source(self, flow_uid: str, path: str) -> int:
        return 3


def ledger_in(folder: Path) -> StepLedger:
    return with_files(cast(StepLedger, Ledger()), folder)


def test_receipts_name_the_folder_of_their_run(tmp_path: Path) -> None:
    (tmp_path / UID).mkdir()
    claims = ledger_in(tmp_path)
    results = claims.results("u", [0, 1, 2, 3, 4])
    assert results[0] == {**RECEIPT, "files": str(tmp_path / UID)}
    assert [results[number] for number in (1, 2, 3, 4)] == [
        {**RECEIPT, "files": "/kept"},
        {"run_uid": UID},
        [RECEIPT],
        None,
    ]
    begun = claims.begin(FlowRef(uid="u", epoch=1), 1, [], "token", "host")
    assert begun.mine[0].arguments == {**RECEIPT, "files": str(tmp_path / UID)}
    assert claims.source("u", "a") == 3


def test_a_machine_without_the_folder_tells_none(tmp_path: Path) -> None:
    assert ledger_in(tmp_path).results("u", [0])[0] == RECEIPT


def test_shown_results_name_the_folders_of_their_runs(tmp_path: Path) -> None:
    (tmp_path / UID).mkdir()
    receipt = cast(JsonValue, RECEIPT)
    shown = with_folders({"shop": receipt, "sites": {"de": receipt, "number": 1}}, tmp_path)
    receipt_here = {**RECEIPT, "files": str(tmp_path / UID)}
    assert shown == {"shop": receipt_here, "sites": {"de": receipt_here, "number": 1}}
