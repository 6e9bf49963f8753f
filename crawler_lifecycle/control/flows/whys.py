"""Explanations for members, continued from crawls to their runs."""

from collections.abc import Iterator, Mapping

from crawler_lifecycle.contract.flows.records import Why
from crawler_lifecycle.contract.managers.records import ItemRecord
from crawler_lifecycle.contract.records import RunSummary
from crawler_lifecycle.ports import KeptFlow, Records


def with_runs(explanation: Why, flow: KeptFlow, records: Records) -> Why:
    """Return the explanation, with the runs behind the crawls and the cause of each run's wait or end."""
    numbers = flow.ledger.paths_of_members()
    run_ids = {path: flow.attempts[numbers[path]] for path in _ends(explanation) if numbers[path] in flow.attempts}
    runs = {run.run_id: run for run in records.summaries(sorted(set(run_ids.values())))} if run_ids else {}
    return _continued(explanation, {path: runs[run_id] for path, run_id in run_ids.items() if run_id in runs})


def with_run_of_item(explanation: Why, item: ItemRecord, records: Records) -> Why:
    """Return the explanation for a manager's item, continued with the run of its last attempt."""
    runs = records.summaries([item.run_id]) if item.run_id is not None else []
    return explanation.model_copy(update={"because": tuple(map(_of_run, runs))})


def _ends(explanation: Why) -> Iterator[str]:
    """Yield the paths at which the explanation ends."""
    if not explanation.because:
        yield explanation.path
    for inner in explanation.because:
        yield from _ends(inner)


def _continued(explanation: Why, runs: Mapping[str, RunSummary]) -> Why:
    if explanation.because:
        because = tuple(_continued(inner, runs) for inner in explanation.because)
    else:
        run = runs.get(explanation.path)
        because = () if run is None else (_of_run(run),)
    return explanation.model_copy(update={"because": because})


def _of_run(run: RunSummary) -> Why:
    if run.status.is_over:
        cause = run.explanation.text if run.explanation else run.reason
    else:
        cause = run.waiting_cause
        if run.waiting_message:
            cause = f"{cause}: {run.waiting_message}"
    since = run.finished_at if run.status.is_over else run.waiting_since
    return Why(path=f"run {run.run_id}", state=run.status, cause=cause, since=since)
