"""Shortens problems for strangers: `/readyz` and the health ports need no token.

A stranger learns the part and one word, such as `database: unavailable`. Addresses, accounts, paths and the words of
other servers stand in the log alone.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from crawler_lifecycle.errors import LifecycleError, NotReady, TemporaryError

logger = logging.getLogger(__name__)
NO_ANSWER, FAILED, NOT_READY, UNAVAILABLE = "no_answer", "failed", "not_ready", "unavailable"


def cause_word(error: LifecycleError) -> str:
    """Return the error's own cause, or the word for its family."""
    if error.cause is not None:
        return error.cause
    if isinstance(error, NotReady):
        return NOT_READY
    return UNAVAILABLE if isinstance(error, TemporaryError) else FAILED


class PublicProblems:
    """Shortens errors for strangers. The log gets the whole message, but a part's repeated problem only once."""

    def __init__(self) -> None:
        self._logged: dict[str, str] = {}  # last logged message by part; the part's last block raised an error

    @contextmanager
    def shortened(self, part: str) -> Iterator[None]:
        """Raise an error from the block again as a TemporaryError with the part's name and one word."""
        try:
            yield
        except LifecycleError as error:
            if self._logged.get(part) != error.message:
                logger.warning("not ready: %s: %s", part, error.message)
            self._logged[part] = error.message
            word = cause_word(error)
            raise TemporaryError(f"{part}: {word}", cause=error.cause) from error
        self._logged.pop(part, None)
