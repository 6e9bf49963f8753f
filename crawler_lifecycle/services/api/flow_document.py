"""Examples for the endpoints of flows in the API's OpenAPI document."""

from fastapi import Body

from crawler_lifecycle.services.api.document import AT, LATER, UID, example, stream_example

NO_FLOW = "There is no such flow."
NO_FLOW_OR_JOB = "There is no such flow or job."
FLOW_ID = "nightly-2026-11-22"
_COUNTS = {"executing": 1, "completed": 5}
SUMMARY = {
    "uid": UID, "id": FLOW_ID, "name": "nightly", "family": None, "state": "executing", "intent": "run", "total": 6,
    "counts": _COUNTS, "created_at": AT, "updated_at": AT, "started_at": LATER, "stopped_at": None,
    "created_by": "shop-backend",
}  # fmt: skip
STATUS = {
    "id": FLOW_ID, "name": "nightly", "state": "executing", "ok": False, "total": 6, "counts": _COUNTS,
    "started_at": LATER, "stopped_at": None, "elapsed": "PT42S",
    "subs": {"sites": {"id": FLOW_ID, "name": "sites", "state": "completed", "ok": True, "total": 3,
                       "counts": {"completed": 3}, "started_at": LATER, "stopped_at": LATER, "elapsed": "PT12S",
                       "subs": {}}},
}  # fmt: skip
JOB = {
    "flow_id": FLOW_ID, "path": "sites/de", "number": 1, "kind": "crawl", "title": "bookshop", "state": "completed",
    "cause": None, "reason": None, "outcome": "finished", "deps": [], "args": {"site": "de"}, "queue": None,
    "priority": 0, "max_attempts": 1, "generation": 1, "attempt": 1, "since": LATER, "due": None, "started_at": LATER,
    "began_at": LATER, "ended_at": LATER, "run_id": 42,
}  # fmt: skip
_LINE = {"at": AT, "event": "pushed", "message": "added or changed 6 jobs", "actor": "shop-backend", "door": "api",
         "number": 1}  # fmt: skip
_EFFECT = {"flow_id": FLOW_ID, "flow_uid": UID, "count": 1, "created": False, "changed": True, "left_out": [],
           "nudged": True, "problem": None}  # fmt: skip
_ATTEMPT = {
    "attempt": 1, "generation": 1, "created_at": AT, "ended_at": LATER, "kind": "failed", "outcome": "ValueError",
    "reason": "ValueError: no price", "error": "Traceback ...", "host": "worker-3", "code_version": "4be1c07a92d3",
    "deaths": 0, "run_id": None, "run_uid": None,
}  # fmt: skip


def _why(path: str, state: str, cause: str, *because: dict[str, object]) -> dict[str, object]:
    fields = {"path": path, "state": state, "cause": cause, "since": LATER, "until": None, "more": 0}
    return {**fields, "because": list(because)}


_CRAWL = _why("sites/fr", "executing", "executing", _why("run 43", "PROCESSING", "quota: exceeded quota: pods"))
FLOWS = example({"flows": [SUMMARY], "next": None})
FLOW = example({"flow": SUMMARY, "status": STATUS, "timeline": [_LINE]})
JOBS = example({"jobs": [JOB], "total": 6, "next": 2})
ATTEMPTS = example({"attempts": [_ATTEMPT]})
RESULTS = example({"results": {"sites": {"de": {"run_id": 42, "status": "COMPLETED"}}}, "context": {"date": "x"}})
WHY = example(_why("load", "suspended", "dependencies", _CRAWL))
GRAPH = example({"format": "mermaid", "graph": 'flowchart TD\n    load["load (load)"]'})
EFFECT = example(_EFFECT, 202, "The request is recorded.")
PUSHED = example(_EFFECT | {"created": True, "count": 6}, 201, "The flow is made.") | example(
    _EFFECT, 200, "The flow with this id is updated, or was pushed before."
)
_ITEM = {
    "number": 17, "state": "failed", "origin": "generator", "is_delayed": False, "is_filtered": False, "due": None,
    "crawler": "shop", "override": {"spider": "shop", "spider_args": {"shop": "shop-17"}},
    "tags": ["JOBSEQ=0000000017"], "labels": [], "generation": 1, "attempt": 2, "tries": 2,
    "problem": None, "outcome": "banned", "run_id": 59, "started_at": AT,
    "ended_at": LATER,
}  # fmt: skip
_MANAGER = {
    "path": "manager", "function": "my_project.managers:Shops", "arguments": ["--max-running-jobs", "8"],
    "counts": {"waiting": 960, "delayed": 0, "retrying": 0, "running": 8, "completed": 25, "failed": 7, "cancelled": 0,
               "refused": 0, "repeated": 3},
    "stats": {"items/total": 3120}, "tags": [], "incarnation": 1, "read": 1003, "is_exhausted": True,
    "close_reason": None, "problem": None, "held": {}, "next_attempt_at": None, "first_began_at": AT, "closed_at": None,
}  # fmt: skip
ITEMS = example({"items": [_ITEM], "next": 17})
ITEM_ATTEMPTS = example(
    {
        "attempts": [
            {
                "number": 17, "attempt": 1, "generation": 1, "crawler": "shop", "run_id": 42, "outcome": "banned",
                "is_failed": True, "started_at": AT, "ended_at": LATER, "changed": {},
            },
            {
                "number": 17, "attempt": 2, "generation": 2, "crawler": "shop", "run_id": 59, "outcome": None,
                "is_failed": None, "started_at": LATER, "ended_at": None, "changed": {"depth": "3"},
            },
        ]
    }
)  # fmt: skip
OUTPUT = example({"lines": [{"at": AT, "text": "INFO shops: 40 shops in the list"}]})
MANAGERS = example({"managers": [_MANAGER]})
STARTED_MANAGER = example(
    _EFFECT | {"flow_id": "november/shops", "created": True}, 201, "The manager is stored."
) | example(_EFFECT | {"flow_id": "november/shops"}, 200, "The manager was started before under this flow id.")
CHANGES = stream_example(
    'event: flow\ndata: {"status":{"id":"nightly-2026-11-22","state":"executing"},"is_over":false,"jobs":[]}\n\n'
)

