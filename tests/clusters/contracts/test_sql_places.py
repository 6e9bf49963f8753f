"""The place of an installation's jobs is kept, and only replaced by whoever read the one before."""

from crawler_lifecycle.clusters.ports import JobsPlace
from crawler_lifecycle.clusters.store import SqlPlaces
from crawler_lifecycle.database.database import Database

FIRST, SECOND, THIRD = (
    JobsPlace("crawls", "uid-1"),
    JobsPlace("crawls", "uid-2", "cluster"),
    JobsPlace("crawls", "uid-3"),
)


def test_the_first_place_is_kept(database: Database) -> None:
    places = SqlPlaces(database)
    assert places.known() is None

    places.keep(FIRST, None)
    places.keep(SECOND, None)

    assert SqlPlaces(database).known() == FIRST


def test_a_place_is_replaced_by_whoever_read_it(database: Database) -> None:
    places = SqlPlaces(database)
    places.keep(FIRST, None)

    places.keep(SECOND, FIRST)
    places.keep(THIRD, FIRST)

    assert places.known() == SECOND
