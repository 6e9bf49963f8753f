"""Translates the API's error answers into our own errors."""

from pydantic import ValidationError

from crawler_lifecycle.adapters.http_client import Answer
from crawler_lifecycle.contract.deployment import Problem
from crawler_lifecycle.errors import (
    BadInput,
    Conflict,
    LifecycleError,
    NotFound,
    NotReady,
    Over,
    PermanentError,
    Removed,
    TemporaryError,
)

FIRST_FAILURE = 500  # lowest status for a failure in the API or its dependencies


def error_of(answer: Answer, place: str) -> LifecycleError:
    """Return the error for an answer without success. `place` names the API, such as `the API at http://...`."""
    problem = _problem(answer)
    if problem is None:  # a proxy's answer, or another program's
        return TemporaryError(f"{place} answers {answer.status}, and not as an API of ours: is the address right?")
    if problem.code == BadInput.code:
        mistakes = [(mistake.field, mistake.detail) for mistake in problem.errors] or [("request", problem.detail)]
        return BadInput(*mistakes[0], *mistakes[1:])
    if answer.status >= FIRST_FAILURE:
        return TemporaryError(problem.detail, cause=problem.cause)
    messages: dict[str, tuple[type[LifecycleError], str]] = {
        "unauthenticated": (
            NotReady,
            f"{place} does not know the token: `crawlctl token create` in that installation makes a token",
        ),
        "forbidden": (NotReady, f"{place} refuses the request: {problem.detail}"),
        "too_many_requests": (
            TemporaryError,
            f"{place} refuses more requests with this token for the moment: {problem.detail}",
        ),
        **{kind.code: (kind, problem.detail) for kind in (NotFound, Removed, Conflict, Over)},
    }
    kind, message = messages.get(problem.code, (PermanentError, f"{place} answers {answer.status}: {problem.detail}"))
    return kind(message)


def _problem(answer: Answer) -> Problem | None:
    try:
        return Problem.model_validate_json(answer.body)
    except ValidationError:
        return None
