"""Is the next page of a list found, wherever the list says that there is one?"""

import pytest

from crawler_lifecycle.clusters.kubernetes.http.answers import LONGEST_HEAD, ApiFailed, continuation

ITEMS = b'"items":[{"metadata":{"continue":"of an item"}}]'
LONG = b"x" * LONGEST_HEAD


@pytest.mark.parametrize(
    ("page", "following"),
    [
        (b'{"kind":"JobList","metadata":{"continue":"next"},' + ITEMS + b"}", "next"),
        (b'{"kind":"JobList","metadata":{"resourceVersion":"7"},' + ITEMS + b"}", None),
        (b'{"kind":"JobList","metadata":{"continue":"next"},"items":[{', "next"),  # and nothing behind is read
        (b'{"kind":"JobList", "metadata": {"continue": "next"}, ' + ITEMS + b"}", "next"),
        (b'{"kind":"JobList",' + ITEMS + b',"metadata":{"continue":"next"}}', "next"),
        (b'{"kind":"JobList",' + ITEMS + b"}", None),
        (b'{"metadata":{"of":{"a":1,"items":[]},"continue":"next"},' + ITEMS + b"}", "next"),
        (b'{"metadata":{"resourceVersion":",\\"items\\":[","continue":"next"},' + ITEMS + b"}", "next"),
        (b'{"metadata":{"resourceVersion":"' + LONG + b'","continue":"next"},' + ITEMS + b"}", "next"),
        (b'{"metadata":{"continue":"' + LONG + b'"},' + ITEMS + b"}", LONG.decode()),
    ],
)
def test_it_is_found(page: bytes, following: str | None) -> None:
    assert continuation(page) == following


@pytest.mark.parametrize("page", [b"", b"<html>", b'{"metadata":7,"items":[]}', b'{"metadata":{"continue":7}}'])
def test_what_is_no_list_is_said(page: bytes) -> None:
    with pytest.raises(ApiFailed, match="no list"):
        continuation(page)
