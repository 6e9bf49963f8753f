"""Does the comparison at the end of a soak see what is wrong?"""

import io
import json
import zipfile
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from crawler_lifecycle.clusters.local.records import EndRecord
from crawler_lifecycle.model.naming import event_id
from crawler_lifecycle.model.records import ExportRecord, FormerAttempt, LogRecord, RunDetails
from crawler_lifecycle.model.requests import KeptRequest
from crawler_lifecycle.model.states import ExportState, Intent, RunStatus, TaskStatus
from tests.chaos.comparison import Told, compared
from tests.kit.data.shown import NOW, a_run, an_export
from tests.process.crawls import Job

UID = "8a0d2b52-6f0e-4f6c-9d8e-0d1c7c1f6b1e"
FILES = 3
Change = Callable[[Told], Told]


def end(code: int | None, *, stop_asked: bool = False, left_over: int = 0) -> EndRecord:
    reason = f"exit_{code}" if code else None
    return EndRecord("uid", "i", 1.0, code, reason, None, 0.5, stop_asked=stop_asked, left_over=left_over)


def a_truth() -> Told:
    """Of a run whose second task failed, told as it was."""
    details = a_run(
        RunStatus.FAILED,
        TaskStatus.SUCCEEDED,
        TaskStatus.FAILED,
        exports=[_export(kind) for kind in ("run_ended", "files_ready")],
        run_uid=UID,
        reason="tasks_failed",
        end_number=1,
        request=KeptRequest(crawler="shop", tasks=2),
    )
    tasks = [task.model_copy(update={"exit_code": code}) for task, code in zip(details.tasks, (0, 3), strict=True)]
    log = [LogRecord(at=NOW, event="ended", message="")]
    return Told(
        details=details.model_copy(update={"tasks": tasks, "log": log}),
        jobs={(0, 1): Job(1, (0,)), (1, 1): Job(1, (3,))},
        ends={(0, 1): end(0), (1, 1): end(3)},
        events=[_event("run_ended", None), _event("files_ready", FILES)],
        notices=[_notice("started"), _notice("progress"), _notice("finished"), _notice("finished")],
    )


def _export(kind: str, state: ExportState = ExportState.DONE) -> ExportRecord:
    return an_export(state).model_copy(update={"event_id": event_id(UID, kind), "kind": kind})


def _event(kind: str, files: int | None, **more: object) -> dict[str, Any]:
    told = {"event_id": event_id(UID, kind), "kind": kind, "end": 1, "status": "FAILED", "tasks": {}, "files": files}
    return {**told, "supporting_files": "s3://archives/1.zip", **more}


def _notice(kind: str, number: int = 1) -> dict[str, Any]:
    return {"notice_id": event_id(UID, kind, number), "kind": kind}


def an_archive(where: str, files: int = FILES) -> zipfile.ZipFile:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("manifest.json", json.dumps({"count": files}))
    return zipfile.ZipFile(content)


def run(**changes: object) -> Change:
    return lambda seen: replace(seen, details=_with(seen.details, **changes))


def _with(details: RunDetails, **changes: object) -> RunDetails:
    return details.model_copy(update={"run": details.run.model_copy(update=changes)})


def task(number: int, **changes: object) -> Change:
    def change(seen: Told) -> Told:
        tasks = [each.model_copy(update=changes if each.task == number else {}) for each in seen.details.tasks]
        return replace(seen, details=seen.details.model_copy(update={"tasks": tasks}))

    return change


def told(**changes: object) -> Change:
    return lambda seen: replace(seen, **changes)  # type: ignore[arg-type]


def retried(
    *,
    attempt: int = 2,
    failures: int = 1,
    status: TaskStatus = TaskStatus.LOST,
    first: EndRecord | None = None,
    beside: int = 0,
) -> Change:
    """The first task lost its job, and completed at its second attempt."""
    nothing = {name: None for name, field in FormerAttempt.model_fields.items() if field.is_required()}
    former = FormerAttempt.model_validate(nothing | {"attempt": 1, "status": status, "events": []})
    changes = {"attempt": attempt, "infrastructure_failures": failures, "former_attempts": [former]}
    jobs = {(0, 1): Job(1, ()), (0, 2): Job(1, (0,), beside), (1, 1): Job(1, (3,))}
    ends = {(0, 1): first, (0, 2): end(0), (1, 1): end(3)}
    return lambda seen: replace(task(0, **changes)(seen), jobs=jobs, ends=ends)


