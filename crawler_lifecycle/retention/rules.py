"""Rules for the removal: the hold on an old run, and the size for a transaction."""

from collections.abc import Collection, Iterator, Sequence

from crawler_lifecycle.retention.model import KeepReason, OldRun

RUNS_AT_ONCE = 50  # in a transaction: some ten milliseconds
TASKS_AT_ONCE = 500


def hold_of(run: OldRun, with_jobs: Collection[str]) -> KeepReason | None:
    """Return why the run stays; None: the run leaves. `with_jobs`: run_uids with a job in the cluster."""
    holds = {
        KeepReason.FOREIGN: not run.is_own,
        KeepReason.FLOW: run.is_in_flow,
        KeepReason.EXPORT: run.owes_export,
        KeepReason.FINDING: run.has_finding,
        KeepReason.JOB: run.run_uid in with_jobs,
    }
    return next((hold for hold, holds_now in holds.items() if holds_now), None)


def batches(runs: Sequence[OldRun]) -> Iterator[list[OldRun]]:
    """Yield the runs in order, as many as a short transaction can remove, and at least a single run."""
    batch, tasks = list[OldRun](), 0
    for run in runs:
        if batch and (len(batch) == RUNS_AT_ONCE or tasks + run.tasks > TASKS_AT_ONCE):
            yield batch
            batch, tasks = [], 0
        batch.append(run)
        tasks += run.tasks
    if batch:
        yield batch
