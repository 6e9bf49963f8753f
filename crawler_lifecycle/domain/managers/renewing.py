"""Renewing: an item's parameters with changed arguments, for a retry by people."""

from collections.abc import Mapping

from pydantic import JsonValue

from crawler_lifecycle.contract.managers.items import Override
from crawler_lifecycle.contract.requests import RunParameters, refusals_as_bad_input

SPIDER_ARGS = "spider_args"  # the author's word for a crawl's arguments


def renewed(
    override: Override, request: RunParameters, arguments: Mapping[str, JsonValue] | None
) -> tuple[Override, RunParameters]:
    """Return the item's parameters and its request with the arguments over the former arguments."""
    if not arguments:
        return override, request
    former = override.get(SPIDER_ARGS)
    changed: Override = {**override, SPIDER_ARGS: {**(former if isinstance(former, dict) else {}), **arguments}}
    texts = {name: value if isinstance(value, str) else str(value) for name, value in arguments.items()}
    with refusals_as_bad_input():
        fields = request.model_dump(exclude_none=True)
        return changed, RunParameters.model_validate({**fields, "arguments": {**request.arguments, **texts}})
