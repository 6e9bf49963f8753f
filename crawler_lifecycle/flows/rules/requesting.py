"""Rules for the request for a crawl's run, and for arguments after a retry, with their changes in words."""

import json
from collections.abc import Collection, Mapping, Sequence
from itertools import islice

from pydantic import JsonValue

from crawler_lifecycle.base.limits import LARGEST_ARGUMENTS
from crawler_lifecycle.errors import BadInput
from crawler_lifecycle.flows.model.definition import (
    ApprovalWork,
    CallForm,
    CrawlWork,
    ManagerWork,
    MemberDefinition,
    StepWork,
    Work,
)
from crawler_lifecycle.flows.model.records import TaskReceipt
from crawler_lifecycle.flows.model.values import TAG, check_encoded
from crawler_lifecycle.flows.rules.ends import rule_before
from crawler_lifecycle.flows.rules.rows import MemberRow, Target, targets_of
from crawler_lifecycle.model.flow_retrying import RetryRule
from crawler_lifecycle.model.requests import (
    LARGEST_MEMORY_FACTOR,
    MOST_PRIORITY,
    FlowLink,
    RunRequest,
    refusals_as_bad_input,
)

MOST_NAMES = 10  # arguments in a refusal
LONGEST_VALUE = 40  # characters
MOST_CHANGES = 10  # arguments for a job
MOST_JOBS = 10
UNSET = "unset"


def check_crawl(definition: MemberDefinition) -> None:
    """Raise BadInput for a crawl whose run would be refused."""
    if isinstance(definition.work, CrawlWork):
        try:
            run_request(definition.work, None, None)
        except BadInput as error:
            raise BadInput(f"{definition.path!r}, {error.field}", error.expected) from error


def run_request(
    work: CrawlWork,
    arguments: JsonValue,
    link: FlowLink | None,
    memory_factor: float | None = None,
    *,
    priority: int = 0,
) -> RunRequest:
    """Return the request for a run. `arguments` and `memory_factor`: replace the definition's unless None.

    `priority`: the member's, for a crawl without its own. With 0, the crawler's priority counts.
    """
    fields = work.request.model_dump(exclude_none=True)
    if priority:
        fields.setdefault("priority", max(-MOST_PRIORITY, min(priority, MOST_PRIORITY)))
    if memory_factor is not None:
        fields["memory_factor"] = memory_factor
    if arguments is not None:
        fields["arguments"] = arguments
    fields["labels"] = work.labels
    with refusals_as_bad_input():
        return RunRequest.model_validate({**fields, "flow": link})


def arguments_of(work: Work) -> JsonValue:
    """Return the definition's arguments."""
    if isinstance(work, ApprovalWork):
        return None
    if isinstance(work, ManagerWork):
        return [*work.arguments]
    return {**work.request.arguments} if isinstance(work, CrawlWork) else work.arguments


def task_of(row: MemberRow) -> Target | None:
    """Return the crawl's task with the success that starts the member; None without such a task."""
    targets = list(targets_of(row.needs))
    return targets[0] if len(targets) == 1 and targets[0].task is not None else None


def task_item(arguments: JsonValue, run_id: int, run_uid: str) -> JsonValue:
    """Return the item for a step on a crawl's task. `arguments`: the step's, such as the crawl's path."""
    known = arguments if isinstance(arguments, dict) else {}
    receipt = TaskReceipt.model_validate({**known, "run_id": run_id, "run_uid": run_uid})
    return {**known, **receipt.model_dump(mode="json")}


def changed_arguments(
    path: str, work: Work, former: JsonValue, changes: Mapping[str, JsonValue], removed: Collection[str] = ()
) -> JsonValue:
    """Return the arguments with the changes. `former`: None for the definition's arguments.

    Raise BadInput if the previous arguments lack a removed name.
    """
    arguments = arguments_of(work) if former is None else former
    if isinstance(work, StepWork) and work.form is CallForm.CONTEXT:
        raise BadInput("arguments", f"{path!r} has a function that takes the context, and no arguments")
    if arguments is None:
        arguments = {}
    if not isinstance(arguments, dict) or TAG in arguments:
        raise BadInput("arguments", f"{path!r} takes no arguments by name")
    for name in removed:
        if name not in arguments:
            raise BadInput("removed_arguments", f"{path!r} has no argument {name!r}{_names_in_words(arguments)}")
    changed: JsonValue = {name: value for name, value in {**arguments, **changes}.items() if name not in removed}
    check_encoded(f"arguments of {path!r}", changed, LARGEST_ARGUMENTS)
    if isinstance(work, CrawlWork):
        run_request(work, changed, None)
    return changed


def _names_in_words(arguments: Mapping[str, JsonValue]) -> str:
    return f"; it has {', '.join(map(repr, islice(arguments, MOST_NAMES)))}" if arguments else ""


def arguments_of_attempt(row: MemberRow, work: Work, former: JsonValue) -> JsonValue:
    """Return the next attempt's arguments; None for the definition's arguments. A retry rule may change them.

    `row`: the member before the attempt. `former`: the member's previous arguments, from a retry or an earlier rule, or
    None.
    """
    rule = rule_before(row)
    return changed_arguments(row.path, work, former, rule.arguments) if rule is not None and rule.arguments else former


def memory_after(rule: RetryRule | None, work: Work, former: float | None) -> float | None:
    """Return the next attempt's memory factor; None for the definition's factor.

    `former`: the last attempt's factor, or None for the definition's factor.
    """
    if rule is None or rule.memory_factor == 1.0 or not isinstance(work, CrawlWork):
        return former
    return min(LARGEST_MEMORY_FACTOR, (former or work.request.memory_factor) * rule.memory_factor)


def changes_in_words(
    work: Work, former: JsonValue, changes: Mapping[str, JsonValue], removed: Collection[str] = ()
) -> str:
    """Return for example `depth 2 -> 3, lang unset -> "de"`. `former`: None for the definition's arguments."""
    known = arguments_of(work) if former is None else former
    old = known if isinstance(known, dict) else {}
    changed = [name for name, value in changes.items() if name not in old or old[name] != value]
    words = [f"{_shortened(name)} {_value(old, name)} -> {_value(changes, name)}" for name in changed]
    words += [f"{_shortened(name)} {_value(old, name)} -> {UNSET}" for name in removed]
    return _listed(words, MOST_CHANGES, ", ") or "no other value"


def changes_of_jobs(by_path: Mapping[str, str]) -> str:
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
