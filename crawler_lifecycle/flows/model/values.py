"""Values between members: arguments, contexts and results, as JSON with tags for further types.

A tagged value is an object with the key `$`. A dict with the key, or with keys beside texts, is tagged itself.
Values are no pickles: to decode a value runs no code from its author.
"""

import base64
import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from math import isfinite
from typing import Any
from uuid import UUID

from pydantic import BaseModel, JsonValue
from pydantic_core import to_jsonable_python

from crawler_lifecycle.base.limits import DEEPEST_VALUE
from crawler_lifecycle.errors import BadInput, PermanentError

TAG, VALUE = "$", "v"
HALF_OF_A_PAIR = re.compile("[\ud800-\udfff]")


class TooLarge(PermanentError):
    """A value has more bytes than its limit."""


_TO_TEXT: dict[type, Callable[[Any], JsonValue]] = {
    datetime: datetime.isoformat,
    date: date.isoformat,
    time: time.isoformat,
    timedelta: lambda value: [value.days, value.seconds, value.microseconds],
    Decimal: str,
    UUID: str,
    bytes: lambda value: base64.b64encode(value).decode(),
}
_FROM_TEXT: dict[str, Callable[[Any], object]] = {
    "datetime": datetime.fromisoformat,
    "date": date.fromisoformat,
    "time": time.fromisoformat,
    "timedelta": lambda parts: timedelta(*parts),
    "Decimal": Decimal,
    "UUID": UUID,
    "bytes": base64.b64decode,
    "float": float,
    "tuple": lambda items: tuple(decode(item) for item in items),
    "set": lambda items: {decode(item) for item in items},
    "frozenset": lambda items: frozenset(decode(item) for item in items),
    "dict": lambda pairs: {decode(key): decode(value) for key, value in pairs},
}


def encode(field: str, value: object) -> JsonValue:
    """Return the value as JSON; raise BadInput, with the place, if the value's type has no form in JSON."""
    return _encoded(field, value, DEEPEST_VALUE)


def decode(content: JsonValue) -> Any:
    """Return the value for JSON from `encode`."""
    if isinstance(content, list):
        return [decode(item) for item in content]
    if not isinstance(content, dict):
        return content
    if TAG in content:
        return _FROM_TEXT[str(content[TAG])](content[VALUE])
    return {key: decode(value) for key, value in content.items()}


def untagged(value: object) -> JsonValue:
    """Return the value as JSON without tags, for people and programs: a time and NaN become their texts.

    Half a surrogate pair, as from `os.fsdecode`, becomes U+FFFD: no terminal and no HTTP client takes such a text.
    """
    content: JsonValue = to_jsonable_python(_printable(value), bytes_mode="base64", inf_nan_mode="null")
    return content


def _printable(value: object) -> object:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, str):
        return HALF_OF_A_PAIR.sub("\N{REPLACEMENT CHARACTER}", value)
    if isinstance(value, Mapping):
        return {_printable(key): _printable(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return type(value)(map(_printable, value))
    return value


def to_text(field: str, value: object, most_bytes: int) -> str:
    """Return the value as JSON text; raise BadInput or TooLarge if the value cannot be kept."""
    text = json.dumps(encode(field, value), separators=(",", ":"))
    check_size(field, len(text), most_bytes)
    return text


def from_text(text: str) -> Any:
    return decode(json.loads(text))


def size_of(content: JsonValue) -> int:
    return len(json.dumps(content, separators=(",", ":")))


def check_encoded(field: str, content: JsonValue, most_bytes: int) -> None:
    """Raise BadInput or TooLarge for JSON in a wrong form, such as JSON from an HTTP client."""
    check_size(field, size_of(content), most_bytes)
    try:
        decode(content)
    except (LookupError, ValueError, TypeError, ArithmeticError, RecursionError) as error:
        raise BadInput(_short(field), f"contains a wrong value under the key {TAG!r}: {error!r}"[:300]) from error


def check_size(field: str, size: int, most_bytes: int) -> None:
    if size > most_bytes:
        raise TooLarge(f"{field}: {size} bytes as JSON, at most {most_bytes} are possible")


def _encoded(place: str, value: object, levels: int) -> JsonValue:
    if levels < 0:
        raise BadInput(_short(place), f"is nested more than {DEEPEST_VALUE} deep, or contains itself")
    if isinstance(value, Enum):
        return _encoded(place, value.value, levels)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int | str):
        return int(value) if isinstance(value, int) else str(value)
    if isinstance(value, float):
        return float(value) if isfinite(value) else {TAG: "float", VALUE: repr(float(value))}
    if type(value) in _TO_TEXT:
        return {TAG: type(value).__name__, VALUE: _TO_TEXT[type(value)](value)}
    return _encoded_container(place, value, levels - 1)


def _encoded_container(place: str, value: object, levels: int) -> JsonValue:
    if isinstance(value, list):
        return [_encoded(f"{place}[{at}]", item, levels) for at, item in enumerate(value)]
    if isinstance(value, tuple):
        return {TAG: "tuple", VALUE: [_encoded(f"{place}[{at}]", item, levels) for at, item in enumerate(value)]}
    if isinstance(value, set | frozenset):
        items = [_encoded(f"{place}{{}}", item, levels) for item in value]
        return {TAG: type(value).__name__, VALUE: sorted(items, key=lambda item: json.dumps(item, sort_keys=True))}
    if isinstance(value, Mapping):
        return _encoded_mapping(place, value, levels)
    if isinstance(value, BaseModel):
        return _encoded_mapping(place, value.model_dump(), levels)
    if is_dataclass(value) and not isinstance(value, type):
        return _encoded_mapping(place, {part.name: getattr(value, part.name) for part in fields(value)}, levels)
    raise BadInput(_short(place), f"a value with the type {type(value).__name__} cannot be kept as JSON")


def _encoded_mapping(place: str, value: Mapping[Any, object], levels: int) -> JsonValue:
    if TAG not in value and all(type(key) is str for key in value):
        return {key: _encoded(f"{place}.{key}", item, levels) for key, item in value.items()}
    pairs: list[JsonValue] = [
        [_encoded(f"{place} key", key, levels), _encoded(f"{place}[{key!r}]", item, levels)]
        for key, item in value.items()
    ]
    return {TAG: "dict", VALUE: pairs}


def _short(place: str) -> str:
    return place if len(place) <= 200 else f"{place[:197]}..."
