"""Examples and descriptions for the API's OpenAPI document; the endpoints' modules take their examples from here."""

from fastapi import Body

from crawler_lifecycle.services.problems import Responses, problems

DESCRIPTION = """
Start, watch and stop runs of crawlers, and start runs by the clock.

- **Tokens.** Every request carries `Authorization: Bearer ...`. A token has scopes: `read` for questions, `operate` for
  commands, `results` for the results of flows' jobs. `crawlctl token create` makes a token.
- **Once.** A start with an `Idempotency-Key` can be repeated: the same key is the same run.
- **Live.** `/v1/changes` sends the present state of every changed run, and every notice. Its events have ids: a client
  that reconnects with `Last-Event-ID` gets all events since that id, from any process of the API.
- **Times** are in UTC.
- **Parameters** that an endpoint does not have are refused with 422, and so are repeated ones, unless the
  parameter is a list of values.
- **States** of runs, tasks, flows, jobs and items are explained in the schemas `RunStatus`, `ListedStatus`,
  `TaskStatus`, `FlowState`, `MemberState` and `ItemState`.

Errors are `application/problem+json`. Programs decide by `status` and `code`; `detail` is for people. `errors` lists
every part of the request that is not acceptable, by `field`: a field of the body, a parameter, a header, or `body`.

| status | `code` | meaning |
| --- | --- | --- |
| 400 | `bad_input` | the body is not JSON in UTF-8 |
| 401 | `unauthenticated` | the token is missing, wrong or revoked |
| 403 | `forbidden` | the token lacks a scope |
| 404 | `not_found` | there is no such path, run, task, flow, job, crawler or schedule |
| 405 | `method_not_allowed` | the path has other methods; `Allow` lists them |
| 409, 412 | `refused` | the present state forbids the request: a key or name is taken, or a run is about to end |
| 409 | `over` | the run or flow has ended, so the request comes too late |
| 413 | `too_large` | the body is too large |
| 415 | `unsupported_media_type` | the body is not `application/json`, or is packed |
| 416 | `bad_input` | the archive does not have the requested range |
| 422 | `bad_input` | a parameter, a header or a field of the body is not acceptable |
| 422 | `failed` | the request can never succeed until a person changes something else; `detail` says what |
| 429 | `too_many_requests` | too many requests or streams with this token; `Retry-After` says when to try again |
| 500 | `failed` | a fault of the API |
| 503 | `not_ready` | a part such as the database does not answer; `Retry-After`, if present, says when to try again |
"""

# descriptions of error responses
NO_RUN = "There is no such run."
NO_SCHEDULE = "There is no such schedule."
NOT_ACCEPTABLE = "The request is not acceptable: `field` names the part."

# values in examples
UID = "5b0c9c6e-6f0e-4f57-9a51-0d4c2f6f3a11"
AT, LATER = "2026-11-20T09:00:00Z", "2026-11-20T09:00:07.250000Z"
WORKFLOW = "crawl-key-0f3c1d5a9b7e4c2d8a6f5e4d3c2b1a09"
EXECUTION = "019a9f5e-1f0a-7c3e-9b1d-2f4c6a8e0b12"
RUN_SUMMARY = {
    "run_id": 42, "run_uid": UID, "crawler": "bookshop", "trigger": "api", "requested_by": None, "cluster": "default",
    "status": "PROCESSING", "reason": None, "intent": "RUN", "tasks": {"RUNNING": 3, "SUCCEEDED": 1},
    "created_at": AT, "begun_at": AT, "started_at": LATER, "finished_at": None, "waiting_cause": None,
    "waiting_since": None, "waiting_message": None, "priority": 0, "admitted_at": AT, "held_by": None,
    "changed_at": LATER, "flow": None, "tags": [],
}  # fmt: skip
REQUEST = {"crawler": "bookshop", "arguments": {"site": "https://books.example"}, "tasks": 4}
RUN_RECORD = RUN_SUMMARY | {
    "installation": "0d4c7a52-3c55-4d8e-8a6f-1f0b4f6b7c10", "epoch": 1, "workflow_id": WORKFLOW,
    "first_execution_run_id": EXECUTION, "end_number": 0, "export_state": None, "request": REQUEST,
    "entry": {"name": "bookshop", "command": ["python", "/opt/crawlers/bookshop_spider.py"], "processes": 4},
    "last_look_at": LATER, "look_problem": None, "next_look_at": "2026-11-20T09:01:07Z", "nudge_sent": 2,
    "nudge_acknowledged": 2,
}  # fmt: skip
TASK_LINE = {
    "task": 2, "attempt": 1, "status": "FAILED", "cause": None, "cause_since": None, "reason": "exit_3",
    "exit_code": 3, "message": None, "node": "node-7", "restarts": 0, "queued_at": AT, "deployed_at": LATER,
    "started_at": LATER, "finished_at": "2026-11-20T09:02:11Z",
}  # fmt: skip
NOTICE = {
    "notice_id": "5d0b4a0e-6f55-5c4c-9d5e-0d2f1e3a7b11", "kind": "started", "run_id": 42, "run_uid": UID,
    "crawler": "bookshop", "status": "PROCESSING", "reason": None, "tasks": {"RUNNING": 1, "QUEUED": 3}, "at": LATER,
}  # fmt: skip
CREATION = {"at": AT, "event": "created", "message": "api run of bookshop, 4 tasks", "actor": "shop-backend"}
EXPORT = {
    "event_id": "8d3a0d5e-4a52-5f0f-8f52-0c3f9a1b7c6d", "kind": "files_ready", "state": "done",
    "location": "s3://crawls/" + UID + ".zip", "problem": None, "created_at": LATER, "finished_at": LATER,
}  # fmt: skip
LOCATION_HEADER = {"Location": {"description": "path of the new resource", "schema": {"type": "string"}}}


