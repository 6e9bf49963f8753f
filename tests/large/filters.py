"""Filters of lists, single and in pairs, that find many, few or no runs of the large database."""

from typing import Any

from crawler_lifecycle.model.records import OPEN_RUNS
from crawler_lifecycle.model.states import ListedStatus, RunStatus, Trigger
from tests.large.filling import LONG_AGO, NEVER

PAGE = 50  # of the API
FILTERS: dict[str, dict[str, Any]] = {
    "completed": {"status": (RunStatus.COMPLETED,)},
    "failed": {"listed": (ListedStatus.FAILED,)},
    "stopped": {"listed": (ListedStatus.STOPPED,)},
    "failed or stopped": {"listed": (ListedStatus.FAILED, ListedStatus.STOPPED)},
    "open": {"status": OPEN_RUNS.status},
    "scheduled": {"trigger": (Trigger.SCHEDULED,)},
    "manual": {"trigger": (Trigger.MANUAL,)},
    "busy crawler": {"crawler": "Shop-000"},
    "rare crawler": {"crawler": "news-199"},
    "no crawler": {"crawler": NEVER},
    "many names": {"search": "shop"},
    "a name": {"search": "P-003"},
    "no name": {"search": NEVER},
    "a RunID": {"search": "77"},
    "reason": {"reason": "main_job_failed"},
    "reason of long ago": {"reason": LONG_AGO},
    "rare reason": {"reason": "never_started"},
    "no reason": {"reason": NEVER},
    "outcome": {"outcome": "finished"},
    "rare outcome": {"outcome": "banned"},
    "no outcome": {"outcome": NEVER},
    "requester": {"requested_by": "user7"},
    "rare requester": {"requested_by": "rare@example.com"},
    "no requester": {"requested_by": NEVER},
    "label of many": {"label": "kind:batch"},
    "label": {"label": "site:7"},
    "no label": {"label": NEVER},
    "tag": {"tag": "night"},
    "rare tag": {"tag": "rare"},
    "no tag": {"tag": NEVER},
}
PAIRS = (
    *[("busy crawler", other) for other in ("failed", "completed", "reason", "reason of long ago", "outcome")],
    *[("scheduled", other) for other in ("failed", "stopped", "label of many", "requester", "reason", "outcome")],
    *[("label of many", other) for other in ("failed", "open", "tag", "no reason", "manual", "busy crawler")],
    *[("many names", other) for other in ("failed", "stopped", "reason of long ago", "label", "scheduled")],
    *[("requester", other) for other in ("completed", "reason", "manual", "label", "a name")],
    *[("tag", "failed"), ("label", "reason of long ago"), ("a name", "reason"), ("failed", "rare outcome")],
)
CASES: dict[tuple[str, ...], dict[str, Any]] = {
    **{(name,): chosen for name, chosen in FILTERS.items()},
    **{pair: FILTERS[pair[0]] | FILTERS[pair[1]] for pair in PAIRS},
}