def test_nothing_is_wrong_with_the_truth() -> None:
    assert compared(a_truth(), an_archive) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (task(0, status=TaskStatus.RUNNING), "task 0 is RUNNING"),
        (task(1, status=TaskStatus.LOST), "by its own record FAILED"),
        (task(1, status=TaskStatus.STOPPED), "by its own record FAILED"),
        (task(1, exit_code=4), "exit code 4"),
        (told(jobs={(0, 1): Job(2, (0, 0)), (1, 1): Job(1, (3,))}), "has run 2 times"),
        (told(jobs={(0, 1): Job(1, (0,)), (1, 1): Job(1, (4,))}), "the cluster has 3"),
        (told(jobs={(0, 1): Job(1, (0,))}), "the cluster has 3"),
        (told(ends={(0, 1): end(0)}), "of which the cluster has no record"),
        (told(ends={(0, 1): end(0), (1, 1): end(3), (1, 2): end(0)}), "has a job of attempt 2"),
        (told(ends={(0, 1): end(0), (1, 1): None}), "by its own record LOST"),
        (told(ends={(0, 1): end(0), (1, 1): end(3, left_over=1)}), "has left 1 processes"),
        (run(status=RunStatus.COMPLETED), "it is COMPLETED"),
        (run(reason="stopped"), "its reason is stopped"),
        (run(request=KeptRequest(crawler="shop", tasks=3)), "3 were asked for"),
        (run(end_number=2), "it has ended 2 times"),
        (told(events=[_event("run_ended", None)]), "files_ready of end 1 never came out"),
        (told(events=[_event("run_ended", None), _event("files_ready", FILES + 1)]), "or another one"),
        (
            told(events=[_event("run_ended", None), _event("run_ended", None, end=2), _event("files_ready", 0)]),
            "in different ways",
        ),
        (told(events=[_event("run_ended", None), _event("files_ready", 0), _event("odd", 0)]), "exports of no end"),
        (told(notices=[_notice("started")]), "its end was told as"),
        (told(notices=[_notice("stopped")]), "was not told as `finished`"),
        (told(notices=[_notice("finished"), _notice("finished", 2)]), "its end was told as"),
        (told(notices=[_notice("started"), _notice("started", 2), _notice("finished")]), "its start was told 2 times"),
        (retried(status=TaskStatus.FAILED), "task 0, attempt 1, is FAILED"),
        (retried(first=end(3)), "task 0, attempt 1, is LOST"),
        (retried(attempt=3), "is at attempt 3 after 1 retries"),
        (retried(failures=2), "is at attempt 2 after 2 retries"),
        (retried(beside=1), "attempt 2, began while a former attempt lived"),
    ],
)
def test_what_is_wrong_is_told(change: Change, said: str) -> None:
    assert said in "; ".join(compared(change(a_truth()), an_archive))


def test_an_export_that_is_not_there_is_told() -> None:
    seen = a_truth()
    exports = [_export("run_ended"), _export("files_ready", ExportState.FAILED)]
    failed = replace(seen, details=seen.details.model_copy(update={"exports": exports}))
    assert any("files_ready of end 1 is failed" in each for each in compared(failed, an_archive))
    assert any("nothing is at s3://archives/1.zip" in each for each in compared(seen, lambda where: None))


def test_a_stopped_task_and_one_whose_runner_died_are_no_divergence() -> None:
    stopped = run(intent=Intent.STOP, reason="stopped")(task(1, status=TaskStatus.STOPPED)(a_truth()))
    stopped = replace(stopped, ends={(0, 1): end(0), (1, 1): end(3, stop_asked=True)}, notices=[_notice("stopped")])
    assert compared(stopped, an_archive) == []
    assert compared(retried()(a_truth()), an_archive) == []
    lost = replace(task(1, status=TaskStatus.LOST, exit_code=None)(a_truth()), ends={(0, 1): end(0), (1, 1): None})
    assert compared(lost, an_archive) == []
