"""Leaving out: named jobs without a change by a request, with the reasons."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable

from crawler_lifecycle.flows.model.answers import LeftOut
from crawler_lifecycle.flows.rules.rows import Ledger
from crawler_lifecycle.flows.rules.selecting import numbers_by_path
from crawler_lifecycle.model.flow_states import MemberState

NOT_ENDED = "a retry is for jobs that have failed, were cancelled, or wait for a retry"
COMPLETED = "a retry with `completed` (--completed) takes completed jobs, too"


def left_out(
    ledger: Ledger, paths: Iterable[str] | None, changed: Collection[int], advice: Callable[[MemberState], str | None]
) -> tuple[LeftOut, ...]:
    """Return the paths without a changed member. `advice`: help for a member in the state, or None."""
    named = {} if paths is None else numbers_by_path(ledger, paths)
    unchanged = {path: numbers for path, numbers in named.items() if numbers.isdisjoint(changed)}
    return tuple(
        LeftOut(job=path, reason=_reason(Counter(ledger.members[number].state for number in numbers), advice))
        for path, numbers in unchanged.items()
    )


def advice_after_retry(state: MemberState) -> str:
    return COMPLETED if state is MemberState.COMPLETED else NOT_ENDED


def advice_after_cancel(_: MemberState) -> None:
    """Return no advice: the state says enough."""


def _reason(states: Counter[MemberState], advice: Callable[[MemberState], str | None]) -> str:
    """Return for example `is completed already: ...`, or for a sub-workflow `its jobs are 2 completed: ...`."""
    if not states:
        return "has no jobs"
    ordered = [state for state in MemberState if states[state]]
    already = " already" if all(state.is_final for state in ordered) else ""
    if states.total() == 1:
        present = f"is {ordered[0]}{already}"
    else:
        present = f"has {', '.join(f'{states[state]} {state}' for state in ordered)} jobs{already}"
    advices = dict.fromkeys(filter(None, map(advice, ordered)))
    return ": ".join([present, "; ".join(advices)]) if advices else present
