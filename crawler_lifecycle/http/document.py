"""Descriptions for the API's OpenAPI document. Fields are described, and have examples, in the models."""

from pydantic import BaseModel

from crawler_lifecycle.http.problems import Responses, problems

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
| 410 | `removed` | the run existed, and retention has removed it |
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
NO_TASK = "There is no such run or task."
NO_SCHEDULE = "There is no such schedule."
NO_FLOW = "There is no such flow."
NO_FLOW_OR_JOB = "There is no such flow or job."
NO_FLOW_OR_ITEM = "There is no such flow or item."
NOT_ACCEPTABLE = "The request is not acceptable: `field` names the part."

LOCATION_HEADER = {"Location": {"description": "path of the new resource", "schema": {"type": "string"}}}


def answer(status: int, description: str, model: type[BaseModel] | None = None) -> Responses:
    """Return a response. The model is needed beside an endpoint's own status. 201 also has the header Location."""
    headers = {"headers": LOCATION_HEADER} if status == 201 else {}
    return {status: {"description": description} | headers | ({"model": model} if model else {})}


def stream_answer(example: str) -> Responses:
    text = {"schema": {"type": "string"}, "example": example}
    return {200: {"description": "Server-sent events.", "content": {"text/event-stream": text}}}


# error responses for endpoints with a token
COMMON = problems(
    _401="No valid bearer token.",
    _403="The token lacks the scope.",
    _422=NOT_ACCEPTABLE,
    _429="Too many requests; see Retry-After.",
    _503="A part does not answer; try again later (see Retry-After).",
)