def example(value: object, status: int = 200, description: str = "Done.") -> Responses:
    """Return a response with an example. A response 201 also has the header Location."""
    headers = {"headers": LOCATION_HEADER} if status == 201 else {}
    return {status: {"description": description, "content": {"application/json": {"example": value}}} | headers}


def stream_example(example: str) -> Responses:
    text = {"schema": {"type": "string"}, "example": example}
    return {200: {"description": "Server-sent events.", "content": {"text/event-stream": text}}}


# responses of the endpoints, by status
TOKEN = example({"name": "shop-backend", "scopes": ["operate", "read"]})
CRAWLERS = example({"crawlers": ["bookshop", "sleeper"]})
CRAWLER = example({"name": "bookshop", "command": ["python", "/opt/crawlers/bookshop_spider.py"], "processes": 4})
CRAWLER_ENTRIES = example(
    {
        "crawlers": [{"name": "bookshop", "command": ["python", "/opt/crawlers/bookshop_spider.py"], "processes": 4}],
        "problem": None,
    }
)
CRAWLER_RUNS = example(
    {
        "crawlers": [
            {
                "crawler": "bookshop",
                "latest": RUN_SUMMARY,
                "ends": [{"run_id": 41, "status": "COMPLETED", "outcome": "banned"}],
            },
            {"crawler": "sleeper", "latest": None, "ends": []},
        ]
    }
)
RUN_COUNTS = example({"counts": {"PROCESSING": 3, "COMPLETED": 120, "FAILED": 2, "STOPPED": 1}})
RUN_PAGE = example({"runs": [RUN_SUMMARY], "next": "NDIuM2Y5YTFiN2M2ZDhl"})
RUN_VIEW = example(
    {
        "run": RUN_RECORD,
        "place": None,
        "log": [CREATION],
        "exports": [],
        "main_task": "RUNNING",
        "notices": [NOTICE],
        "temporal_url": f"https://temporal.example/namespaces/default/workflows/{WORKFLOW}",
    }
)
TASKS = example({"tasks": [TASK_LINE], "total": 4, "next": 3})
_JOB = {"job_name": f"crawl-{UID.replace('-', '')}-2-1", "job_uid": "9f1b7d0a-6f0b-4c39-8a5e-2f4f7f0f9d21"}
TASK_RECORD = TASK_LINE | _JOB | {"log_tail": "connection refused", "events": ["Pulled: image is there"]}
TASK = example(TASK_RECORD)
RUN_DETAILS = example({"run": RUN_RECORD, "place": None, "log": [CREATION], "exports": [], "tasks": [TASK_RECORD]})
RUN = {"run_id": 42, "run_uid": UID}
STARTED = {"workflow_id": WORKFLOW, "first_execution_run_id": EXECUTION, **RUN}
RUN_STARTED = example(STARTED | {"created": True}, 201, "The run is recorded.") | example(
    STARTED | {"created": False}, 200, "An earlier request with this key has made this run."
)
STOPPED = example({**RUN, "intent": "STOP", "told": "signal"}, 202, "The stop is recorded.")
TASKS_ADDED = example({"first": 4, "count": 2}, 201, "The tasks are queued.")
RESUMED = example({"run": RUN_RECORD, "started": True}, 202, "The run's workflow continues.")
EXPORTED = example({"exports": [EXPORT]})
_CHECKSUM = {
    "X-Archive-SHA256": {
        "description": "checksum of the archive, in hexadecimal digits",
        "schema": {"type": "string"},
    }
}
_ZIP = {"application/zip": {"schema": {"type": "string", "format": "binary"}, "example": "PK..."}}
_ADDRESS = {"type": "object", "properties": {"url": {"type": "string"}}, "required": ["url"]}
ARCHIVE: Responses = {
    200: {
        "description": "The zip; for an archive in a bucket, with `Accept: application/json`, its signed address.",
        "headers": _CHECKSUM,
        "content": _ZIP | {"application/json": {"schema": _ADDRESS, "example": {"url": "https://archives.example/42"}}},
    },
    206: {"description": "The requested range.", "headers": _CHECKSUM, "content": _ZIP},
    307: {
        "description": "In a bucket: `Location` is an address signed for 15 minutes.",
        "headers": _CHECKSUM,
    },
}
_LOG_PART = {"attempt": 1, "text": "page 1 of 20\n", "offset": 13, "ended": False}
LOG: Responses = {
    200: {
        "description": "A part as JSON; with `Accept: text/plain`, the text from the offset to the present end.",
        "content": {
            "application/json": {"example": _LOG_PART},
            "text/plain": {"schema": {"type": "string"}, "example": "page 1 of 20\n"},
        },
    }
}
LOG_STREAM = stream_example(
    'event: log\ndata: {"attempt":1,"text":"page 1 of 20\\n","offset":13,"ended":false}\nid: 1-13\n\n'
)
CHANGES = stream_example(
    "event: ready\ndata: {}\nid: 1763629207250000\n\n"
    'event: notice\ndata: {"notice_id":"5d0b4a0e-6f55-5c4c-9d5e-0d2f1e3a7b11","kind":"started","run_id":42}\n'
    "id: 1763629207250000\n\n"
    'event: run\ndata: {"run_id":42,"status":"PROCESSING"}\nid: 1763629209000000\n\n'
)
SCHEDULE_SUMMARY = {
    "schedule_id": "nightly", "crawler": "bookshop", "flow_id": None, "cron": ["0 3 * * *"], "every_seconds": None,
    "offset_seconds": 0, "time_zone": "Europe/Berlin", "jitter_seconds": 0, "paused": False,
    "next_at": ["2026-11-21T02:00:00Z"], "last_started_at": "2026-11-20T02:00:00Z",
}  # fmt: skip
OCCURRENCE = {
    "at": "2026-11-20T02:00:00Z", "outcome": "started", "reason": None, "detail": "",
    "started_at": "2026-11-20T02:00:00Z", "workflow_id": "crawl-nightly-2026-11-20T02:00:00Z", "run_id": 42,
    "run_status": "COMPLETED", "flow_id": None, "flow_state": None,
}  # fmt: skip
SCHEDULES = example({"schedules": [SCHEDULE_SUMMARY]})
_SCHEDULE_DETAILS = (
    SCHEDULE_SUMMARY
    | {
        "run": REQUEST | {"trigger": "scheduled", "requested_by": "ann"}, "flow": None, "overlap": "skip",
        "missed_window_seconds": 3600, "created_at": AT, "note": "", "pauses": [], "open_workflows": [],
        "counts": {"started": 12, "skipped_overlap": 1, "skipped_missed_window": 0, "queued": 0},
        "occurrences": [OCCURRENCE],
    }
)  # fmt: skip
SCHEDULE = example(_SCHEDULE_DETAILS)
SCHEDULE_MADE = example(_SCHEDULE_DETAILS, 201, "The schedule is made.")
TRIGGERED = example(
    {
        "schedule_id": "nightly",
        "outcome": "started",
        "reason": None,
        "workflow_id": "crawl-nightly-2026-11-20T09:12:44Z",
    }
) | example(
    {"schedule_id": "nightly", "outcome": "asked", "reason": None, "workflow_id": None},
    202,
    "The schedule is triggered, and the outcome is not known yet. A second request would start a second occurrence.",
)
BACKFILLED = example(
    {"schedule_id": "nightly", "occurrences": ["2026-11-16T02:00:00Z", "2026-11-17T02:00:00Z"]},
    202,
    "The runs are started.",
)
DELETED = example({"schedule_id": "nightly", "deleted": True})
_NO_PAUSE = {"paused_at": None, "paused_by": None, "paused_reason": None}
_CHANGE = {"changed_at": AT, "changed_by": "ann"}
INSTALLATION_LIMITS = _NO_PAUSE | {
    "scope": "installation", "runs": None, "tasks": 1000, "weight": None, "changed_at": None, "changed_by": None,
    "runs_begun": 12, "tasks_in_cluster": 340, "places_kept": 3, "runs_held": 0,
}  # fmt: skip
SITE_LIMITS = _CHANGE | {
    "scope": "label:site:example.com", "runs": 2, "tasks": None, "weight": None, "paused_at": LATER, "paused_by": "ann",
    "paused_reason": "the site is being rebuilt", "runs_begun": 2, "tasks_in_cluster": 5, "places_kept": 0,
    "runs_held": 15,
}  # fmt: skip
LIMITS = example({"limits": [INSTALLATION_LIMITS, SITE_LIMITS]})

