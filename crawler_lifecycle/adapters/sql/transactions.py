"""Decorators that make a method one transaction, and the base class for such methods."""

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from sqlalchemy import Connection

from crawler_lifecycle.adapters.sql.database import Database


class OnDatabase:
    """Base class: its methods read and write rows in one database."""

    def __init__(self, db: Database) -> None:
        self._db = db


S = TypeVar("S", bound=OnDatabase)
P = ParamSpec("P")
T = TypeVar("T")


def transaction(method: Callable[Concatenate[S, Connection, P], T]) -> Callable[Concatenate[S, P], T]:
    """Make a method one transaction for writing. Callers leave out the connection.

    The transaction is committed when the method returns and rolled back when the method raises. If another transaction
    was in the way, the whole method is called again, so the method has no effects beyond its statements.
    """

    @wraps(method)
    def transacted(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._db.transact(lambda tx: method(self, tx, *args, **kwargs))

    return transacted


def reading(method: Callable[Concatenate[S, Connection, P], T]) -> Callable[Concatenate[S, P], T]:
    """Make a method one transaction for reading. Callers leave out the connection."""

    @wraps(method)
    def read(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        with self._db.read() as connection:
            return method(self, connection, *args, **kwargs)

    return read
