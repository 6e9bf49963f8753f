"""Decoding of the API server's answers.

An object with an undocumented shape becomes `Broken`: the object keeps its identity, if any, and hides no other object
in its list.
"""

import re
from dataclasses import dataclass
from typing import Generic, TypeVar

import msgspec

from crawler_lifecycle.clusters.kubernetes.objects import (
    LABELS,
    ClusterEvent,
    Job,
    Labels,
    Named,
    Namespace,
    Object,
    Pod,
)
from crawler_lifecycle.errors import TemporaryError

ESCAPES = re.compile(
    rb"\\\\"  # an escaped backslash: `u` after it begins no escape
    rb"|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"  # a whole surrogate pair
    rb"|(?P<lone>\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
)
REPLACEMENT = rb"\ufffd"
NOT_DECODABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class Unreadable(TemporaryError):
    """The API server, or a proxy in front, sent an answer that does not fit the request."""


@dataclass(frozen=True, slots=True)
class Broken:
    """A broken item cannot be decoded. Without labels its run is unknown."""

    name: str
    uid: str
    labels: Labels
    problem: str


Item = TypeVar("Item", bound=Object)


@dataclass(frozen=True, slots=True)
class Items(Generic[Item]):
    """Items are the decoded objects of a list page, and the objects that cannot be decoded."""

    whole: list[Item]
    broken: list[Broken]


class _List(msgspec.Struct, Generic[Item], frozen=True, gc=False):
    kind: str
    items: list[Item] | None


class _ListOfRaw(msgspec.Struct, frozen=True, gc=False):
    kind: str
    items: list[msgspec.Raw] | None


class Decoder(Generic[Item]):
    def __init__(self, kind: str, item: type[Item]) -> None:
        self._kind = kind
        self._item = msgspec.json.Decoder(item)
        self._list = msgspec.json.Decoder(_List[item])  # type: ignore[valid-type]

    def item(self, body: bytes) -> Item:
        """Decode a single object. Raise Unreadable if the body holds no such object."""
        try:
            return self._item.decode(_with_valid_text(body))
        except NOT_DECODABLE as error:
            raise Unreadable(f"the API server's answer is no {self._kind}: {error}") from error

    def page(self, body: bytes) -> Items[Item]:
        """Decode a list page. If an item is broken, decode the items separately, so that no other item is lost.

        Raise Unreadable if the body holds no list of this kind.
        """
        try:
            page = self._list.decode(body)
            self._check_kind(page.kind)
            return Items(page.items or [], [])
        except NOT_DECODABLE:
            return self._item_by_item(body)

    def _item_by_item(self, body: bytes) -> Items[Item]:
        try:
            raw = _LIST_OF_RAW.decode(_with_valid_text(body))
        except NOT_DECODABLE as error:
            raise Unreadable(f"the API server's answer is no list of {self._kind}s: {error}") from error
        self._check_kind(raw.kind)
        items: Items[Item] = Items([], [])
        for item in raw.items or []:
            try:
                items.whole.append(self._item.decode(item))
            except NOT_DECODABLE as error:
                items.broken.append(_broken(item, str(error)))
        return items

    def _check_kind(self, kind: str) -> None:
        if kind != f"{self._kind}List":
            raise Unreadable(f"the API server answered with a {kind} instead of a {self._kind}List")


_LIST_OF_RAW, _ANYTHING = msgspec.json.Decoder(_ListOfRaw), msgspec.json.Decoder()


def _with_valid_text(body: bytes) -> bytes:
    """Replace invalid text: a string with half a surrogate pair would make the whole list unreadable."""
    return ESCAPES.sub(_without_lone_surrogate, body.decode("utf-8", "replace").encode())


def _without_lone_surrogate(escape: re.Match[bytes]) -> bytes:
    return REPLACEMENT if escape["lone"] else escape[0]


def _broken(item: msgspec.Raw, problem: str) -> Broken:
    """Return the item's identity, as far as its parts have the documented shape."""
    metadata = _mapping_or_empty(_mapping_or_empty(_decoded_or_none(item)).get("metadata"))
    labels = _mapping_or_empty(metadata.get("labels"))
    known = {field: label for field, key in LABELS.items() if isinstance(label := labels.get(key), str)}
    name, uid = (value if isinstance(value, str) else "" for value in (metadata.get("name"), metadata.get("uid")))
    return Broken(name, uid, Labels(**known), problem)


def _decoded_or_none(item: msgspec.Raw) -> object:
    try:
        return _ANYTHING.decode(item)
    except NOT_DECODABLE:
        return None


def _mapping_or_empty(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {}


JOBS = Decoder("Job", Job)
PODS = Decoder("Pod", Pod)
EVENTS = Decoder("Event", ClusterEvent)
# the same decoder for any object's metadata: NAMED for a single object, METADATA for a list
NAMED = METADATA = Decoder("PartialObjectMetadata", Named)
NAMESPACES = Decoder("Namespace", Namespace)
