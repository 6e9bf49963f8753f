"""Words for pydantic's errors, in a single table for all doors."""

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic_core import ErrorDetails

LONGEST_EXPECTATION = 300  # characters
LONGEST_INPUT = 60  # characters
LONGEST_FIELD = 200  # characters in a field's name: a client may send long names
WHOLE_NUMBER, NUMBER, TRUTH = "expected a whole number", "expected a number", "expected true or false"
OBJECT, TIME = "expected an object", "expected a time such as 2026-11-20T03:00:00Z"
# pydantic's type for the error -> words; the names in braces come from the error's context
WORDS = {
    "missing": "is missing",
    "extra_forbidden": "is not a known field",
    "greater_than_equal": "expected at least {ge}, not {input}",
    "greater_than": "expected more than {gt}, not {input}",
    "less_than_equal": "expected at most {le}, not {input}",
    "less_than": "expected less than {lt}, not {input}",
    "string_too_short": "expected {min_length} or more characters",
    "string_too_long": "expected at most {max_length} characters",
    "too_short": "expected {min_length} or more entries",
    "too_long": "expected at most {max_length} entries",
    "enum": "expected {expected}",
    "literal_error": "expected {expected}",
    "string_pattern_mismatch": "expected a text like {pattern}",
    "string_type": "expected a text",
    "int_type": WHOLE_NUMBER,
    "int_parsing": WHOLE_NUMBER,
    "int_from_float": WHOLE_NUMBER,
    "float_type": NUMBER,
    "float_parsing": NUMBER,
    "finite_number": NUMBER,
    "bool_type": TRUTH,
    "bool_parsing": TRUTH,
    "list_type": "expected a list",
    "tuple_type": "expected a list",
    "union_tag_invalid": "expected {discriminator} to be one of {expected_tags}",
    "union_tag_not_found": "expected the field {discriminator}",
    "dict_type": OBJECT,
    "model_type": OBJECT,
    "model_attributes_type": OBJECT,
    "datetime_type": TIME,
    "datetime_parsing": TIME,
    "datetime_from_date_parsing": TIME,
    "timezone_aware": f"{TIME}, with a time zone",
}

# pattern -> words
PATTERNS = {
    r"^[\w.-]+:[\w.]+$": "expected `module:Class` or `module:function`",
    r"^[a-z0-9][a-z0-9_.-]*:\S+$": "expected a kind, a colon and a value without blanks, such as site:example.com "
    "(the kind: small letters, digits and . _ -)",
    r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$": "expected a name such as nightly-books: letters, digits and . _ - with a "
    "letter or digit at the beginning, 100 at most",
    r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$": "expected a name such as cluster-1: small letters, digits and inner "
    "hyphens, 63 at most",
    r"^[!-~]+$": "expected visible ASCII characters without blanks",
    r"^(run|pause|drain)$": "expected run, pause or drain",
    r"^[A-Za-z_][A-Za-z0-9_]*$": "expected the name of a variable: letters, digits and _ without a digit at the "
    "beginning",
}


def expectation(error: ErrorDetails | Mapping[str, Any]) -> str:
    """Return the field's expected value in a short line. An error by our own validators keeps its words."""
    words = WORDS.get(error["type"])
    if words is None:
        return str(error["msg"]).removeprefix("Value error, ")[:LONGEST_EXPECTATION]
    values = dict(error.get("ctx", {}))
    if values.get("pattern") in PATTERNS:
        return f"{PATTERNS[values['pattern']]}, not {str(error['input'])[:LONGEST_INPUT]!r}"
    if "{input}" in words:  # otherwise the input may be a long text or a secret
        values["input"] = error["input"]
    return words.format(**values)[:LONGEST_EXPECTATION]


def field_name(location: Iterable[object]) -> str:
    """Return the field at pydantic's location, such as `crawler.processes`; empty for the whole model.

    Pydantic marks errors in a mapping's keys by `[key]`; the field's name is enough for readers.
    """
    return ".".join(str(part) for part in location if part != "[key]")[:LONGEST_FIELD]
