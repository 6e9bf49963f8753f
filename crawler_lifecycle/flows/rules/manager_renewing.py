"""Renewing: an item's parameters with people's corrections for a retry, and changes from attempt to attempt."""

from collections.abc import Mapping

from pydantic import JsonValue

from crawler_lifecycle.model.manager_items import Override
from crawler_lifecycle.model.requests import RunParameters, refusals_as_bad_input

SPIDER, SPIDER_ARGS = "spider", "spider_args"  # the author's words for a crawler, and for a crawl's arguments


def changed_arguments(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, str | None]:
    """Return the arguments with other values than before. None: the argument is gone."""
    gone = dict.fromkeys(before.keys() - after.keys())
    return {**{name: value for name, value in after.items() if before.get(name) != value}, **gone}


def corrected(override: Override, arguments: Mapping[str, JsonValue] | None, spider: str | None) -> Override:
    """Return the item's parameters with new arguments over the previous arguments, and with the crawler."""
    former = override.get(SPIDER_ARGS)
    changed: Override = {**override}
    if arguments:
        changed[SPIDER_ARGS] = {**(former if isinstance(former, dict) else {}), **arguments}
    if spider is not None:
        changed[SPIDER] = spider
    return changed


def renewed(
    request: RunParameters, arguments: Mapping[str, JsonValue] | None, spider: str | None = None
) -> RunParameters:
    """Return the item's request with new arguments over the previous arguments, and with the crawler."""
    texts = {name: value if isinstance(value, str) else str(value) for name, value in (arguments or {}).items()}
    with refusals_as_bad_input():
        fields = request.model_dump(exclude_none=True)
        changed = {**fields, "arguments": {**request.arguments, **texts}, "crawler": spider or request.crawler}
        return RunParameters.model_validate(changed)