_DEFINITION = {
    "id": FLOW_ID,
    "name": "nightly",
    "members": [
        {"path": "shop", "work": {"kind": "crawl", "request": {"crawler": "bookshop", "tasks": 4}}},
        {"path": "load", "work": {"kind": "step", "function": "my_project.flows:load"}, "needs": [{"on": ["shop"]}]},
    ],
}
PUSH_BODY = Body(
    openapi_examples={
        "a crawl and a step": {"summary": "Call a function when a crawl has ended", "value": _DEFINITION},
        "an approval": {
            "summary": "A crawl that a person has to approve",
            "value": {
                "id": "release-7",
                "members": [
                    {"path": "release", "work": {"kind": "approval", "note": "Crawl the new shop?"}},
                    {
                        "path": "shop",
                        "work": {"kind": "crawl", "request": {"crawler": "bookshop"}},
                        "needs": [{"on": ["release"]}],
                    },
                ],
            },
        },
    }
)
MANAGER_DEFINITION = example(
    {
        "id": "november/shops",
        "name": "shops",
        "family": "november",
        "members": [
            {
                "path": "shops",
                "work": {"kind": "step", "function": "my_project.managers:Shops", "form": "manager",
                         "arguments": ["--max-running-jobs", "8"]},
            }
        ],
    }
)  # fmt: skip
START_MANAGER_BODY = Body(
    openapi_examples={
        "once a month": {
            "summary": "A manager of the catalogue, once for November",
            "value": {"manager": "shops", "family": "november", "arguments": ["--max-running-jobs", "8"]},
        }
    }
)
ADD_ITEMS_BODY = Body(
    openapi_examples={
        "a shop": {
            "summary": "One shop more, as the generator would yield it",
            "value": {"key": "shop-41", "items": [{"spider": "shop", "shop": "shop-41", "tags": ["late"]}]},
        }
    }
)
RETRY_ITEMS_BODY = Body(
    openapi_examples={
        "failed": {"summary": "All failed items", "value": {}},
        "changed": {"summary": "Two items", "value": {"numbers": [17, 30], "arguments": {"depth": "3"}}},
    }
)
CANCEL_ITEMS_BODY = Body(openapi_examples={"named": {"summary": "Two items that wait", "value": {"numbers": [17, 30]}}})
APPEND_BODY = Body(
    openapi_examples={
        "a crawl": {
            "summary": "One crawl more",
            "value": {
                "key": "shops-2",
                "fragment": {
                    "members": [{"path": "shop-2", "work": {"kind": "crawl", "request": {"crawler": "bookshop"}}}]
                },
            },
        }
    }
)
CANCEL_BODY = Body(
    openapi_examples={
        "all": {"summary": "All open jobs", "value": {"reason": "wrong site", "actor": "ann"}},
        "named": {
            "summary": "A sub-workflow; its jobs under way may end",
            "value": {"jobs": ["sites"], "terminate": False},
        },
    }
)
RETRY_BODY = Body(
    openapi_examples={
        "failed": {"summary": "All that failed", "value": {}},
        "changed": {
            "summary": "One job with another argument",
            "value": {"jobs": ["sites/de"], "arguments": {"depth": "3"}},
        },
    }
)
APPROVE_BODY = Body(
    openapi_examples={"approve": {"summary": "Approve", "value": {"job": "release", "note": "looks good"}}}
)
HOLD_BODY = Body(
    openapi_examples={
        "pause": {"summary": "Start no further jobs", "value": {"hold": "pause"}},
        "resume": {"summary": "Continue", "value": {"hold": "run"}},
    }
)
STOP_FLOW_BODY = Body(
    openapi_examples={
        "stop": {"summary": "Stop", "value": {"reason": "wrong site"}},
        "drain": {"summary": "Start nothing new", "value": {"way": "drain"}},
    }
)
