"""Checks that a request body is JSON which every reader understands alike, before a lenient reader takes it."""

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any, NoReturn

from starlette.datastructures import Headers
from starlette.responses import Response

from crawler_lifecycle.base.refusals import LONGEST_FIELD
from crawler_lifecycle.errors import BadInput
from crawler_lifecycle.http.problems import MOST_MISTAKES, problem, refusal

BODY = "body"
DEEPEST = 200  # levels; readers deeper in the stack fail at their limit of recursion, some of them without words
TOO_DEEP = f"is nested more than {DEEPEST} deep"


def refuse_body(headers: Headers, body: bytes) -> Response | None:
    """Return the refusal of a request's body, or None to admit the body."""
    media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json":
        return problem(415, f"expected application/json, not {media_type[:40] or 'a body without it'}", "Content-Type")
    try:
        _check(body.decode())
    except ValueError as error:  # no UTF-8, no JSON, or a number with thousands of digits
        return problem(400, f"expected JSON in UTF-8: {error}", BODY)
    except BadInput as error:
        return refusal(error)
    return None


def _check(text: str) -> None:
    """Raise ValueError for no JSON, and BadInput for repeated keys, too deep nesting and half surrogate pairs."""
    repeated = list[tuple[object, str]]()  # objects with their repeated keys

    def read_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        content = dict(pairs)
        if len(content) < len(pairs) and len(repeated) < MOST_MISTAKES:
            times = Counter(name for name, _ in pairs)
            repeated.extend((content, name) for name in content if times[name] > 1)
        return content

    try:
        content = json.loads(text, object_pairs_hook=read_object, parse_constant=_refuse_constant)
        if _is_deep(content):
            raise BadInput(BODY, TOO_DEEP)
        json.dumps(content, ensure_ascii=False).encode()  # no later part can store or send a half pair
    except RecursionError as error:
        raise BadInput(BODY, TOO_DEEP) from error
    except UnicodeEncodeError as error:
        raise BadInput(BODY, "contains half of a surrogate pair, which is no character") from error
    if repeated:
        places = {id(value): field for field, value in _fields(content)}
        fields = [_inner(places.get(id(value), ""), name) for value, name in repeated]
        first, *more = [(field or BODY, "expected once") for field in fields]
        raise BadInput(*first, *more)


def _fields(content: object) -> Iterator[tuple[str, object]]:
    """Yield the body's lists and objects with their fields, such as `arguments`; the whole body has an empty field."""
    unread = [("", content)]
    while unread:
        field, value = unread.pop()
        yield field, value
        children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        unread += [(_inner(field, str(name)), child) for name, child in children if isinstance(child, dict | list)]


def _inner(field: str, name: str) -> str:
    return (f"{field}.{name[:LONGEST_FIELD]}" if field else name)[:LONGEST_FIELD]


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")


def _is_deep(content: object) -> bool:
    level = [content]
    for _ in range(DEEPEST):
        parents = [value for value in level if isinstance(value, dict | list)]
        level = [child for parent in parents for child in (parent.values() if isinstance(parent, dict) else parent)]
        if not level:
            return False
    return True
