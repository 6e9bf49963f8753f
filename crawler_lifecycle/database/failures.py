"""Translate the drivers' errors to TemporaryError, PermanentError, or NotReady if an operator has to act."""

import sqlite3
from typing import Final

from sqlalchemy.exc import DBAPIError, IntegrityError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from crawler_lifecycle.errors import Conflict, LifecycleError, NotReady, PermanentError, TemporaryError

UPGRADE: Final = "run `crawlctl db upgrade`"

# SQLite's result codes, without the additions in the higher bytes
BUSY, LOCKED, READONLY, IO_ERROR, CORRUPT, FULL, CANNOT_OPEN, NOT_A_DATABASE = 5, 6, 8, 10, 11, 13, 14, 26
# error numbers in MySQL and MariaDB
CONTENTION = {1020, 1205, 1213}  # the row has changed since the read, time-out of the wait for a lock, deadlock
NO_SUCH_TABLE_OR_COLUMN = {1054, 1146}
NO_ACCESS = {1044, 1045, 1049, 1130, 1142, 1698, 2059}  # wrong account, password or database, or a missing right
NO_PRIMARY = {1290, 1792, 1836}  # the server takes no writes: another server may be the primary now
DOWN = {2002, 2003, 2005}  # no connection to the server
TOO_LONG = {1969, 3024}  # the server has ended the statement at its time limit
NO_TLS = 2026
UNPROVED = "CERTIFICATE_VERIFY_FAILED"  # in the text of an error with a number of DOWN
STATE_ERRORS = ("OperationalError", "InternalError", "InterfaceError")  # from the server's state, not the statement


class Contended(TemporaryError):
    """Another transaction was in the way; nothing was written and the same transaction may be tried again."""


def our_error(error: SQLAlchemyError, where: str) -> LifecycleError:
    """Return our error for the driver's error; `where` is the database's address without its password."""
    if isinstance(error, PoolTimeout):
        return TemporaryError(f"all connections to the database at {where} are in use: {error}")
    if not isinstance(error, DBAPIError):
        return PermanentError(f"the database at {where}: {error}")
    if isinstance(error, IntegrityError):
        return Conflict(f"the database at {where} refuses a row: {error.orig}")
    if isinstance(error.orig, sqlite3.Error):
        return _sqlite_error(error, error.orig, where)
    return _mysql_error(error, where)


def _sqlite_error(error: DBAPIError, cause: sqlite3.Error, where: str) -> LifecycleError:
    code = getattr(cause, "sqlite_errorcode", 0) & 0xFF
    if code in (BUSY, LOCKED):
        return Contended(f"the database at {where} is locked by another process")
    if code in (CANNOT_OPEN, READONLY, NOT_A_DATABASE, CORRUPT):
        return NotReady(f"the database file {where} cannot be used ({cause}): check the file and its folder")
    if code in (IO_ERROR, FULL):
        return TemporaryError(f"the database file {where} cannot be written ({cause}): check the disk")
    if str(cause).startswith(("no such table", "no such column")):
        return NotReady(f"the database at {where} lacks a part of its schema ({cause}): {UPGRADE}")
    return _other_error(error, where)


def _mysql_error(error: DBAPIError, where: str) -> LifecycleError:
    code = error.orig.args[0] if error.orig and error.orig.args else 0
    if code in CONTENTION:
        return Contended(f"the database at {where} was busy with the same rows: {error.orig}")
    if code in NO_SUCH_TABLE_OR_COLUMN:
        return NotReady(f"the database at {where} lacks a part of its schema ({error.orig}): {UPGRADE}")
    if code in NO_ACCESS:
        return NotReady(f"the database at {where} does not let us in ({error.orig}): check its address and the account")
    if code == NO_TLS or UNPROVED in str(error.orig):
        fault = "encrypt" if code == NO_TLS else "prove its name"
        return NotReady(f"the database at {where} does not {fault} ({error.orig}): see CRAWLER_DATABASE__TLS")
    if code in DOWN or code in TOO_LONG:
        is_reading = (error.statement or "").lstrip(" (").startswith(("SELECT", "WITH"))
        remedy = "ask for fewer rows" if is_reading else "does another session hold a lock, such as a backup?"
        too_long = f"ended a statement that took too long: {remedy}"
        fault = f"does not answer ({error.orig}): is it up?" if code in DOWN else too_long
        return TemporaryError(f"the database at {where} {fault}")
    return _other_error(error, where)


def _other_error(error: DBAPIError, where: str) -> LifecycleError:
    if error.connection_invalidated or type(error).__name__ in STATE_ERRORS:
        return TemporaryError(f"the database at {where} had trouble: {error.orig}")
    return PermanentError(f"the database at {where} refuses a statement: {error.orig}")
