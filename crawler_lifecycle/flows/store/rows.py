"""Translation between the ledger's rows in the database and the rules' rows."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from pydantic import TypeAdapter
from sqlalchemy import Column, Row, type_coerce

from crawler_lifecycle.database.flow_schema import flow_groups, flow_members
from crawler_lifecycle.database.types import Document
from crawler_lifecycle.flows.rules.rows import FlowRow, GroupRow, MemberRow, NeedRow
from crawler_lifecycle.model.flow_retrying import RetryPolicy

members, groups = flow_members.c, flow_groups.c
NEEDS = TypeAdapter(tuple[NeedRow, ...])
NO_NEEDS = NO_OUTCOMES = "[]"
# fields whose columns have other names
MEMBER_NAMES = {"group": "group_number", "end": "end_number"}
GROUP_NAMES = {"context": "context_fingerprint"}
FIELDS_OF_GROUP = tuple(GroupRow.__dataclass_fields__)
# columns by field, in the order of the fields
MEMBER_COLUMNS: list[Column[Any]] = [members[MEMBER_NAMES.get(name, name)] for name in MemberRow._fields]
GROUP_COLUMNS: list[Column[Any]] = [groups[GROUP_NAMES.get(name, name)] for name in FIELDS_OF_GROUP]
# columns that change while a member continues; the others change with the member's definition
STATE_FIELDS = MemberRow._fields[MemberRow._fields.index("state") :]
STATE_COLUMNS = MEMBER_COLUMNS[-len(STATE_FIELDS) :]
# retry policies are read as texts: most members share a few policies, and each text is parsed once
READ_MEMBER = [type_coerce(column, Document) if column is members.retry else column for column in MEMBER_COLUMNS]
FLOW_FIELDS = tuple(name for name in FlowRow.__dataclass_fields__ if name != "id")
AT_NEEDS, AT_RETRY, AT_OUTCOMES = (MemberRow._fields.index(name) for name in ("needs", "retry", "tries_by_outcome"))


def flow_row(row: Row[Any]) -> FlowRow:
    return FlowRow(row.flow_id, **{name: row._mapping[name] for name in FLOW_FIELDS})


def member_row(values: Iterable[Any]) -> MemberRow:
    """Return the member's row from the values of READ_MEMBER."""
    fields = list(values)
    fields[AT_NEEDS] = needs_of(fields[AT_NEEDS])
    fields[AT_RETRY] = _policy(fields[AT_RETRY])
    outcomes = fields[AT_OUTCOMES]
    fields[AT_OUTCOMES] = () if outcomes == NO_OUTCOMES else tuple(map(tuple, json.loads(outcomes)))
    return MemberRow._make(fields)


def group_row(values: Iterable[Any]) -> GroupRow:
    """Return the group's row from the values of GROUP_COLUMNS."""
    fields = dict(zip(FIELDS_OF_GROUP, values, strict=True))
    return GroupRow(**{**fields, "needs": needs_of(fields["needs"])})


def member_values(row: MemberRow) -> list[Any]:
    """Return the values for MEMBER_COLUMNS."""
    fields: list[Any] = list(row)
    fields[AT_NEEDS] = needs_text(row.needs)
    fields[AT_OUTCOMES] = _outcomes_text(row)
    return fields


def state_values(row: MemberRow) -> list[Any]:
    """Return the values for STATE_COLUMNS."""
    fields: list[Any] = list(row)
    fields[AT_OUTCOMES] = _outcomes_text(row)
    return fields[-len(STATE_FIELDS) :]


def group_values(row: GroupRow) -> Mapping[str, Any]:
    """Return the group's values by column."""
    values = {column.name: getattr(row, name) for column, name in zip(GROUP_COLUMNS, FIELDS_OF_GROUP, strict=True)}
    return values | {"needs": needs_text(row.needs)}


def needs_text(needs: tuple[NeedRow, ...]) -> str:
    return NEEDS.dump_json(needs, exclude_defaults=True).decode() if needs else NO_NEEDS


def path_uid(path: str) -> str:
    """Return a short text for the path, for a unique index."""
    return hashlib.blake2b(path.encode(), digest_size=16).hexdigest()


def _outcomes_text(row: MemberRow) -> str:
    return json.dumps(row.tries_by_outcome) if row.tries_by_outcome else NO_OUTCOMES


def needs_of(text: str) -> tuple[NeedRow, ...]:
    return () if text == NO_NEEDS else _parsed_needs(text)


@lru_cache(16)  # members of a fan-out have equal needs; the text may be long for a fan-in
def _parsed_needs(text: str) -> tuple[NeedRow, ...]:
    return NEEDS.validate_json(text)


@lru_cache(256)
def _policy(text: str) -> RetryPolicy:
    return RetryPolicy.model_validate_json(text)