# bodies of requests
SCHEDULE_BODY = Body(
    openapi_examples={
        "cron": {
            "summary": "Every night at three, in Berlin",
            "value": {"run": REQUEST, "cron": ["0 3 * * *"], "time_zone": "Europe/Berlin"},
        },
        "interval": {
            "summary": "Every quarter of an hour, one after another",
            "value": {"run": {"crawler": "newsroom"}, "every_seconds": 900, "jitter_seconds": 60, "overlap": "queue"},
        },
        "flow": {
            "summary": "A flow every night",
            "value": {
                "flow": {
                    "id": "shops",
                    "members": [{"path": "shop", "work": {"kind": "crawl", "request": {"crawler": "bookshop"}}}],
                },
                "cron": ["0 3 * * *"],
            },
        },
    }
)
PAUSE_BODY = Body(
    openapi_examples={
        "why": {"summary": "With a note", "value": {"reason": "the site is being rebuilt", "actor": "ann"}}
    }
)
LIMIT_BODY = Body(
    openapi_examples={
        "a site": {"summary": "At most two runs of a site", "value": {"label": "site:example.com", "runs": 2}},
        "a tenant": {"summary": "A share three times as large", "value": {"label": "tenant:acme", "weight": 3}},
        "the installation": {
            "summary": "Most tasks in the cluster, and no limit for runs",
            "value": {"tasks": 500, "runs": None},
        },
    }
)
SCOPE_PAUSE_BODY = Body(
    openapi_examples={
        "a site": {
            "summary": "Pause a site",
            "value": {"label": "site:example.com", "reason": "the site is being rebuilt"},
        },
        "the installation": {"summary": "Pause the installation", "value": {"reason": "the cluster is upgraded"}},
    }
)
SCOPE_BODY = Body(
    openapi_examples={
        "a site": {"summary": "Resume a site", "value": {"label": "site:example.com"}},
        "the installation": {"summary": "Resume the installation", "value": {}},
    }
)
BACKFILL_BODY = Body(
    openapi_examples={
        "two days": {"summary": "Two days", "value": {"since": "2026-11-16T00:00:00Z", "until": "2026-11-18T00:00:00Z"}}
    }
)
START_BODY = Body(
    openapi_examples={
        "a run": {"summary": "A run of four tasks", "value": REQUEST | {"requested_by": "ann"}},
        "labels": {
            "summary": "A run under the limits of a site and of a tenant, before runs without a priority",
            "value": {"crawler": "bookshop", "labels": ["site:example.com", "tenant:acme"], "priority": 10},
        },
        "limits": {
            "summary": "A run with a limit of an hour, in which a tenth of the tasks may fail",
            "value": {"crawler": "bookshop", "max_duration_seconds": 3600, "allowed_failures": 0.1},
        },
    }
)
ADD_TASKS_BODY = Body(openapi_examples={"two": {"summary": "Two tasks more", "value": {"count": 2}}})
RESUME_BODY = Body(
    openapi_examples={
        "resume": {"summary": "Continue", "value": {}},
        "reopen": {"summary": "Give the unfinished tasks of a FAILED run another attempt", "value": {"reopen": True}},
    }
)
AUDIT_BODY = Body(
    openapi_examples={
        "dry run": {"summary": "Only report the disagreements", "value": {}},
        "repair": {"summary": "Mend the disagreements", "value": {"repair": True}},
    }
)
STOP_BODY = Body(
    openapi_examples={
        "stop": {"summary": "Stop", "value": {"reason": "wrong site", "actor": "ann"}},
        "force": {"summary": "Do not wait for the grace period", "value": {"force": True}},
    }
)

# error responses for endpoints with a token
COMMON = problems(
    _401="No valid bearer token.",
    _403="The token lacks the scope.",
    _422=NOT_ACCEPTABLE,
    _429="Too many requests; see Retry-After.",
    _503="A part does not answer; try again later (see Retry-After).",
)
