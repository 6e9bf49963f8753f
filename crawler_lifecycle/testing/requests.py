"""Requests: the arguments and the request for an attempt, after retries with changed arguments and by retry rules."""

from collections.abc import Mapping

from pydantic import JsonValue

from crawler_lifecycle.contract.flows.retrying import RetryRule
from crawler_lifecycle.contract.requests import RunParameters
from crawler_lifecycle.errors import BadInput


def request_of(
    request: RunParameters, changed: Mapping[str, JsonValue] | None, rule: RetryRule | None
) -> RunParameters:
    """Return the parameters for a crawl's attempt. `changed`: arguments from the last retry."""
    added = {**(changed or {}), **(rule.arguments if rule else {})}
    if not added:
        return request
    texts = {name: str(value) for name, value in added.items()}
    return request.model_copy(update={"arguments": {**request.arguments, **texts}})


def arguments_of(
    path: str, arguments: JsonValue, changed: Mapping[str, JsonValue] | None, rule: RetryRule | None
) -> JsonValue:
    """Return the encoded arguments for a step's attempt."""
    added = {**(changed or {}), **(rule.arguments if rule else {})}
    if not added:
        return arguments
    if arguments is not None and not isinstance(arguments, dict):
        raise BadInput("arguments", f"{path!r} has an item in place of arguments by name: {arguments!r}"[:300])
    return {**(arguments or {}), **added}
